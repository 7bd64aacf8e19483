"""Error rates: edits over a whole corpus, not the mean of its utterances; and whether a difference is real.

- WER counts words, separated by white space.
- CER counts characters as they are, spaces within the text too; only white space around it is dropped.
- MER (mixed) counts a Chinese or Japanese character as one token, and any other run of letters as a word.

A rate is errors / reference length. Where all references are empty, it is the number of inserted tokens.
Distances and alignments are rapidfuzz's, as jiwer's are: the figures are jiwer's to the last digit.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from studio.dataset.example import FEWEST_CLIPS
from studio.dataset.written import IDEOGRAPH, is_tight
from studio.errors import ConfigError
from studio.evaluation.normalize import normalize, writes_without_spaces
from studio.options.checks import check_choice
from studio.transcription.languages import AUTO, resolve_language

METRICS = ("wer", "cer", "mer")
Kind = Literal["equal", "substitute", "delete", "insert"]

_MIXED_TOKEN = re.compile(rf"[{IDEOGRAPH}]|[^\s{IDEOGRAPH}]+")
_KINDS: dict[str, Kind] = {"equal": "equal", "replace": "substitute", "delete": "delete", "insert": "insert"}
_RESAMPLES, _SEED = 1000, 0
_INTERVAL = ((1 - 0.95) / 2, 1 - (1 - 0.95) / 2)
"""Of 95 %."""
_BLOCK = 1_000_000
"""Random numbers drawn at a time by the bootstrap."""


@dataclass(frozen=True)
class ErrorRates:
    """Error rates of a corpus."""

    wer: float
    cer: float
    mer: float
    n: int
    """Utterances."""


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
    """Whether the interval leaves zero out, and is not of too few utterances."""
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


def metric_for(language: str, texts: Sequence[str] = ()) -> str:
    """`wer` or `cer`: which counts in a language (code or English name), or in texts of an unknown one."""
    try:
        is_known = resolve_language(language) != AUTO
    except ConfigError:
        is_known = False
    if is_known:
        return "cer" if writes_without_spaces(language) else "wer"
    return "cer" if is_tight("".join(texts)) else "wer"


def in_order(metric: str) -> tuple[str, str]:
    """WER and CER, the one first that counts."""
    return ("cer", "wer") if metric == "cer" else ("wer", "cer")


def error_rates(references: Sequence[str], hypotheses: Sequence[str], normalizer: str = "none") -> ErrorRates:
    """WER, CER and MER of a corpus, after normalising both sides.

    Raises:
        ConfigError: if there is no such normaliser.
        ValueError: if there are not as many hypotheses as references.
    """
    given, heard = ([normalize(text, normalizer) for text in side] for side in (references, hypotheses))
    wer, cer, mer = (
        float(errors.sum() / max(1, lengths.sum()))
        for errors, lengths in (token_distances(given, heard, metric) for metric in METRICS)
    )
    return ErrorRates(wer, cer, mer, len(given))


def utterance_errors(
    reference: str, hypothesis: str, metric: str, normalizer: str = "none"
) -> tuple[int, int]:
    """Errors and reference length of one utterance; `metric` is one of `METRICS`.

    Raises:
        ConfigError: if there is no such metric or normaliser.
    """
    errors, lengths = token_distances(
        [normalize(reference, normalizer)], [normalize(hypothesis, normalizer)], metric
    )
    return int(errors[0]), int(lengths[0])


def paired_bootstrap(
    references: Sequence[str],
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    metric: str = "wer",
    normalizer: str = "none",
    *,
    resamples: int = _RESAMPLES,
) -> Comparison:
    """Is b better than a, or is it luck? Utterances are drawn with replacement, the same for both models.

    After Bisani and Ney (2004), Bootstrap estimates for confidence intervals in ASR performance evaluation.

    Raises:
        ConfigError: if there is no utterance, or no such metric or normaliser.
        ValueError: if the three do not have the same length.
    """
    if not references:
        raise ConfigError("There is nothing to compare: the two models have no utterance in common.")
    given, *heard = (
        [normalize(text, normalizer) for text in side] for side in (references, hypotheses_a, hypotheses_b)
    )
    (errors_a, lengths), (errors_b, _) = (token_distances(given, side, metric) for side in heard)
    more = errors_b - errors_a
    difference, low, high = _interval(more, lengths, resamples)
    better, worse = int((more < 0).sum()), int((more > 0).sum())
    is_significant = len(given) >= FEWEST_CLIPS and (low > 0 or high < 0)
    return Comparison(metric, difference, low, high, is_significant, better, worse)


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
    for kind, first, last, begin, end in edits([token for row in tokens for token in row], heard):
        if kind == "insert":
            errors[owners[min(first, len(owners) - 1)]] += end - begin
        elif kind != "equal":
            for place in range(first, last):
                errors[owners[place]] += 1
    return [(count, len(row)) for count, row in zip(errors, tokens, strict=True)]


def _tokens(text: str, metric: str) -> list[str]:
    return list("".join(text.split())) if metric == "cer" else text.split()


def interval_of(a: Errors, b: Errors) -> tuple[float, float, float]:
    """Error rate of b minus that of a, and its interval: see `paired_bootstrap`.

    `a` and `b` have errors and reference length of the same utterances.
    """
    lengths = np.array([length for _, length in a], dtype=np.int64)
    more = np.array([y - x for (x, _), (y, _) in zip(a, b, strict=True)], dtype=np.int64)
    return _interval(more, lengths)


def _interval(
    more: NDArray[np.int64], lengths: NDArray[np.int64], resamples: int = _RESAMPLES
) -> tuple[float, float, float]:
    """The same of what b has `more` errors than a, utterance by utterance."""
    differences = _resampled_ratio(
        more.astype(np.float64), lengths.astype(np.float64), resamples, np.random.default_rng(_SEED)
    )
    low, high = (float(bound) for bound in np.quantile(differences, _INTERVAL))
    return float(more.sum() / max(1.0, lengths.sum())), low, high


def rate_interval(references: Sequence[str], hypotheses: Sequence[str], metric: str) -> tuple[float, float]:
    """The interval of a corpus's error rate: see `paired_bootstrap`.

    Raises:
        ConfigError: if there is no such metric.
    """
    errors, lengths = token_distances(references, hypotheses, metric)
    _, low, high = _interval(errors, lengths)
    return low, high


def align(reference: str, hypothesis: str) -> list[AlignedPiece]:
    """The two texts side by side, for a coloured diff: tokens as in MER, in stretches of one kind."""
    given, heard = mixed_tokens(reference), mixed_tokens(hypothesis)
    return [
        AlignedPiece(kind, _joined(given[first:last]), _joined(heard[begin:end]))
        for kind, first, last, begin, end in edits(given, heard)
    ]


def edits(given: Sequence[str], heard: Sequence[str]) -> Iterator[tuple[Kind, int, int, int, int]]:
    """Stretches of one kind: where each begins and ends in what was said, and in what was written."""
    from rapidfuzz.distance import Levenshtein

    for code in Levenshtein.opcodes(given, heard):
        yield _KINDS[code.tag], code.src_start, code.src_end, code.dest_start, code.dest_end


def token_distances(
    references: Sequence[str], hypotheses: Sequence[str], metric: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Errors and reference length of each utterance; `metric` is one of `METRICS`.

    Raises:
        ConfigError: if there is no such metric.
        ValueError: if there are not as many hypotheses as references.
    """
    from rapidfuzz.distance import Levenshtein

    ways: dict[str, Callable[[str], Sequence[str]]] = {
        "wer": str.split,
        "cer": str.strip,
        "mer": mixed_tokens,
    }
    check_choice("metric", metric, ways)
    split = ways[metric]
    pairs = [(split(a), split(b)) for a, b in zip(references, hypotheses, strict=True)]
    errors = [Levenshtein.distance(given, heard) for given, heard in pairs]
    return np.array(errors, dtype=np.int64), np.array([len(given) for given, _ in pairs], dtype=np.int64)


def _resampled_ratio(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    resamples: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """sum(numerators) / sum(denominators) over `resamples` draws of the utterances, (resamples,).

    Each draw has as many utterances with words as the test set, and as many without. Drawn all together, some
    draws would hold hardly any words: what a model writes on silence, divided by so few, gives a rate of any
    size. To skip only the draws that have no words at all would not help: those with one word would stay.
    """
    kinds = [np.flatnonzero(denominators > 0), np.flatnonzero(denominators == 0)]
    step = max(1, _BLOCK // len(numerators))
    ratios = []
    for done in range(0, resamples, step):
        count = min(step, resamples - done)
        drawn = np.hstack(
            [kind[random.integers(len(kind), size=(count, len(kind)))] for kind in kinds if len(kind)]
        )
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
            text and not re.match(rf"[{IDEOGRAPH}]", token) and not re.search(rf"[{IDEOGRAPH}]$", text)
        )
        text += f" {token}" if needs_space else token
    return text
