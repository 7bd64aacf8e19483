"""What visitors of a public page may not do; the page says so, and the handlers refuse."""

from pathlib import Path

from studio.dataset.formats.webdataset import shards_of
from studio.errors import ConfigError, RunError
from studio.options.sources import folder_and_splits, sources_of
from studio.settings import Settings
from studio.translation import N_

TRAINING_IS_OFF = N_(
    "Training is switched off on this Space: it is shared, its processor is slow, and its disk is not "
    "kept. Duplicate this Space (in its menu ⋮), choose hardware, and set STUDIO_ALLOW_TRAINING to 1; or run "
    "the studio on your own machine."
)
TRAINING_IS_OFF_HERE = N_(
    "Training is switched off in this studio: set STUDIO_ALLOW_TRAINING to 1 and start it again."
)


def why_training_is_off(settings: Settings) -> str:
    """The reason as an English sentence; empty if training is on."""
    if settings.allow_training:
        return ""
    return TRAINING_IS_OFF if settings.on_spaces else TRAINING_IS_OFF_HERE


def require_training(settings: Settings) -> None:
    """Refuses to touch runs where training is off.

    Raises:
        RunError: with the reason and the way out.
    """
    reason = why_training_is_off(settings)
    if reason:
        raise RunError(reason)


def is_public(settings: Settings) -> bool:
    """Whether visitors are strangers: on a Space that trains nothing, its models are its owner's."""
    return settings.on_spaces and not settings.allow_training


def require_own_models(settings: Settings) -> None:
    """Keeps visitors of a Space from changing its models.

    Raises:
        ConfigError: with the way out.
    """
    if is_public(settings):
        raise ConfigError(
            "The models of this Space are its owner's: duplicate the Space (in its menu ⋮) to have your own."
        )


def _is_path(source: str) -> bool:
    place, _splits = folder_and_splits(source)
    return any(Path(shard).expanduser().exists() for shard in shards_of(place))


def require_public_data(settings: Settings, source: str) -> None:
    """Keeps visitors of a Space away from the files of its server.

    Raises:
        ConfigError: if `source` is a path there.
    """
    parts = sources_of(source)
    if is_public(settings) and any(map(_is_path, parts)):
        raise ConfigError(
            "{source} is a path on this Space's server: use demo:test or a dataset of the Hub.", source=source
        )
