"""What a Space reads and writes for its visitors: its own folder, and nothing else of the server.

On a workstation every path is the user's own. On a Space whoever may train is still a visitor: data come from
the Hub, from the demo speech, or from what was recorded in the studio's own folder.
"""

from dataclasses import replace
from pathlib import Path

from studio.dataset.formats.webdataset import shards_of
from studio.errors import ConfigError, StorageError
from studio.files import user_path
from studio.options.sources import folder_and_splits, is_dataset_id, is_demo, sources_of
from studio.options.training import FIELDS, TrainingConfig
from studio.room import BROUGHT, Room, note_use, note_use_of_own, size_of
from studio.settings import Settings
from studio.units import GIB

MOST_ROWS_OF_STRANGERS = 500
"""Of a dataset of the Hub, so many are copied for a visitor of a Space on which nobody trains."""
_MOST_SOURCES_OF_STRANGERS = 10
"""The rows are counted for each of the sources."""
LARGEST_DOWNLOAD_OF_STRANGERS = 8 * GIB
"""Bytes of a model: the largest Whisper in single precision is smaller."""

LONGEST_RECORDING_OF_STRANGERS = 3600.0
"""Seconds. Longer ones would hold the line for hours: few visitors are served at the same time."""


def require_confined(config: TrainingConfig, settings: Settings) -> None:
    """Refuses a run on a Space that would read or write elsewhere.

    Raises:
        ConfigError: naming the option.
    """
    for name, field in FIELDS.items():
        value, kind = str(getattr(config, name) or ""), field.metadata["names"]
        if kind == "data":
            require_own_data(settings, value)
        # A cache would keep to no limit there; trackers write in the owner's name.
        elif name in ("cache_dir", "report_to") and value not in ("", "none") and settings.visitor:
            raise ConfigError("--{name} is for the owner of this Space: leave it out.", name=name)
        elif kind == "path" and value and settings.on_spaces and not _is_within(value, settings.own):
            raise ConfigError("--{name} {path} is outside of this Space's own folder.", name=name, path=value)


def require_own_data(settings: Settings, text: str) -> None:
    """Keeps visitors of a Space away from the files of its server. Where nobody may train, all are strangers.

    Raises:
        ConfigError: if one of the sources in `text` is a path there, or they are too many for a visitor.
    """
    if not settings.on_spaces:
        return
    sources = sources_of(text)
    if len(sources) > _MOST_SOURCES_OF_STRANGERS and (settings.is_public or settings.visitor):
        raise ConfigError(
            "{count} sources of data are named, and a visitor of this Space may name {most}: leave some out.",
            count=len(sources),
            most=_MOST_SOURCES_OF_STRANGERS,
        )
    for source in filter(None, sources):
        place, _splits = folder_and_splits(source)
        is_elsewhere = not is_demo(source) and not is_dataset_id(source)
        if not is_elsewhere and not any(user_path(shard).exists() for shard in shards_of(place)):
            continue
        if settings.is_public or not all(_is_within(shard, settings.own) for shard in shards_of(place)):
            raise ConfigError(
                "{source} is a path on this Space's server: use demo:test or a dataset of the Hub.",
                source=source,
            )
        if settings.visitor:
            note_use_of_own(settings)


def require_room(settings: Settings, coming_bytes: int) -> None:
    """Makes room for what a visitor of a Space brings; what they, or others, have not used for long goes.

    Raises:
        StorageError: if there is none beside what is used.
    """
    room = Room.of(settings, BROUGHT)
    if not settings.visitor or not room.is_limited:
        return
    others = (folder for folder in settings.own.parent.glob("*") if folder != settings.own)
    own = replace(room, most_bytes=min(room.most_bytes, settings.most_upload_bytes))
    if not own.take(settings.own.glob("*/[!.]*"), coming_bytes):
        raise StorageError(
            "A visitor may keep {most} here, and there is no room for more beside what you used within "
            "the last hour: bring less, or duplicate the Space (in its menu ⋮).",
            most=own.most,
        )
    there = size_of(settings.own) if settings.own.exists() else 0
    if not room.take(others, there + coming_bytes):
        raise StorageError(
            "This Space keeps {most} of what visitors bring, and there is no room for more beside what "
            "was used within the last hour: try again later, or duplicate the Space (in its menu ⋮).",
            most=room.most,
        )
    note_use(settings.own)


def most_rows(settings: Settings, asked: int) -> int | None:
    """How many rows of a source are read where somebody asked for so many (0: all); of strangers, a few."""
    if not settings.is_public:
        return asked or None
    return min(asked, MOST_ROWS_OF_STRANGERS) if asked > 0 else MOST_ROWS_OF_STRANGERS


def _is_within(place: str, home: Path) -> bool:
    return user_path(place).resolve().is_relative_to(home.resolve())
