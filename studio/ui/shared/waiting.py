"""Those who wait for a model: first come, first served, and each knows how many are before them."""

import asyncio
from collections.abc import AsyncIterator

_LOOK_SECONDS = 0.5
"""Who waits is heard of so often even if nothing moves: so it is seen when they leave."""


class Line:
    """A queue of visitors, `at_once` of whom are served. Lives on one event loop; needs no lock there."""

    def __init__(self, at_once: int) -> None:
        """`at_once` visitors are served at the same time."""
        self._at_once = at_once
        self._places: list[Place] = []

    def join(self) -> "Place":
        """A place at the end of the line; whoever takes it must `leave` it."""
        place = Place(self)
        self._places.append(place)
        return place

    def __len__(self) -> int:
        return len(self._places)

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

    def __init__(self, line: Line) -> None:
        self._line = line
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
