"""What visitors of a public page may not do, or know; the page says so, and the handlers refuse."""

import re
from typing import Any

from studio.errors import ConfigError, RunError
from studio.settings import Settings
from studio.translation import N_

TRAINING_IS_OFF = N_(
    "Training, exporting and measuring are switched off on this Space: it is shared, its processor is slow, "
    "and its disk is not kept. Duplicate this Space (in its menu ⋮), choose hardware, and set "
    "STUDIO_ALLOW_TRAINING to 1; or run the studio on your own machine."
)
TRAINING_IS_OFF_HERE = N_(
    "Training, exporting and measuring are switched off in this studio: set STUDIO_ALLOW_TRAINING to 1 and "
    "start it again."
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


def require_machine(settings: Settings) -> None:
    """Refuses to measure where training is off, and to visitors of a Space: it has one machine for all.

    Raises:
        RunError: with the reason.
    """
    require_training(settings)
    if settings.visitor:
        raise RunError("Only the owner of this Space measures on its machine, once logged in.")


def has_foreign_models(settings: Settings) -> bool:
    """Whether the models are somebody else's than who asks: of a Space they are its owner's."""
    return settings.is_public or bool(settings.visitor)


def require_own_models(settings: Settings) -> None:
    """Keeps visitors of a Space from changing its models.

    Raises:
        ConfigError: with the way out.
    """
    if has_foreign_models(settings):
        raise ConfigError(
            "The models of this Space are its owner's: duplicate the Space (in its menu ⋮) to have your own."
        )


_PLACE = re.compile(r"(?<![\w:/.])/(?:[^\s/:;,'\"()]+/)+([^\s/:;,'\"()]+)")
"""A path of two parts or more; an address has a colon before it."""


def without_places(value: Any) -> Any:
    """A text or a JSON answer that does not tell where on the server something lies: of a path, its name."""
    if isinstance(value, str):
        return _PLACE.sub(r"\1", value)
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items()}
    return [without_places(item) for item in value] if isinstance(value, (list, tuple)) else value
