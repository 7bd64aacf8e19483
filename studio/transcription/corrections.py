"""A person's corrections: new texts for the segments of a transcript, whose times stay."""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

from studio.errors import ConfigError
from studio.transcription.engine import Segment, Transcript, Word
from studio.transcription.languages import UNDIVIDED, is_ideograph, join_texts

_OPENING = ("Ps", "Pi")
"""Unicode's categories of marks that belong to what follows."""


def corrected(transcript: Transcript, texts: Sequence[str]) -> Transcript:
    """The transcript with a text of its own for each segment; a segment whose text is empty goes.

    Words that stayed keep their times and probabilities. What was written instead shares the time between its
    neighbours, and has no probability: nobody's model said it.

    Raises:
        ConfigError: if there is not one text a segment.
    """
    if len(texts) != len(transcript.segments):
        raise ConfigError(
            "{given} corrected texts came for {expected} segments: transcribe again.",
            given=len(texts),
            expected=len(transcript.segments),
        )
    pairs = zip(transcript.segments, (" ".join(text.split()) for text in texts), strict=True)
    language = transcript.written_in or transcript.language
    segments = tuple(_corrected(segment, text, language) for segment, text in pairs if text)
    text = join_texts([segment.text for segment in segments], language)
    return replace(transcript, text=text, segments=segments)


def _corrected(segment: Segment, text: str, language: str) -> Segment:
    if text == " ".join(segment.text.split()):
        return segment
    return replace(segment, text=text, words=tuple(_words(segment, text, language)) if segment.words else ())


def _words(segment: Segment, text: str, language: str) -> Iterator[Word]:
    """The words of a new text, timed by those of the old one that are still there."""
    old = segment.words
    if language in UNDIVIDED:  # the words that were there are all that is known
        known = "|".join(sorted((re.escape(word.text) for word in old), key=len, reverse=True))
        new = [word for phrase in text.split() for word in re.split(f"({known})", phrase) if word]
    else:
        new = list(split_words(text))
    matcher = difflib.SequenceMatcher(a=[word.text for word in old], b=new, autojunk=False)
    for kind, first, after, begin, end in matcher.get_opcodes():
        if kind == "equal":
            yield from old[first:after]
        elif end > begin:
            start = old[first - 1].end_seconds if first else segment.start_seconds
            stop = old[after].start_seconds if after < len(old) else segment.end_seconds
            yield from _shared_out(new[begin:end], start, max(start, stop))


def _shared_out(texts: Sequence[str], start: float, stop: float) -> Iterator[Word]:
    """Words one after the other from `start` to `stop`, each as long as its text."""
    total, done = sum(map(len, texts)), 0
    for text in texts:
        begin = start + (stop - start) * done / total
        done += len(text)
        yield Word(round(begin, 3), round(start + (stop - start) * done / total, 3), text)


def split_words(text: str) -> Iterator[str]:
    """Words between spaces; Chinese characters and kana one by one, each with its punctuation."""
    held = ""
    for char in text:
        last, kind = (unicodedata.category(one) for one in (held[-1:] or " ", char))
        is_mark = kind[0] in "MPC" and kind not in _OPENING
        is_inside = is_mark or last in _OPENING or not any(map(is_ideograph, held + char))
        if char.isspace() or not is_inside:
            if held:
                yield held
            held = ""
        held += char.strip()
    if held:
        yield held
