"""What the check after a run found, in words: by its JSON, of a run or a card, maybe of another make."""

from collections.abc import Iterable, Mapping
from typing import Any

from studio.messages import Joined, Message
from studio.units import format_percent

CHECK_NAMES = {
    "long_form": Message("Long recordings"),
    "other_languages": Message("Other languages or styles"),
    "timestamps": Message("Timestamps"),
    "silence": Message("No text on silence"),
    "language": Message("Language detection"),
}
"""What a check is called; the keys are those of `studio.evaluation.capabilities.CHECKS`, in their order."""
_LITTLE = 0.01
_SYNTHETIC = Message("Synthetic English like some that is rehearsed: it shows severe forgetting only")
_WHY_UNCHECKED = {
    "time": Message("{check} (out of time: a minute, or a tenth of the training)"),
    "nothing": Message("{check} (nothing to listen to)"),
    "no_language": Message("{check} (no clip names its language)"),
}


def name_of_check(check: str, found: Mapping[str, Any]) -> Message:
    """What one of the checks in `found`, their JSON, listened to."""
    if check == "other_languages" and found.get("is_synthetic"):
        return _SYNTHETIC
    return CHECK_NAMES.get(check) or Message(check)


def unchecked_in(found: Mapping[str, Any] | None) -> tuple[Message, ...]:
    """The checks that were not made, each with the reason where it is known."""
    why = as_table(as_table(found).get("why_unchecked"))
    told = (
        (CHECK_NAMES[check], _WHY_UNCHECKED.get(str(why.get(check)))) for check in _named(found, "unchecked")
    )
    return tuple(Message(reason.template, check=name) if reason else name for name, reason in told)


def unchecked_of(found: Mapping[str, Any] | None) -> Message | None:
    """Which checks were not made; None if all were, or none was asked for."""
    left = unchecked_in(found)
    return Message("Not checked: {names}.", names=Joined(left)) if left else None


def lost_in(found: Mapping[str, Any] | None) -> tuple[Message, ...]:
    """What the base is better at, as far as is known."""
    return tuple(CHECK_NAMES[check] for check in _named(found, "lost"))


def loss_of(found: Mapping[str, Any] | None) -> Message | None:
    """What a model has lost, and what would help; None if nothing, as far as is known."""
    lost = lost_in(found)
    if not lost:
        return None
    return Message("The base is better at: {names}. A gentler run forgets less.", names=Joined(lost))


def non_speech_of(found: Mapping[str, Any] | None) -> Message | None:
    """What a model and its base write where nobody speaks; None if that is not known."""
    both = as_table(as_table(found).get("non_speech"))
    base, tuned = as_table(both.get("base")), as_table(both.get("tuned"))
    words = [as_number(one.get("words_per_hour")) for one in (base, tuned)]
    loops = [as_number(one.get("loop_rate")) for one in (base, tuned)]
    if None in (*words, *loops):
        return None
    written, stuck = [f"{figure:,.0f}" for figure in words], [format_percent(rate or 0) for rate in loops]
    return Message(
        "Words per hour of non-speech: {base} → {tuned}; texts that are loops: {was} → {stuck}.",
        base=written[0],
        tuned=written[1],
        was=stuck[0],
        stuck=stuck[1],
    )


def in_one_script(metrics: Mapping[str, Any]) -> Message | None:
    """What a base and what was made of it err in one script of Chinese, by a run's `metrics`; None where the
    script makes less than a hundredth of the characters wrong, or that is not known."""
    points = [as_table(metrics.get(which)) for which in ("base", "final")]
    apart = [(as_number(point.get("cer")), as_number(point.get("cer_in_one_script"))) for point in points]
    told = [(rate, alike) for rate, alike in apart if rate is not None and alike is not None]
    if len(told) < len(points) or all(rate - alike < _LITTLE for rate, alike in told):
        return None
    before, after = (format_percent(alike) for _, alike in told)
    return Message(
        "Characters of the other script (simplified or traditional) count as errors. In one script, the "
        "character errors are {before} before and {after} after.",
        before=before,
        after=after,
    )


def as_table(value: Any) -> Mapping[str, Any]:
    """What should be an object of JSON; an empty one if it is none."""
    return value if isinstance(value, Mapping) else {}


def as_number(value: Any) -> float | None:
    """What should be a number of JSON that can be written down."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < 10**15 else None  # a NaN is below nothing


def _named(found: Mapping[str, Any] | None, what: str) -> Iterable[str]:
    names = as_table(found).get(what)
    return [check for check in CHECK_NAMES if isinstance(names, list) and check in names]
