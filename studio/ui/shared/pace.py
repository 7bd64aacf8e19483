"""How long it will take: from how fast it went so far."""

_LEAST_SECONDS = 1.0
"""A pace is known once it was watched for so long: silence, say, is done with at once."""


class Pace:
    """Work of a known amount, watched as it goes on. Times are those of one clock, in seconds."""

    def __init__(self, began: float) -> None:
        """`began` is when the work started; loading a model is part of it and not of its pace."""
        self._began = began
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def note(self, done: float, now: float) -> None:
        """`done` of the work lies behind at the time `now`."""
        self._first = self._first or (done, now)
        self._last = (done, now)

    def left_seconds(self, total: float, now: float) -> float | None:
        """Seconds until all of `total` is done, counting down between two notes; None while nobody knows."""
        if self._first is None or self._last is None:
            return None
        done, at = self._last
        amount, since = done - self._first[0], at - self._first[1]
        if amount <= 0 or since < _LEAST_SECONDS:  # counted from the beginning, which holds the loading, too
            amount, since = done, at - self._began
        if amount <= 0:
            return None
        return max(0.0, since / amount * (total - done) - (now - at))
