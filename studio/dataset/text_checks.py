"""Checks of the texts against one another: how fast people seem to speak, which Chinese script is used."""

import re
import statistics
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from studio.chinese import LANGUAGES, has_kana, main_script
from studio.dataset.example import Example, RowProblem
from studio.dataset.written import written_in
from studio.whisper.language_tags import language_of_tag

_FEWEST_CLIPS = 20
"""Below this, a median says little about what is odd."""
_ODD_FACTOR = 3.0
"""So many times faster or slower than the median is odd."""
_RARE = 0.2
"""Rows of a kind that more of them are of are not named one by one."""
_FEWEST_LETTERS = 4
_FEW = 0.2
"""Names and loan words in other letters are common: a text is foreign with less than this of its own."""
_ENDS_IN_A_MARK = re.compile(r"[.!?;:,…。！？；：，、؟।]['\"”’」』）)]*\s*$")
_TAG = re.compile(r"<[^<>\s][^<>]{0,29}>|\[[^\W\d][\w -]{1,20}\]")
_LATIN, _CYRILLIC = frozenset({"LATIN"}), frozenset({"CYRILLIC"})
_LETTERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(LANGUAGES, frozenset({"CJK", "IDEOGRAPHIC"})),
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "IDEOGRAPHIC"}),
    "ko": frozenset({"HANGUL", "CJK"}),
    **dict.fromkeys(("ru", "uk", "bg", "be", "mk", "kk", "mn"), _CYRILLIC),
    **dict.fromkeys(("ar", "fa", "ur", "ps"), frozenset({"ARABIC"})),
    "he": frozenset({"HEBREW"}),
    "el": frozenset({"GREEK"}),
    "th": frozenset({"THAI"}),
    **dict.fromkeys(("hi", "mr", "ne"), frozenset({"DEVANAGARI"})),
    **dict.fromkeys(("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi"), _LATIN),
    **dict.fromkeys(("pl", "cs", "sk", "hu", "ro", "tr", "vi", "id", "ms", "ca"), _LATIN),
}
"""Language → the first words of the names of its letters in Unicode; others are not judged."""
_CODES = {
    "chinese": "zh",
    "mandarin": "zh",
    "cantonese": "yue",
    "japanese": "ja",
    "korean": "ko",
    "english": "en",
    "german": "de",
    "french": "fr",
    "spanish": "es",
    "russian": "ru",
}
_CHINESE = (*LANGUAGES, *(name for name, code in _CODES.items() if code in LANGUAGES))


def characters_per_second(examples: Iterable[Example], durations: Iterable[float]) -> "array[float]":
    """Characters other than white space a second, for each clip."""
    pairs = zip(examples, durations, strict=True)
    return array("d", (len("".join(example.text.split())) / seconds for example, seconds in pairs))


def median(values: Sequence[float]) -> float:
    """The middle value; 0 if there is none."""
    return statistics.median(values) if len(values) else 0.0


def odd_rates(examples: Sequence[Example], rates: Sequence[float]) -> Iterator[RowProblem]:
    """Clips whose text is much too long or too short for their length, compared within each language."""
    by_language: dict[str, array[float]] = defaultdict(lambda: array("d"))
    for example, rate in zip(examples, rates, strict=True):
        by_language[_language(example)].append(rate)
    usual = {
        language: statistics.median(found)
        for language, found in by_language.items()
        if len(found) >= _FEWEST_CLIPS
    }
    for example, rate in zip(examples, rates, strict=True):
        middle = usual.get(_language(example))
        if middle is not None and not middle / _ODD_FACTOR <= rate <= middle * _ODD_FACTOR:
            yield RowProblem.of(
                example,
                "speaking_rate",
                "The text has {rate:.1f} characters a second, where {middle:.1f} are usual: "
                "text and sound may not belong together.",
                rate=rate,
                middle=middle,
            )


def mixed_scripts(examples: Sequence[Example]) -> Iterator[RowProblem]:
    """If some texts are in simplified and some in traditional Chinese characters, those of the rarer kind."""
    scripts = [main_script(example.text) if _may_be_chinese(example) else "" for example in examples]
    counts = {script: scripts.count(script) for script in ("simplified", "traditional")}
    rare, common = sorted(counts, key=lambda script: counts[script])
    for example, script in zip(examples, scripts, strict=True):
        if script == rare:
            yield RowProblem.of(
                example,
                "mixed_script",
                "The text is in {rare} characters, {count} other texts are in {common} ones.",
                rare=rare,
                count=counts[common],
                common=common,
            )


def mixed_punctuation(examples: Sequence[Example]) -> Iterator[RowProblem]:
    """Texts that end in a punctuation mark among such that do not, or the other way round.

    Only the rarer kind, and only its first where it is no exception.
    """
    ends = bytearray(bool(_ENDS_IN_A_MARK.search(example.text)) for example in examples)
    marked, plain = sum(ends), len(ends) - sum(ends)
    rare = marked <= plain
    template = (
        "The text ends in a punctuation mark, as {marked} do and {plain} do not."
        if rare
        else "The text does not end in a punctuation mark; {marked} do and {plain} do not."
    )
    problems = (
        RowProblem.of(
            example,
            "mixed_punctuation",
            template,
            marked=marked,
            plain=plain,
        )
        for example, end in zip(examples, ends, strict=True)
        if end == rare
    )
    yield from problems if min(marked, plain) <= _RARE * len(ends) else islice(problems, 1)


def capitals(examples: Sequence[Example]) -> Iterator[RowProblem]:
    """The first text in capitals, where most are, as in LibriSpeech."""
    found = bytearray(example.text.isupper() and " " in example.text.strip() for example in examples)
    if (count := sum(found)) * 2 > len(found):
        yield RowProblem.of(
            examples[found.index(True)],
            "capitals",
            "The text is in capitals, as {count} of {total} are: a model learns to write so, unless the "
            "text normalization is lower case (normalizer lowercase).",
            count=count,
            total=len(found),
        )


def tags(examples: Sequence[Example]) -> Iterator[RowProblem]:
    """The first text with a tag that corpora have for what nobody says: `<COMMA>`, `<eng>`, `[laughter]`."""
    found = [(example, match[0]) for example in examples if (match := _TAG.search(example.text))]
    for example, tag in found[:1]:
        yield RowProblem.of(
            example,
            "tags",
            "The text has {tag} in it, and {count} of {total} have such tags: a model learns to write them, "
            "so take out what nobody says.",
            tag=tag,
            count=len(found),
            total=len(examples),
        )


def other_scripts(examples: Iterable[Example]) -> Iterator[RowProblem]:
    """Texts of which almost no letter is one that their language is written in."""
    for example in examples:
        expected = _LETTERS.get(language_of_tag(_language(example)))
        if expected is None:
            continue
        letters = [letter for letter in example.text if letter.isalpha()]
        own = sum(1 for letter in letters if _letters_of(letter) in expected)
        if len(letters) >= _FEWEST_LETTERS and own < _FEW * len(letters):
            yield RowProblem.of(
                example,
                "other_script",
                "The text is not written in the letters of its language {language}.",
                language=written_in(example.language or "", example.task),
            )


def _language(example: Example) -> str:
    """Of the text: a translation is English, whatever is spoken."""
    spoken = written_in(example.language or "", example.task).strip().lower().replace("_", "-")
    return _CODES.get(spoken, spoken)


@lru_cache(maxsize=20_000)
def _letters_of(letter: str) -> str:
    """`LATIN`, `CJK`, `CYRILLIC`, …: the first word of the letter's name."""
    return unicodedata.name(letter, "").split(" ")[0].split("-")[0]


def _may_be_chinese(example: Example) -> bool:
    """Japanese uses characters of both scripts, so a row in another language is not asked."""
    if example.language:
        return example.language.lower().startswith(_CHINESE)
    return not has_kana(example.text)
