"""Who watches long work: it tells them how far it is, and learns from them that it is to stop."""

from collections.abc import Callable

from studio.messages import Message

ShouldStop = Callable[[], bool]
OnStep = Callable[[Message, float], None]
"""Told what is being done now, and the share done."""


def never() -> bool:
    """Nobody stops it."""
    return False


def untold(*_: object) -> None:
    """Nobody wants to know."""
