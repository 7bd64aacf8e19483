"""A person's corrections: new texts for the segments of a transcript, whose times stay."""

import difflib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

from studio.errors import ConfigError
from studio.transcription.engine import Segment, Transcript, Word
from studio.transcription.languages import is_ideograph, join_texts


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
    segments = tuple(_corrected(segment, text) for segment, text in pairs if text)
    text = join_texts([segment.text for segment in segments], transcript.written_in or transcript.language)
    return replace(transcript, text=text, segments=segments)


def _corrected(segment: Segment, text: str) -> Segment:
    if text == " ".join(segment.text.split()):
        return segment
    return replace(segment, text=text, words=tuple(_words(segment, text)) if segment.words else ())


def _words(segment: Segment, text: str) -> Iterator[Word]:
    """The words of a new text, timed by those of the old one that are still there."""
    old, new = segment.words, list(split_words(text))
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
    """Words between spaces; Chinese characters and kana one by one, with the punctuation behind them."""
    held = ""
    for char in text:
        is_mark = unicodedata.category(char)[0] in "MPC"
        if char.isspace() or (held and not is_mark and (is_ideograph(char) or is_ideograph(held[0]))):
            if held:
                yield held
            held = ""
        held += char.strip()
    if held:
        yield held
