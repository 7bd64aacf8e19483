"""Error rates: edits over a whole corpus, not the mean of its utterances; and whether a difference is real.

- WER counts words, separated by white space.
- CER counts characters as they are, spaces within the text too; only white space around it is dropped.
- MER (mixed) counts a Chinese or Japanese character as one token, and any other run of letters as a word.

A rate is errors / reference length. Where all references are empty, it is the number of inserted tokens.
Distances and alignments are jiwer's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from studio.errors import ConfigError
from studio.evaluation.normalize import normalize

METRICS = ("wer", "cer", "mer")
Kind = Literal["equal", "substitute", "delete", "insert"]

_IDEOGRAPH = (
    "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_MIXED_TOKEN = re.compile(rf"[{_IDEOGRAPH}]|[^\s{_IDEOGRAPH}]+")
_BLOCK = 1_000_000
"""Random numbers drawn at a time by the bootstrap."""


@dataclass(frozen=True)
class EditCounts:
    """How a hypothesis differs from its reference."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """All edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """Tokens of the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        """Errors over length; the errors themselves if the reference is empty."""
        return self.errors / max(1, self.length)


@dataclass(frozen=True)
class ErrorRates:
    """Error rates of a corpus, and the edits they come from."""

    wer: float
    cer: float
    mer: float
    n: int
    """Utterances."""
    words: EditCounts
    characters: EditCounts
    mixed: EditCounts


Alignment = list[tuple[Kind, str, str]]
"""Of an utterance: what was done to each token, the token said and the token written; one of them may be
empty."""
Errors = Sequence[tuple[int, int]]
"""Errors and reference length of each utterance."""


@dataclass(frozen=True)
class Comparison:
    """Two models on the same utterances."""

    metric: str
    difference: float
    """Rate of b minus rate of a: below zero, b is better."""
    ci_low: float
    ci_high: float
    significant: bool
    """Whether the interval leaves zero out."""
    better: int
    """Utterances in which b makes fewer errors: with `worse`, those that decide."""
    worse: int


@dataclass(frozen=True)
class AlignedPiece:
    """A stretch of tokens that are alike, or edited in the same way."""

    kind: Kind
    reference: str
    """Empty for an insertion."""
    hypothesis: str
    """Empty for a deletion."""


def error_rates(references: Sequence[str], hypotheses: Sequence[str], normalizer: str = "none") -> ErrorRates:
    """WER, CER and MER of a corpus, after normalising both sides.

    Raises:
        ConfigError: if there is no such normaliser.
        ValueError: if there are not as many hypotheses as references.
    """
    pairs = _normalized(references, hypotheses, normalizer)
    words, characters, mixed = (_total(_counts(pairs, metric)) for metric in METRICS)
    return ErrorRates(words.rate, characters.rate, mixed.rate, len(pairs), words, characters, mixed)


def utterance_errors(
    reference: str, hypothesis: str, metric: str, normalizer: str = "none"
) -> tuple[int, int]:
    """Errors and reference length of one utterance; `metric` is one of `METRICS`.

    Raises:
        ConfigError: if there is no such metric or normaliser.
    """
    counts = _counts(_normalized([reference], [hypothesis], normalizer), metric)[0]
    return counts.errors, counts.length


def paired_bootstrap(
    references: Sequence[str],
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    metric: str = "wer",
    normalizer: str = "none",
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Is b better than a, or is it luck? Utterances are drawn with replacement, the same for both models.

    After Bisani and Ney (2004), Bootstrap estimates for confidence intervals in ASR performance evaluation.

    Raises:
        ConfigError: if there is no utterance, or no such metric or normaliser.
        ValueError: if the three do not have the same length.
    """
    if not references:
        raise ConfigError("There is nothing to compare: the two models have no utterance in common.")
    counts_a = _counts(_normalized(references, hypotheses_a, normalizer), metric)
    counts_b = _counts(_normalized(references, hypotheses_b, normalizer), metric)
    errors_a, errors_b = ([(c.errors, c.length) for c in counts] for counts in (counts_a, counts_b))
    difference, low, high = interval_of(
        errors_a, errors_b, resamples=resamples, confidence=confidence, seed=seed
    )
    more = [y - x for (x, _), (y, _) in zip(errors_a, errors_b, strict=True)]
    better, worse = sum(count < 0 for count in more), sum(count > 0 for count in more)
    return Comparison(metric, difference, low, high, low > 0 or high < 0, better, worse)


def errors_of_parts(parts: Sequence[str], hypothesis: str, metric: str, normalizer: str = "none") -> Errors:
    """Errors and reference length of each sentence of a recording, of which there is one text for all.

    What was inserted between two sentences counts for the second; `metric` is `wer` or `cer`.

    Raises:
        ConfigError: if there is no such metric or normaliser.
    """
    tokens = [_tokens(normalize(part, normalizer), metric) for part in parts]
    owners = [number for number, row in enumerate(tokens) for _ in row]
    heard = _tokens(normalize(hypothesis, normalizer), metric)
    errors = [0] * len(parts)
    if not owners:
        return [(0, 0)] * len(parts)
    given = " ".join(token for row in tokens for token in row)
    for chunk in _process([(given, " ".join(heard))], "wer").alignments[0]:
        if chunk.type == "insert":
            owner = owners[min(chunk.ref_start_idx, len(owners) - 1)]
            errors[owner] += chunk.hyp_end_idx - chunk.hyp_start_idx
        elif chunk.type != "equal":
            for place in range(chunk.ref_start_idx, chunk.ref_end_idx):
                errors[owners[place]] += 1
    return [(count, len(row)) for count, row in zip(errors, tokens, strict=True)]


def _tokens(text: str, metric: str) -> list[str]:
    return list("".join(text.split())) if metric == "cer" else text.split()


def interval_of(
    a: Errors, b: Errors, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """Error rate of b minus that of a, and its interval: see `paired_bootstrap`.

    `a` and `b` have errors and reference length of the same utterances.
    """
    lengths = np.array([length for _, length in a], dtype=np.float64)
    more = np.array([y - x for (x, _), (y, _) in zip(a, b, strict=True)], dtype=np.float64)
    differences = _resampled_ratio(more, lengths, resamples, np.random.default_rng(seed))
    tail = (1 - confidence) / 2
    low, high = (float(bound) for bound in np.quantile(differences, [tail, 1 - tail]))
    return float(more.sum() / max(1.0, lengths.sum())), low, high


def rate_interval(
    references: Sequence[str], hypotheses: Sequence[str], metric: str, *, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of a corpus's error rate: see `paired_bootstrap`.

    Raises:
        ConfigError: if there is no such metric.
    """
    counts = _counts(_normalized(references, hypotheses, "none"), metric)
    none = [(0, count.length) for count in counts]
    _, low, high = interval_of(none, [(c.errors, c.length) for c in counts], confidence=confidence)
    return low, high


def align(reference: str, hypothesis: str) -> list[AlignedPiece]:
    """The two texts side by side, for a coloured diff: tokens as in MER, in stretches of one kind."""
    output = _process([(" ".join(mixed_tokens(reference)), " ".join(mixed_tokens(hypothesis)))], "wer")
    given, heard = output.references[0], output.hypotheses[0]
    return [
        AlignedPiece(
            chunk.type,
            _joined(given[chunk.ref_start_idx : chunk.ref_end_idx]),
            _joined(heard[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in output.alignments[0]
    ]


def alignments(given: Sequence[Sequence[str]], heard: Sequence[Sequence[str]]) -> Iterator[Alignment]:
    """How each row of tokens that were written comes from the row that was said."""
    output = _process([(" ".join(a), " ".join(b)) for a, b in zip(given, heard, strict=True)], "wer")
    for said, written, chunks in zip(given, heard, output.alignments, strict=True):
        yield [
            (chunk.type, *pair)
            for chunk in chunks
            for pair in zip_longest(
                said[chunk.ref_start_idx : chunk.ref_end_idx],
                written[chunk.hyp_start_idx : chunk.hyp_end_idx],
                fillvalue="",
            )
        ]


def token_distances(
    references: Sequence[str], hypotheses: Sequence[str], metric: str
) -> tuple[NDArray[np.int64], int]:
    """Errors of each utterance, and the length of all references; `metric` is `wer` or `cer`.

    The same figures as those of alignments, thirty times as fast.
    """
    from rapidfuzz.distance import Levenshtein

    split = str.strip if metric == "cer" else str.split
    pairs = [(split(a), split(b)) for a, b in zip(references, hypotheses, strict=True)]
    errors = [Levenshtein.distance(given, heard) for given, heard in pairs]
    return np.array(errors, dtype=np.int64), sum(len(given) for given, _ in pairs)


def _normalized(
    references: Sequence[str], hypotheses: Sequence[str], normalizer: str
) -> list[tuple[str, str]]:
    return [
        (normalize(reference, normalizer), normalize(hypothesis, normalizer))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]


def _counts(pairs: list[tuple[str, str]], metric: str) -> list[EditCounts]:
    if metric == "mer":
        pairs = [(" ".join(mixed_tokens(given)), " ".join(mixed_tokens(heard))) for given, heard in pairs]
    return [_edits(chunks) for chunks in _process(pairs, metric).alignments] if pairs else []


def _process(pairs: list[tuple[str, str]], metric: str) -> Any:
    import jiwer

    if metric == "cer":
        return jiwer.process_characters(
            [given.strip() for given, _ in pairs], [heard.strip() for _, heard in pairs]
        )
    if metric in ("wer", "mer"):
        return jiwer.process_words(
            [" ".join(given.split()) for given, _ in pairs], [" ".join(heard.split()) for _, heard in pairs]
        )
    raise ConfigError(
        "There is no metric {metric!r}: choose {known}.", metric=metric, known=", ".join(METRICS)
    )


def _edits(chunks: list[Any]) -> EditCounts:
    sums = {"equal": 0, "substitute": 0, "delete": 0, "insert": 0}
    for chunk in chunks:
        given, heard = chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx
        sums[chunk.type] += max(given, heard)
    return EditCounts(sums["equal"], sums["substitute"], sums["delete"], sums["insert"])


def _total(counts: list[EditCounts]) -> EditCounts:
    return EditCounts(
        sum(c.hits for c in counts),
        sum(c.substitutions for c in counts),
        sum(c.deletions for c in counts),
        sum(c.insertions for c in counts),
    )


def _resampled_ratio(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    resamples: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """sum(numerators) / sum(denominators) over `resamples` draws of the utterances, (resamples,)."""
    n = len(numerators)
    step = max(1, _BLOCK // n)
    ratios = []
    for done in range(0, resamples, step):
        drawn = random.integers(n, size=(min(step, resamples - done), n))
        ratios.append(numerators[drawn].sum(axis=1) / np.maximum(1.0, denominators[drawn].sum(axis=1)))
    return np.concatenate(ratios)


def mixed_tokens(text: str) -> list[str]:
    """Words, and each Chinese or Japanese character by itself: what MER counts."""
    return _MIXED_TOKEN.findall(text)


def _joined(tokens: list[str]) -> str:
    """Tokens as one would write them: no space beside an ideograph."""
    text = ""
    for token in tokens:
        needs_space = (
            text and not re.match(rf"[{_IDEOGRAPH}]", token) and not re.search(rf"[{_IDEOGRAPH}]$", text)
        )
        text += f" {token}" if needs_space else token
    return text
