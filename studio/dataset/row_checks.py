"""Judges the rows of a manifest one after the other; remembers numbers of rows, not the rows themselves."""

from array import array
from collections.abc import Callable, Sequence

from studio.dataset.example import Example, RowProblem
from studio.dataset.listening import ClipLevels
from studio.dataset.usable import judge_heard
from studio.errors import ConfigError
from studio.whisper.constants import TEXT_POSITIONS

_AROUND = 5
"""Tokens of a label beside those of its text, of which each takes a byte at least."""
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
        label_length: Callable[[Example], int],
        *,
        counts_tokens: bool,
    ) -> None:
        """`label_length` and `counts_tokens` are those of `check_dataset`."""
        self._examples = examples
        self._bounds = (min_audio_len, max_audio_len)
        self._label_length = label_length
        self.counts_tokens = counts_tokens
        self.rows = 0
        self.good = array("q")
        """Places of the usable rows."""
        self.spoken = array("q")
        """Of those that have a text."""
        self.spoken_seconds = array("d")
        self.durations = array("d")
        self.label_lengths = array("q")
        self.uncounted = 0
        """Usable rows whose labels may be too long, which only a tokenizer tells."""
        self.problems: list[RowProblem] = []
        self._by_sound: dict[bytes, int] = {}
        self._by_text: dict[int, int] = {}

    def take(self, example: Example, heard: ClipLevels | RowProblem) -> None:
        """Judges the next row."""
        place = self.rows
        self.rows += 1
        judged = judge_heard(example, heard, *self._bounds)
        length = judged if isinstance(judged, RowProblem) else self._label_of(example)
        if isinstance(length, RowProblem):
            self.problems.append(length)
            return
        assert isinstance(heard, ClipLevels), "what was not heard is a problem"
        self.good.append(place)
        if example.text:
            self.spoken.append(place)
            self.spoken_seconds.append(heard.duration_seconds)
        self.durations.append(heard.duration_seconds)
        self.label_lengths.append(length)
        if heard.fault:
            self._warn(example, "incomplete", heard.fault.template, **heard.fault.values)
        if heard.clipped_share > CLIPPED_SHARE:
            self._warn(
                example,
                "clipped",
                "The recording is clipped: {share:.1%} of its samples are at full scale.",
                share=heard.clipped_share,
            )
        self._look_for_a_copy(place, example, heard)

    def compare_with_test(self, example: Example, heard: ClipLevels | RowProblem) -> None:
        """Reports a clip of the test data that is in the training data, too."""
        if isinstance(heard, RowProblem):
            return
        same_sound = self._by_sound.get(heard.fingerprint)
        same_text = self._by_text.get(_text_key(example, heard))
        if same_sound is not None:
            template = "The clip is in the test data, too ({place} there)."
            self._warn(self._examples[same_sound], "leakage", template, place=example.place)
        elif same_text is not None:
            template = "A clip of this text and length is in the test data, too ({place} there)."
            self._warn(self._examples[same_text], "leakage", template, place=example.place)

    def _look_for_a_copy(self, place: int, example: Example, heard: ClipLevels) -> None:
        same_sound = self._by_sound.setdefault(heard.fingerprint, place)
        same_text = place
        if len(example.text) >= _TELLING_TEXT:
            same_text = self._by_text.setdefault(_text_key(example, heard), place)
        if same_sound != place:
            first = self._examples[same_sound]
            template = (
                "The clip and its text are the same as in {place}."
                if first.text == example.text
                else "The clip is the same as in {place}, but with another text."
            )
            self._warn(example, "duplicate", template, place=first.place)
        elif same_text != place:
            template = "The text and the length to the millisecond are the same as in {place}."
            self._warn(example, "duplicate", template, place=self._examples[same_text].place)

    def _label_of(self, example: Example) -> int | RowProblem:
        """How long the label is, or why there is none that a model could take."""
        try:
            length = self._label_length(example)
        except ConfigError as error:
            return RowProblem.from_error(example, error)
        if not self.counts_tokens:
            most = len(example.text.encode()) + _AROUND * (1 + len(example.segments))
            self.uncounted += most > TEXT_POSITIONS
        elif length > TEXT_POSITIONS:
            return RowProblem.of(
                example,
                "label_too_long",
                "The text has {length} tokens, the model can take {most}.",
                length=length,
                most=TEXT_POSITIONS,
            )
        return length

    def _warn(self, example: Example, kind: str, template: str, /, **values: object) -> None:
        self.problems.append(RowProblem.of(example, kind, template, **values))


def _text_key(example: Example, heard: ClipLevels) -> int:
    return hash((example.text, round(1000 * heard.duration_seconds)))
