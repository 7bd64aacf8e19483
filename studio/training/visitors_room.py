"""Room for what visitors of a Space train: their runs that are over, and models of theirs, go if unused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from studio.errors import StorageError
from studio.files import noted
from studio.registry.spec import CARD_FILE
from studio.room import MADE, Room, note_use_of_own, works_for_long
from studio.settings import Settings
from studio.training.record import started_by
from studio.training.run_dir import RunDir
from studio.units import format_bytes


@contextmanager
def keeps_what_it_uses(run: RunDir, settings: Settings) -> Iterator[None]:
    """For as long as a run is at work, what it uses does not go."""
    visitor = started_by(run)
    with works_for_long(settings):
        if visitor:
            note_use_of_own(replace(settings, visitor=visitor))
        yield


def require_room(run: RunDir, settings: Settings, needed_bytes: int) -> None:
    """Makes room for what a visitor's run writes; runs of anybody else have what the disk has.

    Raises:
        StorageError: if there is none beside what is used.
    """
    room = Room.of(settings, MADE)
    if (
        not room.is_limited
        or not started_by(run)
        or room.take(_made_by_visitors(settings, run), needed_bytes)
    ):
        return
    raise StorageError(
        "This Space keeps {most} of what visitors train, and this run writes up to {size}, for which "
        "there is no room beside what was used within the last hour: keep fewer checkpoints, choose a "
        "smaller base, try again later, or duplicate the Space (in its menu ⋮).",
        most=room.most,
        size=format_bytes(needed_bytes),
    )


def _made_by_visitors(settings: Settings, run: RunDir) -> Iterator[Path]:
    """Runs, without this one and those that wait, and models."""
    for other in map(RunDir, settings.runs.glob("[!.]*")):
        if other != run and not other.queue_entry.exists() and started_by(other):
            yield other.path
    for folder in settings.models.glob("[!.]*"):
        if noted(folder / CARD_FILE, "visitor"):
            yield folder
