"""The processes of one run: which of them this is, and how they agree.

Words between them go through a group of their own on the CPU (gloo), as JSON: whatever else they exchange, on
whatever device, is the trainer's affair. With a single process nothing is exchanged.
"""

import json
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from studio.errors import ConfigError, RunError, StudioError, in_brief
from studio.options.training import TrainingConfig
from studio.training.stop import StopRequested

T = TypeVar("T")
_LOST = (
    *("connection closed by peer", "connection reset", "broken pipe", "timed out waiting", "socket timeout"),
    *("connect timeout", "connection refused", "remote process exited", "nccl communicator was aborted"),
    *("no route to host", "wait timeout", "unhandled system error", "network is unreachable"),
)
log = logging.getLogger("studio.training")


class PeerFailed(RuntimeError):
    """Another process failed with something that is no sentence yet: it sees to the record itself."""


@dataclass(frozen=True)
class World:
    """This process among the processes of its run; by default, the only one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Its number among those of its machine."""
    group: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this process writes checkpoints and keeps the model."""
        return self.rank == 0

    @property
    def is_first_here(self) -> bool:
        """Whether this process keeps the record of the run on its machine."""
        return self.local_rank == 0

    @classmethod
    def join(cls, config: TrainingConfig) -> "World":
        """Meets the other processes of the run; alone if it has one.

        Raises:
            ConfigError: if this process was not started as one of several, or as one of other ones.
        """
        if not config.is_distributed:
            return cls()
        if not dist.is_torchelastic_launched():
            raise ConfigError(
                "This run has {count} processes: start it with python -m studio.training.launch RUN_DIR.",
                count=config.num_processes,
            )
        timeout = timedelta(seconds=config.ddp_timeout)
        has_gpu = torch.cuda.is_available()
        dist.init_process_group("cuda:nccl,cpu:gloo" if has_gpu else "gloo", timeout=timeout)
        rank, size = dist.get_rank(), dist.get_world_size()
        local_rank = rank % config.processes_per_machine
        if has_gpu:
            torch.cuda.set_device(local_rank)
        world = cls(rank, size, local_rank, dist.new_group(backend="gloo", timeout=timeout))
        log.info("process %s of %s", rank, size)
        return world

    def gather(self, value: Any) -> list[Any]:
        """What every process gave, by rank; each gives something that can be JSON."""
        if self.size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value, default=str).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(data)]), group=self.group)
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(data)] = data
        rows = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(rows, padded, group=self.group)
        return [json.loads(bytes(row[: int(size)].tolist())) for row, size in zip(rows, sizes, strict=True)]

    def share(self, value: Any) -> Any:
        """What the main process gave."""
        return self.gather(value if self.is_main else None)[0]

    def any(self, flag: bool) -> bool:
        """Whether any process says so; all get the same answer."""
        if self.size == 1:
            return flag
        count = torch.tensor([int(flag)])
        dist.all_reduce(count, group=self.group)
        return bool(count)

    def together(self, action: Callable[[], T]) -> T:
        """Does something in every process. Where it fails in one, it fails in all, so that nobody waits.

        Raises:
            StudioError: what this process met, or else what the first of the others did.
            StopRequested: if any process was asked to stop.
        """
        if self.size == 1:
            return action()
        report: dict[str, Any] = {}
        failure: Exception | None = None
        result: T | None = None
        try:
            result = action()
        except StopRequested:
            report = {"is_stopped": True}
        except Exception as error:  # noqa: BLE001 - it is raised again as soon as the others know
            failure = error
            is_sentence = isinstance(error, StudioError)
            report = {"host": socket.gethostname(), "reason": _reason(error), "is_sentence": is_sentence}
        reports = self.gather(report)
        if failure is not None:
            raise failure
        for rank, other in enumerate(reports):
            if not other.get("is_sentence", True):
                raise PeerFailed(f"process {rank} on {other['host']}: {other['reason']}")
            if "reason" in other:
                raise RunError(
                    "Process {rank} on {host}: {reason}",
                    rank=rank,
                    host=other["host"],
                    reason=other["reason"],
                )
        if any("is_stopped" in other for other in reports):
            raise StopRequested
        return result  # type: ignore[return-value]

    def agree(self, what: dict[str, Any]) -> None:
        """Sees to it that the same is true for all processes.

        Raises:
            ConfigError: names the first thing that differs, and on which machines.
        """
        reports = self.gather({"host": socket.gethostname(), "what": what})
        first = reports[0]
        for rank, other in enumerate(reports):
            for name, value in first["what"].items():
                if other["what"].get(name) != value:
                    raise ConfigError(
                        "{name} is {here} for process 0 on {host} and {there} for process {rank} on {other}: "
                        "make them the same on all machines.",
                        name=name,
                        here=value,
                        host=first["host"],
                        there=other["what"].get(name),
                        rank=rank,
                        other=other["host"],
                    )

    def leave(self) -> None:
        """Takes leave of the others, at the very end."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def is_peer_lost(error: BaseException) -> bool:
    """Whether another process has gone, as far as this one can tell."""
    if isinstance(error, (dist.DistError, PeerFailed)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _LOST)


def _reason(error: Exception) -> str:
    if isinstance(error, StudioError):
        return str(error)
    return f"{type(error).__name__}: {in_brief(error)}"
