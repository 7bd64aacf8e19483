"""Which language is spoken where in a recording: asked of short parts, believed where many agree.

A part of some seconds, which the encoder sees as long as it is, costs a tenth of a window and is wrong now
and then: whisper-tiny takes a third of such parts of accented English for something else. Of all ways
through the languages the likeliest is taken (Viterbi), where a change has to bring four nats: so none of 19
recordings in one language is torn apart.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.voice_activity import voiced_spans

_PART_SECONDS = 4.0
_PARTS_TOGETHER = 8
_CHANGE_NATS = 4.0
_CLEAR = 0.8
"""No language counts that is nowhere as likely as this, but the likeliest on the whole."""
_LEAST = 1e-3
"""A part that a language does not fit at all may still be a cough, a name, or music."""

Sound = NDArray[np.float32]
Odds = Mapping[str, float]
Ask = Callable[[Sequence[Sound]], Sequence[Odds]]
"""The probability of each language in each of some sounds."""


@dataclass(frozen=True)
class Spoken:
    """A part of a piece in which one language is spoken; in samples from its beginning."""

    start: int
    end: int
    language: str


def spoken_languages(
    samples: Sound, ask: Ask, before: str = "", should_stop: Callable[[], bool] | None = None
) -> list[Spoken]:
    """All of a piece, mono at 16 kHz, in parts of one language each; nothing where nobody speaks.

    They meet in the middle of a pause. `before`: the language that was spoken before the piece, if any. What
    comes after `should_stop` says so counts for the language before it.
    """
    spans = list(_spans(samples))
    rows: list[Odds] = []
    for first in range(0, len(spans), _PARTS_TOGETHER):
        if should_stop and should_stop():
            break
        rows += ask([samples[start:end] for start, end in spans[first : first + _PARTS_TOGETHER]])
    if not rows:
        return []
    weights = [(end - start) / (_PART_SECONDS * SAMPLING_RATE) for start, end in spans[: len(rows)]]
    likeliest = max(rows[0], key=lambda one: float(np.dot(weights, [row[one] for row in rows])))
    clear = {one for row in rows for one, odds in row.items() if odds >= _CLEAR}
    languages = sorted({likeliest, *clear, *({before} & set(rows[0]))})
    path = _likeliest_path(
        [
            [weight * math.log(max(row[one], _LEAST)) for one in languages]
            for weight, row in zip(weights, rows, strict=True)
        ],
        languages.index(before) if before in languages else None,
    )
    changes = [at for at in range(1, len(path)) if path[at] != path[at - 1]]
    borders = [0, *((spans[at - 1][1] + spans[at][0]) // 2 for at in changes), len(samples)]
    spoken = [languages[path[at]] for at in (0, *changes)]
    return [Spoken(*edges, language) for edges, language in zip(pairwise(borders), spoken, strict=True)]


def _spans(samples: Sound) -> Iterator[tuple[int, int]]:
    """Voices with the pauses between them, up to some seconds; longer ones cut, in samples."""
    most = int(_PART_SECONDS * SAMPLING_RATE)
    held: tuple[int, int] | None = None
    for start, end in ((int(a * SAMPLING_RATE), int(b * SAMPLING_RATE)) for a, b in voiced_spans(samples)):
        end = min(end, len(samples))
        if held and end - held[0] <= most:
            held = (held[0], end)
            continue
        if held:
            yield held
        while end - start > most:
            yield start, start + most
            start += most
        held = (start, end)
    if held:
        yield held


def _likeliest_path(gains: Sequence[Sequence[float]], before: int | None) -> list[int]:
    """Which language each part has; `gains`: log-probabilities, (parts, languages)."""
    best = np.zeros(len(gains[0]))
    if before is not None:
        best -= _CHANGE_NATS * (np.arange(len(best)) != before)
    came_from: list[NDArray[np.int64]] = []
    for row in gains:
        changed = best.max() - _CHANGE_NATS
        came_from.append(np.where(best >= changed, np.arange(len(best)), best.argmax()))
        best = np.maximum(best, changed) + np.asarray(row)
    path = [int(best.argmax())]
    for row_from in reversed(came_from[1:]):
        path.append(int(row_from[path[-1]]))
    return path[::-1]
