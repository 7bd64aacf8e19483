"""The process of a run: `python -m studio.training.worker RUN_DIR`. Several of them are started by
`studio.training.launch`; then the first one of each machine keeps the record there.

Reads `config.json`, trains, and leaves `result.json` last of all, whatever happened. Output goes to the
run's log; everything the page shows goes to the run's events. The libraries are loaded only when the run
is locked and listens for a stop.
"""

import logging
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from studio.errors import RunError, StudioError, in_brief
from studio.files import read_json, write_json, write_text
from studio.lazy_imports import collect_as_usual, collect_seldom, peft_library, transformers_library
from studio.memory.oom_text import read_report
from studio.messages import Message, from_plain, to_plain
from studio.options.arguments import read_config
from studio.process_exit import leave
from studio.settings import Settings, local_rank
from studio.training.events import EventLog, RunPhase
from studio.training.machine import machine
from studio.training.outcome import Outcome
from studio.training.retry import (
    KILLED,
    OUT_OF_MEMORY,
    Shortage,
    last_known,
    nothing_left,
    plan_retry,
    read_retries,
    with_retries,
)
from studio.training.run_dir import RunDir
from studio.training.stop import StopRequested, StopSignal
from studio.training.visitors_room import keeps_what_it_uses

log = logging.getLogger("studio.training")
SHORT_OF_MEMORY = 4
_RESERVE_BYTES = 256 * 1024
_PATIENCE_SECONDS = 3.0
_LOOK_SECONDS = 0.2


def main(argv: list[str]) -> int:
    """Runs the worker.

    Exit code 0: finished or stopped, 1: failed, 2: no run folder, 3: another worker has the run,
    4: memory ran out, and the run waits for a fresh process.
    """
    if len(argv) != 1 or not RunDir(Path(argv[0])).config.is_file():
        sys.stderr.write("usage: python -m studio.training.worker RUN_DIR (a folder with config.json)\n")
        return 2
    run = RunDir(Path(argv[0]).resolve())
    is_first = local_rank() == 0
    level = logging.INFO if is_first else logging.ERROR
    logging.basicConfig(level=level, stream=sys.stdout, format="%(asctime)s %(message)s", force=True)
    stop = StopSignal(run.stop_request)
    stop.listen()
    if not is_first:
        return _carry_out(run, stop, keeps_record=False)
    try:
        with FileLock(run.lock, timeout=0):
            return _carry_out(run, stop, keeps_record=True)
    except Timeout:
        log.info("Another worker has this run.")
        return 3


def _carry_out(run: RunDir, stop: StopSignal, *, keeps_record: bool) -> int:
    """Trains and measures, and closes the record whatever came of it; gives back the exit code of `main`."""
    outcome = Outcome()
    try:
        EventLog(run.events if keeps_record else None).write("phase", phase=RunPhase.STARTING)
        log.info("starting")
        if keeps_record:
            write_text(run.reserve, " " * _RESERVE_BYTES)
        settings = Settings.from_env()
        with keeps_what_it_uses(run, settings):
            with _ended_at_once(run, stop, keeps_record=keeps_record):
                _load_libraries()
            _train_and_measure(run, settings, stop, outcome)
    except StopRequested:
        outcome.state = "stopped"
        log.info("Stopped.")
    except StudioError as error:
        outcome.error = error
        log.info("Failed: %s", error)
        _tell_others(run, error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the record must be closed with a sentence
        log.error("%s", traceback.format_exc())
        outcome.error = _reason_of(run, error)
        if outcome.error is None:
            return SHORT_OF_MEMORY
        log.error("Failed: %s", outcome.error)
    if keeps_record:
        _close(run, outcome, _machine())
    return 0 if outcome.state in ("finished", "stopped") else 1


def _close(run: RunDir, outcome: Outcome, machine: dict[str, Any]) -> None:
    run.reserve.unlink(missing_ok=True)
    write_json(run.result, outcome.to_json(machine))


def _load_libraries() -> None:
    """What takes most of a run's start."""
    _quieten_libraries()
    peft_library()
    collect_seldom()
    import studio.training.after_check
    import studio.training.attempt  # noqa: F401

    collect_as_usual()


@contextmanager
def _ended_at_once(run: RunDir, stop: StopSignal, *, keeps_record: bool) -> Iterator[None]:
    """Meanwhile a stop ends this process where it is: it has learned nothing, and no library can be asked."""
    is_over, deciding = threading.Event(), threading.Lock()

    def look() -> None:
        """Ends the process when a stop is asked for, unless it is past the start."""
        while not is_over.is_set():
            with deciding:
                if stop.is_set and not is_over.is_set():
                    log.info("Stopped before anything was loaded.")
                    if keeps_record:
                        _close(run, Outcome("stopped"), {})
                    os._exit(0)
            is_over.wait(_LOOK_SECONDS)

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        with deciding:
            is_over.set()


def _train_and_measure(run: RunDir, settings: Settings, stop: StopSignal, outcome: Outcome) -> None:
    """The run itself; `outcome` tells as much as was reached."""
    from studio.training.after_check import MadeModel, measure_after
    from studio.training.attempt import Attempt

    stop.check()
    attempt = Attempt(run, settings, stop, outcome)
    attempt.carry_out()  # what it has loaded is gone when it returns
    made = MadeModel(
        attempt.registry,
        attempt.config,
        attempt.eval_examples,
        outcome,
        attempt.events,
        attempt.stop,
        settings,
        attempt.learned,
    )
    measure_after(made, settings.threads)


def _reason_of(run: RunDir, error: Exception) -> StudioError | None:
    """Why the run failed; None if that is left to a fresh process, or to be told by the launcher."""
    lost = _lost(run, error)
    if lost is not None:  # if that one was short of memory, it has seen to the rest
        return None if run.queue_entry.exists() or _is_told_by_launcher(run) else lost
    shortage = _shortage(run, error)
    if shortage is not None and _goes_on(run, shortage):
        return None
    reason = _given_up(run, shortage) if shortage else _sentence(error)
    _tell_others(run, reason)
    return reason


def _tell_others(run: RunDir, reason: StudioError) -> None:
    """Leaves the first reason to the run's other processes, where it has several."""
    if _is_shared(run) and not run.failure.exists():
        write_json(run.failure, {"schema_version": 1, **to_plain({"reason": reason})})


def _quieten_libraries() -> None:
    """Their bars and notices are not for the reader of a run's log."""
    warnings.simplefilter("ignore", FutureWarning)
    # AdaLoRA may leave a layer without any rank, which PEFT takes for a broken file.
    warnings.filterwarnings("ignore", message=r".*LoRA tensor\(s\) have invalid shape")
    for talkative in ("httpx", "absl", "bitsandbytes"):
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
    transformers = transformers_library()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _is_shared(run: RunDir) -> bool:
    """Whether the run has several processes."""
    try:
        return read_config(run.config).num_processes > 1
    except StudioError:
        return False


def _is_told_by_launcher(run: RunDir) -> bool:
    """Whether a process of this machine ended without a word: how, only the one that started it knows."""
    return not run.failure.exists() and read_config(run.config).num_machines == 1


def _lost(run: RunDir, error: Exception) -> StudioError | None:
    """What became of another process that this one waited for in vain; None if that is not the matter."""
    from studio.training.distributed.world import is_peer_lost

    if not _is_shared(run) or not is_peer_lost(error):
        return None
    end = time.monotonic() + _PATIENCE_SECONDS
    while not (run.failure.exists() or run.queue_entry.exists()) and time.monotonic() < end:
        time.sleep(0.1)  # on this machine, the one that failed says why
    try:
        return RunError(
            "Another process of this run failed: {reason}",
            **from_plain({"reason": read_json(run.failure)["reason"]}),
        )
    except (OSError, ValueError, KeyError):
        return RunError(
            "Another process of this run ended, or its machine cannot be reached any more: "
            "resume the run, on every machine that it has."
        )


def _shortage(run: RunDir, error: Exception) -> Shortage | None:
    """What an error says about memory, told as an event; None if it is another error."""
    from studio.training.callback import free_bytes
    from studio.transcription.devices import is_out_of_memory

    text = f"{type(error).__name__}: {error}"
    is_killed = "killed by signal" in text or "exited unexpectedly" in text  # a process that reads audio
    if not is_killed and not is_out_of_memory(error):
        return None
    phase, step = last_known(run)
    asked = read_report(text).asked_bytes
    shortage = Shortage(KILLED if is_killed else OUT_OF_MEMORY, phase, step, asked, free_bytes())
    fields = {"phase": phase, "step": step, "asked_bytes": asked, "free_bytes": shortage.free_bytes}
    EventLog(run.events).write("out_of_memory", **fields, text=text[:1000])
    return shortage


def _goes_on(run: RunDir, shortage: Shortage) -> bool:
    """Leaves the run to a fresh process that takes less, before all that wait; False if none can."""
    config = read_config(run.config)
    if run.queue_entry.exists():  # another of its processes was first
        return True
    retry = plan_retry(run, config, shortage)
    if retry is None:
        return False
    write_json(run.queue_entry, {"schema_version": 1, "queued": 0.0})
    log.info("%s %s", *retry.sentences())
    return True


def _given_up(run: RunDir, shortage: Shortage) -> StudioError:
    return nothing_left(with_retries(read_config(run.config), read_retries(run)), shortage)


def _sentence(error: Exception) -> StudioError:
    return RunError(
        "The run failed with {kind}: {message}. Its log has the details.",
        kind=type(error).__name__,
        message=in_brief(error) or Message("no message"),
    )


def _machine() -> dict[str, Any]:
    from studio.training.callback import memory_bytes

    return {**machine(), "memory_bytes": memory_bytes()}


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
