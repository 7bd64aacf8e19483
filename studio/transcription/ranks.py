"""A list of recordings over processes and machines, as `accelerate launch` or `torchrun` start them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

_LONGEST_WAIT = timedelta(days=14)
"""Who is done first waits for the others, however long their recordings are."""

Item = TypeVar("Item")


def share_of(items: Sequence[Item], rank: int, world_size: int) -> list[Item]:
    """Every `world_size`-th item from `rank` on."""
    return list(items[rank::world_size])


def gather(
    rows: Sequence[dict[str, Any]],
    rank: int,
    world_size: int,
    on_all: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Gives the rows of all processes to `on_all` on the one of rank 0. Every process must call it.

    It returns, on each of them, when `on_all` has; the processes find one another by what their launcher has
    put into the environment.
    """
    import torch.distributed as dist

    distributed: Any = dist
    if not distributed.is_initialized():
        distributed.init_process_group(
            "gloo", rank=rank, world_size=world_size, timeout=_LONGEST_WAIT, init_method="env://"
        )
    try:
        found: list[Any] | None = [None] * world_size if rank == 0 else None
        distributed.gather_object(list(rows), found, dst=0)
        if rank == 0:
            on_all([row for part in found or () for row in part])
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
