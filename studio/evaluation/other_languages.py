"""Clips in languages that a run does not train: a base knows many, and tuning in one can take the others."""

from collections.abc import Collection
from typing import Any

from studio.dataset.example import Example, spread
from studio.dataset.manifest import read_manifest
from studio.errors import ConfigError
from studio.files import read_json
from studio.settings import DEMO_SPEECH, Settings
from studio.transcription.languages import resolve_language

_SAMPLE = DEMO_SPEECH / "samples" / "long.json"
"""Many sentences in English, spoken by several voices."""
_MARGIN_SECONDS = 0.2
"""Around a sentence of the sample."""


def clips_in_other_languages(
    source: str,
    own: Collection[str],
    most: int,
    settings: Settings,
    **where: Any,
) -> list[Example]:
    """At most `most` clips of something else than what is trained, spread over `source`.

    `source` is a manifest as `read_manifest` takes it, `where` are options of that. Of its rows those count
    that name a language which is not in `own` (codes); if there are none, all do: speech of another style.
    Empty stands for the English that comes with the studio, also where English is trained: whole sentences,
    one after the other, are something else than most clips. It is of no use where the own languages are not
    known.

    Raises:
        ManifestError: if the manifest cannot be used.
        ConfigError: if a row's language is unknown.
    """
    if not source:
        return spread(_english() if own else [], most)
    manifest = read_manifest(source, settings, split="test", **where)
    others = [row for row in manifest.examples if row.language and _code(row) not in own]
    return spread(others or manifest.examples, most)


def _code(example: Example) -> str:
    try:
        return resolve_language(str(example.language))
    except ConfigError as error:
        raise ConfigError(
            "Line {line} of other_languages_data: {reason}", line=example.line, reason=error
        ) from error


def _english() -> list[Example]:
    sample = read_json(_SAMPLE)
    return [
        Example(
            audio_path=_SAMPLE.parent / sample["file"],
            text=segment["text"],
            language="en",
            task=None,
            start_seconds=segment["start"] - _MARGIN_SECONDS,
            end_seconds=segment["end"] + _MARGIN_SECONDS,
            duration_seconds=segment["end"] - segment["start"] + 2 * _MARGIN_SECONDS,
            segments=(),
            line=number,
        )
        for number, segment in enumerate(sample["segments"], 1)
    ]
