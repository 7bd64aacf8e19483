"""Judges the rows of a manifest one after the other; remembers numbers of rows, not the rows themselves."""

from array import array
from collections.abc import Callable, Sequence

from studio.dataset.example import Example, RowProblem
from studio.dataset.listening import Heard
from studio.errors import AudioError

MAX_LABEL_TOKENS = 448
"""Positions of Whisper's decoder."""
SILENT_DB = -60.0
CLIPPED_SHARE = 0.001
_TELLING_TEXT = 10
"""A text of so many characters is not said twice in the same time to the millisecond."""


class RowChecks:
    """Collects what is found by listening, row by row."""

    def __init__(
        self,
        examples: Sequence[Example],
        min_audio_len: float,
        max_audio_len: float,
        label_length: Callable[[str], int] | None,
    ) -> None:
        """`label_length` counts the tokens of a text; without it no label is too long."""
        self._examples = examples
        self._bounds = (min_audio_len, max_audio_len)
        self._label_length = label_length
        self.rows = 0
        self.good = array("q")
        """Places of the usable rows."""
        self.spoken = array("q")
        """Of those that have a text."""
        self.spoken_seconds = array("d")
        self.durations = array("d")
        self.label_lengths = array("q")
        self.problems: list[RowProblem] = []
        self._by_sound: dict[bytes, int] = {}
        self._by_text: dict[int, int] = {}

    @property
    def counts_tokens(self) -> bool:
        """Whether label lengths are tokens rather than characters."""
        return self._label_length is not None

    def take(self, example: Example, heard: Heard | AudioError) -> None:
        """Judges the next row."""
        place = self.rows
        self.rows += 1
        if isinstance(heard, AudioError):
            self.problems.append(RowProblem.from_error(example.line, str(example.audio_path), heard))
            return
        length = (self._label_length or len)(example.text)
        problem = self._unusable(example, heard, length)
        if problem:
            self.problems.append(problem)
            return
        self.good.append(place)
        if example.text:
            self.spoken.append(place)
            self.spoken_seconds.append(heard.duration_seconds)
        self.durations.append(heard.duration_seconds)
        self.label_lengths.append(length)
        if heard.clipped_share > CLIPPED_SHARE:
            self._warn(
                example,
                "clipped",
                "The recording is overdriven: {share:.1%} of its samples are at the limit.",
                share=heard.clipped_share,
            )
        self._look_for_a_copy(place, example, heard)

    def compare_with_test(self, example: Example, heard: Heard | AudioError) -> None:
        """Reports a clip of the test data that is in the training data, too."""
        if isinstance(heard, AudioError):
            return
        same_sound = self._by_sound.get(heard.fingerprint)
        same_text = self._by_text.get(_text_key(example, heard))
        if same_sound is not None:
            template = "The clip is in the test data, too (line {line} there)."
            self._warn(self._examples[same_sound], "leakage", template, line=example.line)
        elif same_text is not None:
            template = "A clip of this text and length is in the test data, too (line {line} there)."
            self._warn(self._examples[same_text], "leakage", template, line=example.line)

    def _look_for_a_copy(self, place: int, example: Example, heard: Heard) -> None:
        same_sound = self._by_sound.setdefault(heard.fingerprint, place)
        same_text = place
        if len(example.text) >= _TELLING_TEXT:
            same_text = self._by_text.setdefault(_text_key(example, heard), place)
        if same_sound != place:
            first = self._examples[same_sound]
            template = (
                "The clip and its text are the same as in line {line}."
                if first.text == example.text
                else "The clip is the same as in line {line}, but with another text."
            )
            self._warn(example, "duplicate", template, line=first.line)
        elif same_text != place:
            template = "The text and the length to the millisecond are the same as in line {line}."
            self._warn(example, "duplicate", template, line=self._examples[same_text].line)

    def _unusable(self, example: Example, heard: Heard, length: int) -> RowProblem | None:
        low, high = self._bounds
        seconds = heard.duration_seconds
        if seconds < low:
            return _problem(
                example,
                "too_short",
                "The clip is {seconds:.2f} s long, at least {low:g} s are needed.",
                seconds=seconds,
                low=low,
            )
        if seconds > high:
            return _problem(
                example,
                "too_long",
                "The clip is {seconds:.1f} s long, at most {high:g} s can be used.",
                seconds=seconds,
                high=high,
            )
        if self._label_length and length > MAX_LABEL_TOKENS:
            return _problem(
                example,
                "label_too_long",
                "The text has {length} tokens, the model can take {most}.",
                length=length,
                most=MAX_LABEL_TOKENS,
            )
        if example.text and heard.rms_db < SILENT_DB:
            return _problem(example, "silent", "The clip is silent, but it has a text.")
        return None

    def _warn(self, example: Example, kind: str, template: str, /, **values: object) -> None:
        self.problems.append(_problem(example, kind, template, **values))


def _text_key(example: Example, heard: Heard) -> int:
    return hash((example.text, round(1000 * heard.duration_seconds)))


def _problem(example: Example, kind: str, template: str, /, **values: object) -> RowProblem:
    return RowProblem.of(example.line, str(example.audio_path), kind, template, **values)
