"""What decides, beside the options, which numbers come out: libraries, threads and device of a worker."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from studio.messages import Message
from studio.training.events import EventLog, read_events
from studio.training.run_dir import RunDir

_LIBRARIES = ("torch", "transformers", "peft", "accelerate", "numpy")


@cache
def versions() -> Mapping[str, str]:
    """Of the libraries that decide what comes out; to read them takes a twentieth of a short run."""
    return {name: version(name) for name in _LIBRARIES}


def machine() -> dict[str, Any]:
    """With the same of all this, a run gives the same weights again, bit for bit on a CPU."""
    import torch

    has_gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if has_gpu else "cpu",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def change_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> Message | None:
    """What is different from where a run was begun; None if nothing is."""
    old, new = _flat(before), _flat(now)
    changes = [f"{name} {old[name]} → {new[name]}" for name in new if name in old and old[name] != new[name]]
    if not changes:
        return None
    return Message(
        "The run was started in another environment ({changes}): it continues, but its "
        "numbers may differ from those of an uninterrupted run.",
        changes=", ".join(changes),
    )


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    libraries = facts.get("versions") or {}
    return {**{name: value for name, value in facts.items() if name != "versions"}, **libraries}


def note_machine(run: RunDir, events: EventLog) -> Message | None:
    """Records what the numbers depend on; gives back what a resumption has that is something else."""
    now = machine()
    begun = next((event for event in read_events(run.events)[0] if event["kind"] == "machine"), None)
    change = change_of(begun, now) if begun else None
    if begun is None or change is not None:
        events.write("machine", **now)
    return change
