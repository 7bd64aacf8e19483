"""Which language is spoken where in a recording: asked of short parts, believed where many agree.

A part of four seconds, which the encoder sees as long as it is, costs a tenth of a window. Alone it is not
to be trusted: whisper-tiny takes a third of such parts of accented English for another language. So the
likeliest way through all parts is taken (Viterbi), and a stretch in another language counts only if it is
e¹⁰ times as likely as the recording's own: five nats for each of its two ends. Then whisper-tiny finds one
language in each of 34 accented recordings of 44 s, and in 13 of 15 of 100 s.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.voice_activity import voiced_spans
from studio.watching import ShouldStop, never

_PART_SECONDS = 4.0
_PARTS_TOGETHER = 8
_ALL_ASKED, _FIRST_ASKED = 16, 4
"""Of more parts only each fourth is asked first, and then the neighbours of those that are in doubt."""
_IN_DOUBT = 0.5
"""Below this probability of the language of the whole."""
_CHANGE_NATS = 5.0
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
    samples: Sound, ask: Ask, before: str = "", should_stop: ShouldStop = never
) -> tuple[list[Spoken], dict[str, float]]:
    """All of a piece, mono at 16 kHz, in parts of one language each, and how likely each language is on the
    whole, likeliest first; nothing where nobody speaks.

    They meet in the middle of a pause. `before`: the language that was spoken before the piece, if any. What
    comes after `should_stop` says so counts for the language before it.
    """
    spans = list(spans_to_ask(samples))
    rows: dict[int, Odds] = {}

    def ask_of(wanted: Iterable[int]) -> None:
        """Asks these parts, if they are there and were not asked."""
        left = [number for number in wanted if 0 <= number < len(spans) and number not in rows]
        for first in range(0, len(left), _PARTS_TOGETHER):
            if should_stop():
                return
            numbers = left[first : first + _PARTS_TOGETHER]
            sounds = [samples[slice(*spans[number])] for number in numbers]
            rows.update(zip(numbers, ask(sounds), strict=True))

    step = 1 if len(spans) <= _ALL_ASKED else _FIRST_ASKED
    ask_of(range(0, len(spans), step))
    if not rows:
        return [], {}
    weights = [(end - start) / (_PART_SECONDS * SAMPLING_RATE) for start, end in spans]
    odds = mean_odds([*rows.values()], [weights[number] for number in rows])
    home = before if before in odds else next(iter(odds))
    in_doubt = [number for number, row in rows.items() if row[home] < _IN_DOUBT]
    ask_of(sorted({one for number in in_doubt for one in range(number - step + 1, number + step)}))
    clear = {one for row in rows.values() for one, likely in row.items() if likely >= _CLEAR}
    languages = sorted({next(iter(odds)), home, *clear})
    known = [rows.get(number) for number in range(len(spans))]
    path = _likeliest_path(
        [
            [weight * math.log(max(row[one], _LEAST)) if row else 0.0 for one in languages]
            for weight, row in zip(weights, known, strict=True)
        ],
        languages.index(home),
    )
    changes = [at for at in range(1, len(path)) if path[at] != path[at - 1]]
    borders = [0, *((spans[at - 1][1] + spans[at][0]) // 2 for at in changes), len(samples)]
    spoken = [languages[path[at]] for at in (0, *changes)]
    return [Spoken(*edges, one) for edges, one in zip(pairwise(borders), spoken, strict=True)], odds


def mean_odds(rows: Sequence[Odds], weights: Sequence[float]) -> dict[str, float]:
    """Of the probabilities of each language, likeliest first."""
    mean = {code: float(np.average([row[code] for row in rows], weights=weights)) for code in rows[0]}
    return dict(sorted(mean.items(), key=lambda item: item[1], reverse=True))


def spans_to_ask(samples: Sound) -> Iterator[tuple[int, int]]:
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


def _likeliest_path(gains: Sequence[Sequence[float]], home: int) -> list[int]:
    """Which language each part has; `gains`: log-probabilities, (parts, languages). Before the first and
    behind the last part it is `home`."""
    numbers = np.arange(len(gains[0]))
    away = _CHANGE_NATS * (numbers != home)
    best = -away
    came_from: list[NDArray[np.int64]] = []
    for row in gains:
        changed = best.max() - _CHANGE_NATS
        came_from.append(np.where(best >= changed, numbers, best.argmax()))
        best = np.maximum(best, changed) + np.asarray(row)
    path = [int((best - away).argmax())]
    for row_from in reversed(came_from[1:]):
        path.append(int(row_from[path[-1]]))
    return path[::-1]
