"""What is wrong in an evaluation, word by word and clip by clip, and the clips that somebody asks for.

Words are those of the texts in their normal form, as the evaluation's; of Chinese and Japanese each character
is one, as in MER.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.errors import ConfigError
from studio.evaluation.metrics import edits, mixed_tokens
from studio.evaluation.normalize import normalize
from studio.evaluation.result import Evaluation, UtteranceRow
from studio.messages import Message
from studio.options.checks import check_choice
from studio.transcription.loops import LOOP_COMPRESSION_RATIO, compression_ratio, without_repeats

GROUPINGS = ("duration", "speaker", "language", "loudness", "speed")
SHOWN = ("all", "errors", "lost", "gained", "silence", "loops", "unsure", "corrected")
SORTS = ("worst", "list", "difference", "unsure", "longest", "shortest")
UNSURE = 0.7
"""Below this confidence a text is unsure, as a word of a transcript is."""
_REPEATS_OF_A_LOOP = 3
_DURATIONS = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds."""
_LOUDNESSES = (-42.0, -36.0, -30.0, -24.0, -18.0)
"""Decibels below full scale."""
_SPEEDS = 5
"""Groups of about equally many clips."""

Mistake = tuple[str, str]
"""Said and written: nothing was said of an insertion, nothing written of a deletion."""
Cell = tuple[int, int]
"""Percent of errors of the model that is compared with, and of the model: from there, less than 5 more."""
_CELL_PERCENT = 5


def cell_at(x: float, y: float) -> Cell:
    """The cell in which two shares in percent lie; from 100 on, all are one."""
    a, b = (int(min(100.0, share) // _CELL_PERCENT * _CELL_PERCENT) for share in (x, y))
    return a, b


@dataclass(frozen=True)
class Group:
    """Clips that have something in common, and what a model makes of them."""

    key: str
    """A range with its unit, a speaker, or a language as the list has it."""
    clips: int
    errors: int
    words: int
    """Of the references."""
    label: Message
    """The key in words that can be translated."""

    @property
    def rate(self) -> float:
        """Errors over words; the errors themselves where nothing is said."""
        return self.errors / max(1, self.words)


@dataclass(frozen=True)
class Query:
    """Which clips are asked for, and in which order."""

    model: int = 0
    """Place of the model whose errors count."""
    against: int = 0
    """Place of the one that it is compared with."""
    show: str = "all"
    """One of `SHOWN`: `lost` is where the model makes more errors than the other, `gained` where fewer,
    `silence` where it writes though nothing was said, `loops` where it repeats itself, `unsure` where its
    confidence is below `UNSURE`, `corrected` where somebody has corrected the reference."""
    sort: str = "worst"
    by: str = ""
    """One of `GROUPINGS`, with `group`."""
    group: str = ""
    search: str = ""
    """What stands in the reference or in a model's text."""
    mistake: tuple[str | None, str | None] | None = None
    """Said and written; None: whatever it is."""
    cell: Cell | None = None
    corrected: Collection[int] = ()
    """Places of the clips whose reference is corrected."""


@dataclass(frozen=True)
class WordRow:
    """A word of the references."""

    word: str
    said: int
    right: int


class ModelErrors:
    """What one model makes of the clips."""

    def __init__(self, given: Sequence[Sequence[str]], texts: Sequence[str], normalizer: str) -> None:
        """`given` are the words that were said, clip by clip; `texts` are as they were written."""
        self.errors = np.zeros(len(texts), dtype=np.int64)
        self.is_loop = np.zeros(len(texts), dtype=bool)
        self.lengths = np.array([len(words) for words in given], dtype=np.int64)
        """Words that were said, clip by clip."""
        self.words = np.zeros(len(texts), dtype=np.int64)
        """Words that were written, clip by clip."""
        self.said = Counter(chain.from_iterable(given))
        self.mistakes: dict[Mistake, list[int]] = defaultdict(list)
        """The clips of each, one as often as it happens there."""
        for place, text in enumerate(texts):
            heard = words_of(text, normalizer)
            self._count(place, given[place], heard)
            self.is_loop[place] = repeats_itself(heard, given[place])
        self.right = self.said.copy()
        for (word, _), at in self.mistakes.items():
            if word:
                self.right[word] -= len(at)

    def _count(self, place: int, given: Sequence[str], heard: Sequence[str]) -> None:
        mistakes = [
            mistake
            for kind, first, last, begin, end in edits(given, heard)
            if kind != "equal"
            for mistake in zip_longest(given[first:last], heard[begin:end], fillvalue="")
        ]
        for mistake in mistakes:
            self.mistakes[mistake].append(place)
        self.errors[place], self.words[place] = len(mistakes), len(heard)

    def words_by_errors(self) -> list[WordRow]:
        """The vocabulary of the references, the words first that are most often wrong."""
        rows = [WordRow(word, count, self.right[word]) for word, count in self.said.items()]
        return sorted(rows, key=lambda row: (row.right - row.said, row.word))

    def most_frequent(self, kind: str) -> list[tuple[Mistake, int]]:
        """`confusion`s, `deletion`s or `insertion`s with how often each happens, the most frequent first."""
        return self._by_kind[{"confusion": (True, True), "deletion": (True, False)}.get(kind, (False, True))]

    @cached_property
    def _by_kind(self) -> dict[tuple[bool, bool], list[tuple[Mistake, int]]]:
        """Mistakes by whether something was said and something written."""
        found = defaultdict(list)
        for (said, written), at in self.mistakes.items():
            found[bool(said), bool(written)].append(((said, written), len(at)))
        return defaultdict(
            list, {k: sorted(rows, key=lambda row: (-row[1], row[0])) for k, rows in found.items()}
        )


def words_of(text: str, normalizer: str) -> list[str]:
    """The words of a text in its normal form, as MER counts them."""
    return mixed_tokens(normalize(text, normalizer))


def repeats_itself(written: Sequence[str], said: Sequence[str]) -> bool:
    """Whether words are written again and again, and were not said so."""

    def is_one(words: Sequence[str]) -> bool:
        """Whether these words are a loop."""
        if len(words) - len(set(words)) < _REPEATS_OF_A_LOOP - 1:
            return False  # nothing is there often enough: quick, for almost all texts
        if compression_ratio(" ".join(words)) <= LOOP_COMPRESSION_RATIO:
            return False
        return without_repeats(tuple(words), _REPEATS_OF_A_LOOP) != tuple(words)

    return is_one(written) and not is_one(said)


class Explorer:
    """An evaluation that is looked into. A hundred thousand clips take a few seconds a model."""

    def __init__(self, found: Evaluation) -> None:
        """`found` has at least one model and one clip."""
        self.evaluation = found
        self.models = [row.id for row in found.models]
        self.names = self.models
        """What they are called where they are shown."""
        count = len(self.models)
        self.clips: Sequence[UtteranceRow] = found.utterances[::count]
        """What is the same for all models: sound, reference, speaker."""
        self.texts = [[row.hypothesis for row in found.utterances[n::count]] for n in range(count)]
        normalizer = found.models[0].normalizer
        given = [words_of(clip.reference, normalizer) for clip in self.clips]
        self.errors = [ModelErrors(given, texts, normalizer) for texts in self.texts]
        self.lengths = self.errors[0].lengths
        self.confidences = [
            np.array([row.confidence for row in found.utterances[n::count]], dtype=np.float64)
            for n in range(count)
        ]
        """How sure each model was, clip by clip, 0 to 1; NaN where nobody knows."""
        self._searched: list[str] = []
        self._labels: dict[str, Message] = {}
        keys = {by: self._keys_by(by) for by in GROUPINGS}
        self._order = {
            by: sorted(known, key=_numeric if by in _RANGES else lambda key: (0.0, key))
            for by, of_clips in keys.items()
            if len((known := {*of_clips}) - {""}) > 1
        }
        """The groups of each grouping in which clips differ; clips of an empty one are in none."""
        self._groups = {by: _places_in(order, keys[by]) for by, order in self._order.items()}
        """Clip by clip, the place of its group in that order."""

    def named(self, name: Callable[[str], str]) -> "Explorer":
        """The same, with a name for the id of each model."""
        other = copy(self)
        other.names = [name(model) for model in self.models]
        return other

    @property
    def groupings(self) -> list[str]:
        """Those of `GROUPINGS` in which the clips differ."""
        return list(self._order)

    def groups(self, by: str, model: int) -> list[Group]:
        """The clips in groups, ranges in their order; those of which nothing is known are in none."""
        places, most = self._groups[by], len(self._order[by])
        clips, errors, words = (
            np.bincount(places, weights, most).astype(np.int64).tolist()
            for weights in (None, self.errors[model].errors, self.lengths)
        )
        return [
            Group(key, own, wrong, said, self._labels.get(key) or Message("{name}", name=key))
            for key, own, wrong, said in zip(self._order[by], clips, errors, words, strict=True)
            if key
        ]

    def rate(self, model: int, place: int, reference: str | None = None) -> float:
        """Share of a clip's words that a model gets wrong; with another `reference` than it has, of those."""
        own, at = self.errors[model], place
        if reference is not None:
            normalizer = self.evaluation.models[model].normalizer
            own = ModelErrors([words_of(reference, normalizer)], [self.texts[model][place]], normalizer)
            at = 0
        return float(own.errors[at] / max(1, own.lengths[at]))

    def select(self, query: Query) -> NDArray[np.int64]:
        """Places of the clips that are asked for, in the order that is asked for.

        Raises:
            ConfigError: if there is no such model, choice, order or grouping.
        """
        check_choice("show", query.show, SHOWN)
        check_choice("sort", query.sort, SORTS)
        check_choice("by", query.by, ("", *GROUPINGS))
        for model in (query.model, query.against):
            if not 0 <= model < len(self.models):
                raise ConfigError("There is no model number {number} in this evaluation.", number=model + 1)
        places = np.flatnonzero(self._mask(query))
        keys = self._sort_keys(query)[places]
        return places[np.argsort(keys, kind="stable")]

    def _mask(self, query: Query) -> NDArray[np.bool_]:
        own, other = self.errors[query.model], self.errors[query.against]
        masks: dict[str, NDArray[np.bool_]] = {
            "all": np.ones(len(self.clips), dtype=bool),
            "errors": own.errors > 0,
            "lost": own.errors > other.errors,
            "gained": own.errors < other.errors,
            "silence": (self.lengths == 0) & (own.words > 0),
            "loops": own.is_loop,
            "unsure": self.confidences[query.model] < UNSURE,
            "corrected": np.isin(np.arange(len(self.clips)), list(query.corrected)),
        }
        mask = masks[query.show].copy()
        if query.by and query.group:
            known = self._order.get(query.by, [])
            mask &= self._groups[query.by] == known.index(query.group) if query.group in known else False
        if query.mistake:
            mask &= self._made(query.model, query.mistake)
        if query.cell:
            x, y = self._cells(query.model, query.against)
            mask &= (x == query.cell[0]) & (y == query.cell[1])
        if wanted := query.search.strip().casefold():
            self._searched = self._searched or [
                "\n".join((clip.reference, *texts)).casefold()
                for clip, *texts in zip(self.clips, *self.texts, strict=True)
            ]
            mask &= np.fromiter((wanted in text for text in self._searched), dtype=bool, count=len(mask))
        return mask

    def _made(self, model: int, mistake: tuple[str | None, str | None]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.clips), dtype=bool)
        for pair, at in self.errors[model].mistakes.items():
            if all(wanted in (None, had) for wanted, had in zip(mistake, pair, strict=True)):
                mask[at] = True
        return mask

    def _sort_keys(self, query: Query) -> NDArray[np.float64]:
        own = self.errors[query.model].errors
        if query.sort == "worst":
            return np.divide(-own, np.maximum(1, self.lengths), dtype=np.float64)
        if query.sort == "difference":
            differences: NDArray[np.int64] = np.abs(own - self.errors[query.against].errors)
            return -differences.astype(np.float64)
        if query.sort == "unsure":
            return np.nan_to_num(self.confidences[query.model], nan=np.inf)
        if query.sort == "list":
            return np.zeros(len(self.clips))
        seconds = np.array([clip.duration_seconds for clip in self.clips], dtype=np.float64)
        return seconds if query.sort == "shortest" else -1.0 * seconds

    def _keys_by(self, by: str) -> list[str]:
        """The group of each clip; empty: of none."""
        if by == "speaker":
            return [clip.speaker or "" for clip in self.clips]
        if by == "language":
            return [clip.language or "" for clip in self.clips]
        if by == "duration":
            return self._ranges([clip.duration_seconds for clip in self.clips], _DURATIONS, Message("s"))
        if by == "loudness":
            return self._ranges([clip.loudness_db for clip in self.clips], _LOUDNESSES, Message("dB"))
        speeds = [
            len("".join(clip.reference.split())) / max(0.1, clip.duration_seconds) for clip in self.clips
        ]
        said = [speed for speed in speeds if speed]
        edges = {float(edge) for edge in np.quantile(said or [0.0], np.arange(1, _SPEEDS) / _SPEEDS).round(1)}
        keys = self._ranges(speeds, sorted(edges), Message("1/s"))
        return [key if speed else "" for key, speed in zip(keys, speeds, strict=True)]

    def _ranges(self, values: Sequence[float], edges: Sequence[float], unit: Message) -> list[str]:
        """The range of each value, `2 to 5 s`; an edge belongs to the range above it."""
        names: list[Message] = []
        if edges:
            names.append(Message("< {edge} {unit}", edge=f"{edges[0]:g}", unit=unit))
            names += [
                Message("{low} to {high} {unit}", low=f"{low:g}", high=f"{high:g}", unit=unit)
                for low, high in pairwise(edges)
            ]
            names.append(Message("≥ {edge} {unit}", edge=f"{edges[-1]:g}", unit=unit))
        keys = [str(name) for name in names] or [""]
        self._labels |= dict(zip(keys, names, strict=False))
        return [keys[place] for place in np.searchsorted(np.array(edges), np.array(values), side="right")]

    def summary_of_silence(self, model: int) -> dict[str, int]:
        """Clips in which nothing is said, how many of them a model writes in, and how many words."""
        silent, words = self.lengths == 0, self.errors[model].words
        return {
            "clips": int(silent.sum()),
            "with_text": int((silent & (words > 0)).sum()),
            "words": int(words[silent].sum()),
        }

    def cells(self, model: int, against: int) -> list[tuple[Cell, int]]:
        """Clips by the errors of two models, in steps of 5 %: how many there are in each cell."""
        cells, counts = np.unique(self._cells(model, against), axis=1, return_counts=True)
        return [((x, y), count) for x, y, count in zip(*cells.tolist(), counts.tolist(), strict=True)]

    def _cells(self, model: int, against: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Percent of errors of the one compared with, and of the model; from 100 on, all are one."""
        shares = (self.errors[n].errors / np.maximum(1, self.lengths) for n in (against, model))
        steps = 100 // _CELL_PERCENT
        x, y = (_CELL_PERCENT * (steps * np.minimum(1.0, share)).astype(np.int64) for share in shares)
        return x, y

    def summary(self, model: int) -> dict[str, Any]:
        """What is wrong, for `--json`: words, confusions, deletions, insertions, silence, loops, groups."""
        own = self.errors[model]
        pairs = own.most_frequent
        return {
            "model": self.models[model],
            "words": [asdict(row) for row in own.words_by_errors()],
            "confusions": [
                {"said": said, "written": written, "count": count}
                for (said, written), count in pairs("confusion")
            ],
            "deletions": [{"word": said, "count": count} for (said, _), count in pairs("deletion")],
            "insertions": [{"word": written, "count": count} for (_, written), count in pairs("insertion")],
            "silence": self.summary_of_silence(model),
            "loops": int(own.is_loop.sum()),
            "groups": {
                by: [
                    {
                        **{name: getattr(group, name) for name in ("key", "clips", "errors", "words")},
                        "rate": group.rate,
                    }
                    for group in self.groups(by, model)
                ]
                for by in self.groupings
            },
        }


_RANGES = ("duration", "loudness", "speed")


def _places_in(order: Sequence[str], keys: Sequence[str]) -> NDArray[np.int64]:
    place = {key: number for number, key in enumerate(order)}
    return np.fromiter(map(place.__getitem__, keys), dtype=np.int64, count=len(keys))


def _numeric(key: str) -> tuple[float, str]:
    """Ranges by where they begin."""
    if not key or key.startswith("<"):
        return -np.inf, key
    return float(key.removeprefix("≥ ").split()[0]), key
