"""PyTorch's caching allocator, replayed: what a step's requests make it take from the device. No torch here.

Sizes are those of `c10/cuda/CUDACachingAllocator.cpp` (native backend, default settings): requests are
rounded to 512 bytes; up to 1 MiB they come from segments of 2 MiB, up to 10 MiB from segments of 20 MiB,
larger ones from segments of their own in multiples of 2 MiB; the smallest free block that fits is taken and
split, and neighbours that are free are joined.
"""

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from studio.units import MIB

_ROUNDING = 512
_SMALL = MIB
_SMALL_SEGMENT = 2 * MIB
_LARGE_SEGMENT = 20 * MIB
_OWN_SEGMENT = 10 * MIB
_OWN_ROUNDING = 2 * MIB


@dataclass
class _Block:
    size: int
    is_small: bool
    before: int | None = None
    after: int | None = None
    is_free: bool = True


class CachingAllocator:
    """The allocator of a device, asked by one stream.

    On a device with room it keeps every segment. On a full one it first gives back all empty segments
    whenever it needs a new one (`is_full`): what it then holds at most is what the step cannot do without.
    """

    def __init__(self, *, is_full: bool = False) -> None:
        self.peak_reserved_bytes = 0
        """The most that its segments took from the device."""
        self._reserved = 0
        self._is_full = is_full
        self.peak_allocated_bytes = 0
        self._allocated = 0
        self._blocks: dict[int, _Block] = {}
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._held: dict[int, int] = {}
        self._next = 0

    def allocate(self, key: int, size: int) -> None:
        """A request of `size` bytes, to be released under `key`."""
        size = max(_ROUNDING, -(-size // _ROUNDING) * _ROUNDING)
        is_small = size <= _SMALL
        free = self._free[is_small]
        place = bisect.bisect_left(free, (size, 0))
        number = free.pop(place)[1] if place < len(free) else self._segment(size, is_small)
        block = self._blocks[number]
        rest = block.size - size
        if rest >= _ROUNDING if is_small else rest > _SMALL:
            self._split(number, size, rest)
        block.is_free = False
        self._held[key] = number
        self._allocated += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self._allocated)

    def release(self, key: int) -> None:
        """The block of `key` is free again, and joins free neighbours."""
        number = self._held.pop(key)
        block = self._blocks[number]
        self._allocated -= block.size
        block.is_free = True
        if block.before is not None and self._blocks[block.before].is_free:
            other = self._take(block.before)
            block.before = other.before
            block.size += other.size
            if other.before is not None:
                self._blocks[other.before].after = number
        if block.after is not None and self._blocks[block.after].is_free:
            other = self._take(block.after)
            block.after = other.after
            block.size += other.size
            if other.after is not None:
                self._blocks[other.after].before = number
        bisect.insort(self._free[block.is_small], (block.size, number))

    def _take(self, number: int) -> _Block:
        block = self._blocks.pop(number)
        free = self._free[block.is_small]
        free.pop(bisect.bisect_left(free, (block.size, number)))
        return block

    def _add(self, block: _Block) -> int:
        self._next += 1
        self._blocks[self._next] = block
        return self._next

    def _segment(self, size: int, is_small: bool) -> int:
        if is_small:
            segment = _SMALL_SEGMENT
        elif size < _OWN_SEGMENT:
            segment = _LARGE_SEGMENT
        else:
            segment = -(-size // _OWN_ROUNDING) * _OWN_ROUNDING
        if self._is_full:
            self._give_back()
        self._reserved += segment
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self._reserved)
        return self._add(_Block(segment, is_small))

    def _give_back(self) -> None:
        for free in self._free.values():
            empty = [
                (size, number)
                for size, number in free
                if self._blocks[number].before is None and self._blocks[number].after is None
            ]
            for size, number in empty:
                free.remove((size, number))
                del self._blocks[number]
                self._reserved -= size

    def _split(self, number: int, size: int, rest: int) -> None:
        block = self._blocks[number]
        other = self._add(_Block(rest, block.is_small, before=number, after=block.after))
        if block.after is not None:
            self._blocks[block.after].before = other
        block.after, block.size = other, size
        bisect.insort(self._free[block.is_small], (rest, other))


def replay(events: Iterable[tuple[int, int]], *, is_full: bool = False) -> CachingAllocator:
    """The allocator after these requests: block and size each, a negative size releases the block."""
    allocator = CachingAllocator(is_full=is_full)
    for block, size in events:
        if size > 0:
            allocator.allocate(block, size)
        else:
            allocator.release(block)
    return allocator
