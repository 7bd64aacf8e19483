"""Token times to words, and words to segments.

Words are split at spaces, and a character each in scripts without. To the alignment a pause is a part of the
word beside it, so a word lasts as long as the voice in its time. Segments are those of the model's own times,
else sentences, and what stands between pauses.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from studio.transcription.engine import Segment, Span, Word
from studio.transcription.languages import UNDIVIDED, is_ideograph
from studio.transcription.time_tokens import TokenSegment
from studio.transcription.window_model import TokenTimes, WindowModel

_LONGEST_USUAL_SECONDS = 0.7
_MARGIN_SECONDS = 0.08
"""What the detector of voices adds to a voice, about."""
_BESIDE_SECONDS = 0.3
"""A model's own times may be off by so much."""
_LONGEST_EDGE_SECONDS = 0.6
"""More of a voice than this beside a word is another word."""
_SENTENCE_PAUSE_SECONDS = 0.5
"""Where nothing but a pause ends a sentence, as in texts without marks."""
_SHORTEST_SEGMENT_SECONDS = 1.0
"""A pause behind less than this does not end a segment."""
_OPENING = "\"'“¿([{-「『（《【"
_CLOSING = "\"'.。,，!！?？:：”)]}、;；…」』）》】"
_ENDS = ".。!！?？…"


def timed_segments(
    model: WindowModel,
    language: str,
    parts: Sequence[TokenSegment],
    times: TokenTimes,
    voices: Sequence[Span],
    *,
    is_one: bool,
) -> list[Segment]:
    """The parts of a window's text as segments, each word with its time; `times` are those of all tokens.

    `is_one`: its model was not asked for parts, so sentences and pauses make them.
    """
    words: list[Word] = []
    ends = []
    first = 0
    for part in parts:
        after = min(first + len(part.text_tokens), len(times.probabilities))
        own = TokenTimes(times.edges[first : after + 1], times.probabilities[first:after])
        words += [_near(word, part) for word in words_of(model, language, part.text_tokens, own)]
        ends.append(len(words))
        first = after
    placed = within_voices(words, voices)
    if is_one:
        return segments_of(placed)
    starts = [0, *ends[:-1]]
    return [segment_of(placed[start:end]) for start, end in zip(starts, ends, strict=True) if end > start]


def _near(word: Word, part: TokenSegment) -> Word:
    """A word in its part's own time, or beside it: the alignment of words that were misheard goes astray."""
    low, high = part.start_seconds - _BESIDE_SECONDS, part.end_seconds + _BESIDE_SECONDS
    start, end = (max(low, min(high, edge)) for edge in (word.start_seconds, word.end_seconds))
    return replace(word, start_seconds=start, end_seconds=end)


def words_of(model: WindowModel, language: str, text: Sequence[int], times: TokenTimes) -> list[Word]:
    """Text tokens of a window to words, their texts with the spaces before them.

    Words are split at spaces, and a character each in scripts without; punctuation stays with its word.
    """
    words: list[Word] = []
    edges, odds = times.edges.tolist(), times.probabilities
    for piece, first, after in _pieces(model, list(text)[: len(odds)]):
        parts = written_parts(piece)
        length = (edges[after] - edges[first]) / max(1, len(parts))
        odd = float(np.mean(odds[first:after]))
        for number, part in enumerate(parts):
            begin = edges[first] + number * length
            word = Word(begin, begin + length, part, odd)
            if words and _continues(words[-1].text, part, language):
                words[-1] = _joined(words[-1], word)
            else:
                words.append(word)
    return [word for word in words if word.text.strip()]


def within_voices(words: Sequence[Word], voices: Sequence[Span]) -> list[Word]:
    """Each word in the longest voice of its time; one without a voice, or between two, as it is.

    No word lasts longer than twice the usual length: of one that does, the end is kept, since a pause, or
    what nobody wrote down, lies before a word.
    """
    tight = [(start + _MARGIN_SECONDS, end - _MARGIN_SECONDS) for start, end in voices]
    placed = _to_the_edges([_within(word, tight) for word in words], tight)
    lengths = [word.end_seconds - word.start_seconds for word in placed]
    usual = min(_LONGEST_USUAL_SECONDS, float(np.median(lengths))) if lengths else 0.0
    longest = max(2 * usual, 0.2)
    return [
        replace(word, start_seconds=word.end_seconds - longest)
        if word.end_seconds - word.start_seconds > longest
        else word
        for word in placed
    ]


def _within(word: Word, voices: Sequence[Span]) -> Word:
    parts = [
        (max(start, word.start_seconds), min(end, word.end_seconds))
        for start, end in voices
        if start < word.end_seconds and end > word.start_seconds
    ]
    if not parts:
        return word
    start, end = max(parts, key=lambda part: part[1] - part[0])
    return replace(word, start_seconds=start, end_seconds=end)


def _to_the_edges(words: Sequence[Word], voices: Sequence[Span]) -> list[Word]:
    """The first word of a voice begins with it, and the last ends with it, if they nearly do.

    The alignment gives a pause, and what is said beside it, to the word on its other side.
    """
    placed = list(words)
    for start, end in voices:
        inside = [
            n for n, word in enumerate(placed) if start <= word.start_seconds and word.end_seconds <= end
        ]
        if not inside:
            continue
        first, last = placed[inside[0]], placed[inside[-1]]
        if first.start_seconds - start <= _LONGEST_EDGE_SECONDS:
            placed[inside[0]] = replace(first, start_seconds=start)
        last = placed[inside[-1]]
        if end - last.end_seconds <= _LONGEST_EDGE_SECONDS:
            placed[inside[-1]] = replace(last, end_seconds=end)
    return placed


# ---------------------------------------------------------------------- segments


def segments_of(words: Sequence[Word]) -> list[Segment]:
    """Words to segments: a sentence each, and what stands between two pauses where no mark ends it."""
    groups: list[list[Word]] = []
    for word in words:
        if groups and not _ends(groups[-1], word):
            groups[-1].append(word)
        else:
            groups.append([word])
    return [segment_of(group) for group in groups]


def segment_of(words: Sequence[Word]) -> Segment:
    """One segment of words that have the spaces before them in their texts."""
    return Segment(
        words[0].start_seconds,
        max(word.end_seconds for word in words),
        "".join(word.text for word in words).strip(),
        tuple(replace(word, text=word.text.strip()) for word in words),
    )


def _ends(group: Sequence[Word], following: Word) -> bool:
    """Whether a segment ends before a word."""
    last = group[-1]
    is_sentence = last.text.rstrip("\"'”’)]）」』 ").endswith(tuple(_ENDS)) and (
        following.text[:1].isspace() or last.text[-1] not in ".…"
    )
    is_pause = following.start_seconds - last.end_seconds >= _SENTENCE_PAUSE_SECONDS
    is_long = last.end_seconds - group[0].start_seconds >= _SHORTEST_SEGMENT_SECONDS
    return is_sentence or (is_pause and is_long)


# ---------------------------------------------------------------------- tokens to characters


def _pieces(model: WindowModel, text: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """The shortest runs of tokens that are whole characters: (text, first token, token after the last).

    Bytes that are none in the whole text, either, are U+FFFD; those at its end are left out.
    """
    whole, said, first = model.decoded(text).rstrip("\ufffd"), "", 0
    for after in range(1, len(text) + 1):
        so_far = model.decoded(text[:after])
        if whole.startswith(so_far):
            yield so_far[len(said) :], first, after
            said, first = so_far, after


def written_parts(piece: str) -> list[str]:
    """Characters of a piece in a script without spaces, else the piece as it is."""
    if not any(is_ideograph(char) for char in piece):
        return [piece]
    parts: list[str] = []
    for char in piece:
        if parts and (
            unicodedata.category(char)[0] == "M" or not (is_ideograph(char) or is_ideograph(parts[-1][-1]))
        ):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def _continues(word: str, part: str, language: str) -> bool:
    """Whether `part` belongs to the word before it."""
    bare = part.strip()
    if not bare:
        return False
    if all(char in _CLOSING for char in bare) or all(char in _OPENING for char in word.strip()):
        return not (part[0].isspace() and bare in _OPENING)
    if part[0].isspace() or language in UNDIVIDED:
        return False
    return not (is_ideograph(bare[0]) or is_ideograph(word[-1]) or word[-1] in "。，！？、；：")


def _joined(word: Word, part: Word) -> Word:
    known = [odd for odd in (word.probability, part.probability) if odd is not None]
    is_letter = any(char.isalnum() for char in part.text)
    probability = float(np.mean(known)) if known and is_letter else word.probability
    return Word(
        word.start_seconds,
        part.end_seconds if is_letter else word.end_seconds,
        word.text + part.text,
        probability,
    )
