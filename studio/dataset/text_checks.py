"""Checks of the texts against one another: how fast people seem to speak, which Chinese script is used."""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from studio.dataset.example import Example, RowProblem

_KANA = re.compile(r"[\u3040-\u30ff]")
_FEWEST_CLIPS = 20
"""Below this, a median says little about what is odd."""
_ODD_FACTOR = 3.0
"""So many times faster or slower than the median is odd."""


def characters_per_second(examples: Sequence[Example], durations: Sequence[float]) -> list[float]:
    """Characters other than white space a second, for each clip."""
    return [
        len("".join(example.text.split())) / seconds
        for example, seconds in zip(examples, durations, strict=True)
    ]


def median(values: Sequence[float]) -> float:
    """The middle value; 0 if there is none."""
    return statistics.median(values) if values else 0.0


def odd_rates(examples: Sequence[Example], rates: Sequence[float]) -> Iterator[RowProblem]:
    """Clips whose text is much too long or too short for their length, compared within each language."""
    by_language: dict[str, list[tuple[Example, float]]] = defaultdict(list)
    for example, rate in zip(examples, rates, strict=True):
        by_language[(example.language or "").lower()].append((example, rate))
    for clips in by_language.values():
        if len(clips) < _FEWEST_CLIPS:
            continue
        middle = statistics.median(rate for _, rate in clips)
        for example, rate in clips:
            if not middle / _ODD_FACTOR <= rate <= middle * _ODD_FACTOR:
                yield RowProblem.of(
                    example.line,
                    str(example.audio_path),
                    "speaking_rate",
                    "The text has {rate:.1f} characters a second, where {middle:.1f} are usual: "
                    "text and sound may not belong together.",
                    rate=rate,
                    middle=middle,
                )


def mixed_scripts(examples: Sequence[Example]) -> Iterator[RowProblem]:
    """If some texts are in simplified and some in traditional Chinese characters, those of the rarer kind."""
    by_script: dict[str, list[Example]] = {"simplified": [], "traditional": []}
    for example in examples:
        script = script_of(example.text) if _may_be_chinese(example) else ""
        if script:
            by_script[script].append(example)
    rare, common = sorted(by_script, key=lambda script: len(by_script[script]))
    for example in by_script[rare]:
        yield RowProblem.of(
            example.line,
            str(example.audio_path),
            "mixed_script",
            "The text is in {rare} characters, {count} others are in {common} ones.",
            rare=rare,
            count=len(by_script[common]),
            common=common,
        )


def script_of(text: str) -> str:
    """`simplified`, `traditional`, or empty for texts that are the same in both."""
    if text.isascii():
        return ""
    kinds = [_script_of_character(character) for character in text if not character.isascii()]
    simplified, traditional = kinds.count("simplified"), kinds.count("traditional")
    if simplified == traditional:
        return ""
    return "simplified" if simplified > traditional else "traditional"


def _may_be_chinese(example: Example) -> bool:
    """Japanese uses characters of both scripts, so a row in another language is not asked."""
    if example.language:
        return example.language.lower().startswith(("zh", "yue", "chinese", "mandarin", "cantonese"))
    return not _KANA.search(example.text)


@lru_cache(maxsize=20_000)
def _script_of_character(character: str) -> str:
    import zhconv

    if zhconv.convert(character, "zh-hans") != character:
        return "traditional"
    return "simplified" if zhconv.convert(character, "zh-hant") != character else ""
