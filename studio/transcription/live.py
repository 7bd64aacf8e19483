"""Words while somebody speaks: the sound since the last pause is heard again and again as it grows.

Words on which two hearings in a row agree are settled, and no more than their case, punctuation and times
changes (LocalAgreement-2 of Liu et al. (2020), Low-latency sequence-to-sequence speech recognition and
translation by partial hypothesis selection); those behind them are tentative. A pause settles everything
before it, and lets its sound go. Once nothing more comes, the text is that of `growing`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from studio.chinese import LANGUAGES as CHINESE
from studio.chinese import SIMPLIFIED
from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.chinese_script import AS_HEARD, OneScript
from studio.transcription.engine import Segment, Word
from studio.transcription.languages import join_texts
from studio.transcription.voice_activity import voiced_spans

PAUSE_SECONDS = 0.8
"""Silence of this length ends what was said."""
LONGEST_SECONDS = 20.0
"""Somebody who makes no pause is cut behind the last settled word."""
MOST_SECONDS = 28.0
"""So long another hearing is waited for if no two agree, as after a loop: all still fits into a window."""
_KEPT_SAMPLES = 3 * SAMPLING_RATE // 10
"""Sound before a voice begins: the first consonant is quiet."""

HearWords = Callable[[NDArray[np.float32]], tuple[Sequence[Word], str]]
"""Mono samples at 16 kHz → words with times from their beginning, and the language's code."""


@dataclass(frozen=True)
class LiveText:
    """What is shown while somebody speaks."""

    settled: str
    tentative: str
    heard_seconds: float
    """Length of all sound so far."""


class LiveTranscript:
    """One person speaking. Not thread-safe: its calls come one after the other."""

    def __init__(self, hear: HearWords, script: str = AS_HEARD) -> None:
        """`hear` is asked for the sound since the last pause, each time it has grown. What is Chinese of it
        is written in one `script`, settled or not: each hearing by itself may be in another.
        """
        self._hear = hear
        self._sound = np.zeros(0, np.float32)
        self._offset_samples = 0
        self._script = OneScript(script)
        self._settled: list[tuple[Segment, str]] = []
        """As heard, and in which language."""
        self._words: list[Word] = []
        self._agreed = 0
        self.language = ""
        """Code of what was heard last."""

    def feed(self, samples: NDArray[np.float32]) -> LiveText:
        """Takes the next mono samples at 16 kHz, hears what is new, and gives the text as it is now."""
        self._sound = np.concatenate([self._sound, samples.astype(np.float32)])
        spans = voiced_spans(self._sound)
        if not spans:
            self._settle(max(0, len(self._sound) - _KEPT_SAMPLES))
            return self.text
        before_voice = max(0, int(spans[0][0] * SAMPLING_RATE) - _KEPT_SAMPLES)
        silence = len(self._sound) / SAMPLING_RATE - spans[-1][1]
        if not self._words:
            self._let_go(before_voice)
        self._hear_again()
        if silence >= PAUSE_SECONDS:
            self._settle(len(self._sound))
        elif len(self._sound) >= (LONGEST_SECONDS if self._agreed else MOST_SECONDS) * SAMPLING_RATE:
            self._settle_agreed()
        return self.text

    def finish(self) -> LiveText:
        """Settles all that was heard: nothing more comes."""
        if voiced_spans(self._sound):
            self._hear_again()
        self._settle(len(self._sound))
        return self.text

    @property
    def text(self) -> LiveText:
        """What is known now."""
        now = Segment(0.0, 0.0, join_texts([word.text for word in self._words], self.language))
        *settled, open_now = self._written((replace(now, words=tuple(self._words)), self.language))
        said = [word.text for word in open_now.words]
        return LiveText(
            join_texts([*(segment.text for segment in settled), *said[: self._agreed]], self.language),
            join_texts(said[self._agreed :], self.language),
            (self._offset_samples + len(self._sound)) / SAMPLING_RATE,
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What is settled, a segment from pause to pause, with times from the beginning."""
        return tuple(self._written())

    def _written(self, *more: tuple[Segment, str]) -> list[Segment]:
        """What is settled, and more, Chinese in one script."""
        heard = [*self._settled, *more]
        chinese = iter(self._script.of([segment for segment, language in heard if language in CHINESE]))
        return [next(chinese) if language in CHINESE else segment for segment, language in heard]

    def _hear_again(self) -> None:
        words, language = self._hear(self._sound)
        self.language = language or self.language  # a hearing without words knows none
        new, old = self._bare(words), self._bare(self._words)
        # What is settled stays, even where a later hearing would have it otherwise.
        kept = self._words[: self._agreed]
        if new[: len(kept)] == old[: len(kept)]:
            self._agreed = sum(
                1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(new, old, strict=False))
            )
            self._words = list(words)
        else:
            self._words = [*kept, *words[_as_far(old[: len(kept)], new) :]]

    def _settle(self, samples: int) -> None:
        """Everything heard so far is settled, and `samples` of sound are let go."""
        if self._words:
            begin = self._offset_samples / SAMPLING_RATE
            words = tuple(
                replace(
                    word,
                    start_seconds=round(word.start_seconds + begin, 3),
                    end_seconds=round(word.end_seconds + begin, 3),
                )
                for word in self._words
            )
            text = join_texts([word.text for word in words], self.language)
            said = Segment(words[0].start_seconds, words[-1].end_seconds, text, words)
            self._settled.append((said, self.language))
        self._words, self._agreed = [], 0
        self._let_go(samples)

    def _bare(self, words: Sequence[Word]) -> list[str]:
        """Words as two hearings are compared, whichever script each is in."""
        if self.language in CHINESE:
            words = OneScript(SIMPLIFIED).of([Segment(0.0, 0.0, "", tuple(words))])[0].words
        return [_bare(word.text) for word in words]

    def _settle_agreed(self) -> None:
        """Cuts the sound behind the last agreed word; behind the last word at all if none is."""
        self._words = self._words[: self._agreed] or self._words
        end = self._words[-1].end_seconds if self._words else LONGEST_SECONDS / 2
        self._settle(min(len(self._sound), int(end * SAMPLING_RATE)))

    def _let_go(self, samples: int) -> None:
        self._sound = self._sound[samples:]
        self._offset_samples += samples


def _as_far(kept: Sequence[str], new: Sequence[str]) -> int:
    """How many of the new words say what was kept: a later hearing may split a word, or join two."""
    from rapidfuzz.distance import Levenshtein

    def unlike(count: int) -> tuple[int, int]:
        """How much so many words differ from what was kept."""
        return Levenshtein.distance("".join(kept), "".join(new[:count])), abs(count - len(kept))

    return min(range(len(new) + 1), key=unlike)


def _bare(text: str) -> str:
    """A word without case and punctuation: neither keeps two hearings from agreeing."""
    return "".join(char for char in text.casefold() if char.isalnum()) or text
