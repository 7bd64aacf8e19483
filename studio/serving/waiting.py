"""Those who wait for a model: first come, first served, and each knows how many are before them.

Fair to visitors: whoever asks much at once waits behind everybody else.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from typing import TypeVar

from studio.messages import Message

AT_ONCE = 2
"""Visitors for whom a model works at the same time; the others wait in line."""
MOST_OF_A_VISITOR = 60
"""A page asks for a dozen things when it is opened."""
MOST = 600
"""Questions of all visitors that wait."""
_LOOK_SECONDS = 0.5
"""Who waits is heard of so often even if nothing moves: so it is seen when they leave."""

Item = TypeVar("Item")


class Line:
    """A queue of visitors, `at_once` of whom are served. Lives on one event loop; needs no lock there."""

    def __init__(self, at_once: int) -> None:
        """`at_once` visitors are served at the same time."""
        self._at_once = at_once
        self._places: list[Place] = []
        self._ends_at = math.inf

    def join(self, visitor: str | None = None) -> "Place":
        """A place in the line; whoever takes it must `leave` it.

        Behind everybody, but for those who have more places waiting; None: a visitor who has no other.
        """
        place = Place(self, visitor)
        self._places.append(place)
        waiting = self._places[self._at_once :]
        self._places[self._at_once :] = fairly(waiting, lambda one: one.visitor or id(one))
        return place

    def __len__(self) -> int:
        return len(self._places)

    def close(self, last_seconds: float) -> None:
        """Nobody is served any more; who is being served has so long. May be called from any thread."""
        self._ends_at = time.monotonic() + last_seconds

    @property
    def is_closed(self) -> bool:
        """Whether those who wait wait for nothing: the studio is being stopped."""
        return self._ends_at < math.inf

    @property
    def is_over(self) -> bool:
        """Whether those who are being served must end, too."""
        return time.monotonic() >= self._ends_at

    def of_visitor(self, visitor: str) -> int:
        """How many places a visitor has."""
        return sum(place.visitor == visitor for place in self._places)

    def before(self, place: "Place") -> int:
        """How many must be done before this place is served; 0: it is served now."""
        return max(0, self._places.index(place) + 1 - self._at_once)

    def remove(self, place: "Place") -> None:
        """Takes a place out, and tells the others that they moved up."""
        if place in self._places:
            self._places.remove(place)
            for other in self._places:
                other.moved.set()


class Place:
    """One visitor's place in a `Line`."""

    def __init__(self, line: Line, visitor: str | None) -> None:
        self._line = line
        self.visitor = visitor
        self.moved = asyncio.Event()

    async def wait(self) -> AsyncIterator[int]:
        """How many are before this one, again whenever it may have changed; ends when it is its turn."""
        while before := self._line.before(self):
            yield before
            self.moved.clear()
            try:
                await asyncio.wait_for(self.moved.wait(), _LOOK_SECONDS)
            except TimeoutError:
                continue

    def leave(self) -> None:
        """Makes room for the next; leaving twice is the same as once."""
        self._line.remove(self)


def fairly(items: Sequence[Item], visitor: Callable[[Item], Hashable]) -> list[Item]:
    """First the first of each visitor, then the second of each, in the order of asking."""
    seen: Counter[Hashable] = Counter()
    ranked = []
    for item in items:
        ranked.append((seen[visitor(item)], item))
        seen[visitor(item)] += 1
    return [item for _rank, item in sorted(ranked, key=lambda pair: pair[0])]


def too_many(count: int) -> Message:
    """What a visitor is told who has too many questions waiting."""
    return Message("You have {count} requests waiting: let some of them finish first.", count=count)


def full(count: int) -> Message:
    """What everybody is told while `count` questions of all visitors wait."""
    return Message(
        "The studio is busy: {count} requests of all visitors are waiting. Try again in a minute.",
        count=count,
    )
