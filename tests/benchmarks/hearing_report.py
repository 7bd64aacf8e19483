"""What `tests.benchmarks.transcription` heard, as tables: errors, times, speed, words for nothing."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from studio.evaluation.normalize import normalize
from tests.benchmarks.recordings import Recording

Rows = Mapping[tuple[str, str, bool], dict[str, Any]]
LIBRARIES = ("pipeline", "pipeline-batched", "openai", "faster", "faster-batched", "faster-multilingual")
_DRAWS = 2000
_LONGEST_HITCH = 2
"""Words in a row that are missing without another in their place: more are lost, not misheard."""


def report(sounds: Sequence[Recording], names: Mapping[str, str], rows: Rows, machine: str) -> str:
    """All tables in Markdown."""
    pools = list(dict.fromkeys(sound.pool for sound in sounds if sound.utterances))
    variants = [variant for variant in names if any(key[0] == variant for key in rows)]
    parts = [
        "# Transcription, beside the libraries\n\n`python -m tests.benchmarks.transcription`: whisper-tiny, "
        f"one thread, float32, each library at its defaults. {machine}.\n"
    ]
    parts += [_errors(pool, sounds, variants, names, rows) for pool in pools]
    parts.append(_times(sounds, variants, names, rows))
    parts.append(_written_for_nothing(sounds, variants, names, rows))
    return "\n".join(parts)


# ---------------------------------------------------------------------- errors


def tokens(text: str, language: str, *, converts: bool = True) -> list[str]:
    """Words of English after Whisper's normaliser; characters of Mandarin, simplified unless told; both of a
    text in two languages (`auto`).
    """
    if language == "auto":
        parts = re.findall(r"[\u4e00-\u9fff]+|[^\u4e00-\u9fff]+", text)
        return [one for part in parts for one in tokens(part, "en" if part[0] < "\u4e00" else "zh")]
    if language == "en":
        return normalize(text, "english").split()
    plain = normalize(text, "chinese") if converts else unicodedata.normalize("NFKC", text).lower()
    return [char for char in plain if unicodedata.category(char)[0] not in "ZPSC"]


def errors_of_utterances(
    sound: Recording, text: str, *, converts: bool = True
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Errors and length of each utterance of a recording, and how many of its tokens are lost in a row."""
    said = [tokens(utterance.text, sound.language, converts=converts) for utterance in sound.utterances]
    whole = [token for part in said for token in part]
    owner = np.repeat(np.arange(len(said)), [len(part) for part in said])
    counts = np.zeros(len(said), np.int64)
    gone = []
    for edit in Levenshtein.editops(whole, tokens(text, sound.language, converts=converts)):
        counts[owner[min(edit.src_pos, len(owner) - 1)]] += 1
        if edit.tag == "delete":
            gone.append(edit.src_pos)
    return counts, np.array([len(part) for part in said]), _in_a_row(gone)


def _in_a_row(places: Sequence[int]) -> int:
    """How many of some places stand in rows longer than `_LONGEST_HITCH`."""
    runs = np.split(np.array(places), np.flatnonzero(np.diff(places) != 1) + 1) if places else []
    return sum(len(run) for run in runs if len(run) > _LONGEST_HITCH)


def _errors(
    pool: str, sounds: Sequence[Recording], variants: Sequence[str], names: Mapping[str, str], rows: Rows
) -> str:
    chosen = [sound for sound in sounds if sound.pool == pool]
    language = chosen[0].language
    found: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], int]] = {}
    raw: dict[str, float] = {}
    speed: dict[str, tuple[float, float]] = {}
    length = sum(sound.seconds for sound in chosen)
    for variant in variants:
        answers = [rows.get((variant, sound.name, False)) for sound in chosen]
        if any(answer is None for answer in answers):
            continue
        texts = [answer["text"] for answer in answers if answer]
        parts = [errors_of_utterances(s, t) for s, t in zip(chosen, texts, strict=True)]
        found[variant] = (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            sum(part[2] for part in parts),
        )
        if language == "zh":
            plain = [errors_of_utterances(s, t, converts=False) for s, t in zip(chosen, texts, strict=True)]
            raw[variant] = sum(part[0].sum() for part in plain) / sum(part[1].sum() for part in plain)
        speed[variant] = sum(a["cpu"] for a in answers if a) / length, max(a["peak"] for a in answers if a)
    libraries = [variant for variant in found if variant in LIBRARIES]
    best = min(libraries, key=lambda v: found[v][0].sum(), default=None)
    unit = {"zh": "characters", "auto": "words and characters"}.get(language, "words")
    head = (
        f"## {pool}\n\n{len(chosen)} recordings, {length / 60:.1f} min, "
        f"{sum(len(tokens(u.text, language)) for s in chosen for u in s.utterances)} {unit}.\n\n"
        f"| | errors | as written | beside the best library | lost in a row | RTF | peak, MiB |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for variant, (errors, sizes, lost) in found.items():
        beside = ""
        if best and variant not in LIBRARIES:
            low, high = interval(errors - found[best][0], sizes)
            middle = (errors.sum() - found[best][0].sum()) / sizes.sum()
            beside = f"{100 * middle:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        elif variant == best:
            beside = "best"
        written = f"{100 * raw[variant]:.1f} %" if variant in raw else ""
        rtf, peak = speed[variant]
        lines.append(
            f"| {names[variant]} | {100 * errors.sum() / sizes.sum():.1f} % | {written} | {beside} | {lost} "
            f"| {rtf:.4f} | {peak:.0f} |\n"
        )
    return head + "".join(lines)


def interval(differences: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[float, float]:
    """95 % of a paired bootstrap over utterances: more errors than the other, per token."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(sizes), (_DRAWS, len(sizes)))
    rates = differences[picks].sum(axis=1) / np.maximum(1, sizes[picks].sum(axis=1))
    return float(np.quantile(rates, 0.025)), float(np.quantile(rates, 0.975))


# ---------------------------------------------------------------------- times


def _times(sounds: Sequence[Recording], variants: Sequence[str], names: Mapping[str, str], rows: Rows) -> str:
    head = (
        "## When each utterance begins and ends\n\nMedian and 95th percentile of the difference, in seconds; "
        "utterances whose first, and last, word was heard.\n\n| | | starts | found | ends | found |\n"
        "|---|---|---|---|---|---|\n"
    )
    lines = []
    for pool in dict.fromkeys(sound.pool for sound in sounds):
        for variant in variants:
            chosen = [s for s in sounds if s.pool == pool and (variant, s.name, True) in rows]
            if not chosen:
                continue
            pairs = [differences(sound, rows[variant, sound.name, True]["words"]) for sound in chosen]
            starts = [value for found, _ in pairs for value in found]
            ends = [value for _, found in pairs for value in found]
            count = sum(len(sound.utterances) for sound in chosen)
            lines.append(
                f"| {pool} | {names[variant]} | {_spread(starts, count)} | {_spread(ends, count)} |\n"
            )
    return head + "".join(lines)


def _spread(values: Sequence[float], count: int) -> str:
    if not values:
        return f" | 0 of {count}"
    found = np.abs(values)
    return f"{np.median(found):.3f}, {np.quantile(found, 0.95):.3f} | {len(values)} of {count}"


def differences(sound: Recording, words: Sequence[Sequence[Any]]) -> tuple[list[float], list[float]]:
    """How much later each utterance begins, and ends, where its first, or last, word was heard."""
    heard = [(unit, float(start), float(end)) for text, start, end in words for unit in units(text)]
    said: list[str] = []
    places = []
    for utterance in sound.utterances:
        parts = units(utterance.text)
        places.append((len(said), len(said) + len(parts) - 1))
        said += parts
    matcher = SequenceMatcher(None, said, [unit for unit, _, _ in heard], autojunk=False)
    match = {a + i: b + i for a, b, size in matcher.get_matching_blocks() for i in range(size)}
    pairs = list(zip(sound.utterances, places, strict=True))
    starts = [heard[match[first]][1] - u.start_seconds for u, (first, _) in pairs if first in match]
    ends = [heard[match[last]][2] - u.end_seconds for u, (_, last) in pairs if last in match]
    return starts, ends


def units(text: str) -> list[str]:
    """Words in lower case, and single characters of Chinese, simplified."""
    return re.findall(
        "[a-z0-9']+|[\u4e00-\u9fff]", normalize(text, "chinese") if _has_ideograph(text) else text.lower()
    )


def _has_ideograph(text: str) -> bool:
    return re.search("[\u4e00-\u9fff]", text) is not None


# ---------------------------------------------------------------------- nobody speaks


def _written_for_nothing(
    sounds: Sequence[Recording], variants: Sequence[str], names: Mapping[str, str], rows: Rows
) -> str:
    chosen = [sound for sound in sounds if not sound.utterances]
    head = "## What is written where nobody speaks\n\n| | characters | where |\n|---|---|---|\n"
    lines = []
    for variant in variants:
        found = {
            s.name: rows[variant, s.name, False]["text"].strip()
            for s in chosen
            if (variant, s.name, False) in rows
        }
        if found:
            told = "; ".join(f"{name}: {text[:40]}" for name, text in found.items() if text)
            lines.append(f"| {names[variant]} | {sum(map(len, found.values()))} | {told} |\n")
    return head + "".join(lines)
