"""How a window is heard: its language, what its model is told, and what is done about speech left out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.errors import ConfigError
from studio.transcription.engine import TranscribeOptions
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Search, TokenTimes, Written
from tests.unit.transcription.scripted_model import (
    OPTIONS,
    RATE,
    TOKENS,
    Lent,
    ScriptedModel,
    at,
    sound,
    two_sentences,
)
from tests.unit.transcription.small_models import assert_times_are_sound


def test_text_before_is_told_once_and_hotwords_each_time() -> None:
    model = ScriptedModel(two_sentences)
    options = replace(OPTIONS, initial_prompt="five", hotwords="four")
    Transcriber(Lent(model), "mine").transcribe_samples([sound(60)], 60.0, options)
    steer = TOKENS.prompt("en", "transcribe", with_times=True)
    said = [at(0), 0, 1, 5, at(20)]
    first, later = [TOKENS.previous, 3, 4, *steer], [TOKENS.previous, 3, *steer]
    assert model.prompts == [
        first,
        [TOKENS.previous, 3, *said, *steer],
        [TOKENS.previous, 3, *said, *said, *steer],
    ]
    for untold in (replace(options, condition_on_prev_tokens=False), replace(options, batch_size=2)):
        model.prompts.clear()
        Transcriber(Lent(model), "mine").transcribe_samples([sound(60)], 60.0, untold)
        assert model.prompts.count(first) == 1
        assert all(prompt == later for prompt in model.prompts if prompt != first)


def test_of_a_prompt_that_is_too_long_the_end_is_told_where_that_is_wished() -> None:
    model = ScriptedModel(two_sentences)
    options = replace(OPTIONS, initial_prompt="one " * 300 + "five", hotwords="four")
    with pytest.raises(ConfigError, match="302 tokens together, and this model takes 223"):
        Transcriber(Lent(model), "mine").transcribe_samples([sound(20)], 20.0, options)
    Transcriber(Lent(model), "mine").transcribe_samples(
        [sound(20)], 20.0, replace(options, truncate_prompt=True)
    )
    steer = TOKENS.prompt("en", "transcribe", with_times=True)
    assert model.prompts == [[TOKENS.previous, 3, *[0] * 221, 4, *steer]]


def test_a_model_that_cannot_be_told_what_came_before_says_so() -> None:
    model = ScriptedModel(two_sentences)
    model.tokens = replace(TOKENS, previous=None)
    options = replace(OPTIONS, initial_prompt="five")
    with pytest.raises(ConfigError, match="takes no initial_prompt and no hotwords"):
        Transcriber(Lent(model), "mine").transcribe_samples([sound(20)], 20.0, options)


def test_a_text_that_was_hard_to_find_is_not_told_to_the_next_window() -> None:
    def write(samples: NDArray[np.float32], prompt: list[int], search: Search) -> Written:
        found = two_sentences(samples, prompt, search)
        is_found = float(samples[0]) != 20 or search.temperature == 0.8
        return found if is_found else Written([0, 1] * 40, -0.1)

    model = ScriptedModel(write)
    Transcriber(Lent(model), "mine").transcribe_samples([sound(60)], 60.0, OPTIONS)
    told = [TOKENS.previous in prompt for prompt in model.prompts]
    assert told == [False, *[True] * 5, False]


@pytest.mark.parametrize(
    ("seconds", "asked", "language"), [(42, "parts", "en"), (30, "all and parts", "en"), (6, "all", "zh")]
)
def test_the_language_of_what_is_long_or_in_doubt_is_asked_of_its_parts(
    speech: NDArray[np.float32], seconds: int, asked: str, language: str
) -> None:
    model = ScriptedModel(two_sentences)
    lengths: list[float] = []

    def odds(samples: NDArray[np.float32]) -> dict[str, float]:
        lengths.append(len(samples) / RATE)
        return {"en": 0.7, "zh": 0.3} if len(samples) <= 4 * RATE else {"zh": 0.6, "en": 0.4}

    model.language = odds
    samples = np.tile(speech, 4)[: seconds * RATE]
    options = replace(OPTIONS, language="auto")
    found = Transcriber(Lent(model), "mine").transcribe_samples([samples], float(seconds), options)
    assert found.language == language
    assert found.language_probabilities[language] == pytest.approx(0.7 if language == "en" else 0.6)
    assert (seconds in lengths) is ("all" in asked)
    assert any(length <= 4 for length in lengths) is ("parts" in asked)


class LateModel(ScriptedModel):
    """Whatever it writes of a window, less than four words are in the window's last two seconds."""

    late_seconds = 2.0

    def align(
        self,
        encoded: object,
        prompt: object,
        texts: Sequence[Sequence[int]],
        seconds: Sequence[float],
    ) -> list[TokenTimes]:
        return [
            TokenTimes(
                np.linspace(length - self.late_seconds if len(text) < 4 else 0.0, length, len(text) + 1),
                np.full(len(text), 0.5),
            )
            for text, length in zip(texts, seconds, strict=True)
        ]


FIRST = Written([at(0), 2, 3, at(11)], -0.1)
"""What leaves a hole in eleven seconds."""


@pytest.fixture
def speech(demo_speech: Path) -> NDArray[np.float32]:
    """Eleven seconds in which somebody speaks most of the time."""
    return read_audio(demo_speech / "samples" / "long.ogg", 0.0, 11.0)


@pytest.mark.parametrize(("beams", "other"), [(0, 1), (5, 1), (1, 5)])
def test_a_text_with_a_long_hole_is_looked_for_with_other_beams(
    speech: NDArray[np.float32], beams: int, other: int
) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], search: Search) -> Written:
        words = [0, 1, 2, 3] if search.num_beams == other else [2, 3]
        return Written([at(0), *words, at(len(samples) / RATE)], -0.1)

    model = LateModel(write)
    options = TranscribeOptions("en", timestamps="word", num_beams=beams)
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, options)
    assert found.text == "one two three four"
    assert [search.num_beams for search in model.searches] == [beams or 5, other]


@pytest.mark.parametrize(
    ("words", "logprob", "said"),
    [
        ([0, 1, 2, 3], -0.3, "one two three four"),
        ([0, 1, 2, 3], -0.9, "three four"),
        ([0, 1, 2, 3], -4.0, "three four"),
        ([0, 1] * 30, -0.1, "three four"),
    ],
    ids=["good", "clearly less likely", "unsure", "a loop"],
)
def test_what_fills_a_hole_is_taken_only_if_it_is_sure_and_looked_for_once(
    speech: NDArray[np.float32], words: list[int], logprob: float, said: str
) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], search: Search) -> Written:
        seconds = len(samples) / RATE
        if seconds < 10:
            return Written([], -0.1)
        return Written([at(0), *words, at(seconds)], logprob) if search.num_beams == 1 else FIRST

    model = LateModel(write)
    options = TranscribeOptions("en", timestamps="word")
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, options)
    assert found.text == said
    assert [search.temperature for search in model.searches if search.num_beams == 1] == [0.0]


def test_the_text_stays_if_other_beams_leave_out_as_much_and_the_hole_is_heard_alone(
    speech: NDArray[np.float32],
) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], search: Search) -> Written:
        seconds = len(samples) / RATE
        return Written([at(0), 2 if search.num_beams == 5 else 3, at(seconds)] if seconds > 10 else [0], -0.1)

    model = LateModel(write)
    options = TranscribeOptions("en", timestamps="word")
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, options)
    assert found.text == "one three"
    assert [search.num_beams for search in model.searches] == [5, 1, 5]
    plain = replace(options, vad=False)
    assert Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, plain).text == "three", (
        "nobody asks whether anybody speaks"
    )


def test_what_a_model_passes_over_is_heard_alone_and_stands_at_its_place(
    speech: NDArray[np.float32],
) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
        seconds = len(samples) / RATE
        return Written([at(seconds - 2), 3, at(seconds)] if seconds > 10 else [0, 1, 2], -0.1)

    model = LateModel(write)
    options = TranscribeOptions("en", timestamps="segment")
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, options)
    assert [segment.text for segment in found.segments] == ["one two three", "four"]
    assert_times_are_sound(found)


def test_a_translation_with_a_hole_has_the_spaces_of_english(speech: NDArray[np.float32]) -> None:
    class FrenchModel(ScriptedModel):
        def decoded(self, tokens: Sequence[int]) -> str:
            return " café" * len(tokens)

        def align(self, encoded: Any, *given: Any) -> list[TokenTimes]:
            return [TokenTimes(np.array([0.0, 0.5, 1.0, 10.0, 10.5]), np.full(4, 0.5)) for _ in encoded]

    def write(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
        seconds = len(samples) / RATE
        return Written([at(0), 0, 1, 2, 3, at(seconds)] if seconds > 10 else [], -0.1)

    options = TranscribeOptions("zh", task="translate", timestamps="word")
    found = Transcriber(Lent(FrenchModel(write)), "mine").transcribe_samples([speech], 11.0, options)
    assert [segment.text for segment in found.segments] == ["café café", "café café"]
    assert (found.text, found.language, found.written_in) == ("café café café café", "zh", "en")


@pytest.mark.parametrize("first", [Written([], -0.1), Written([at(0)], -0.1), Written([0], -2.0, 0.9)])
@pytest.mark.parametrize(("logprob", "said"), [(-0.5, "one two"), (-1.5, "")])
def test_a_clear_voice_of_which_nothing_was_written_is_heard_alone(
    speech: NDArray[np.float32], first: Written, logprob: float, said: str
) -> None:
    def write(_samples: NDArray[np.float32], prompt: list[int], _search: Search) -> Written:
        return Written([0, 1], logprob) if TOKENS.no_timestamps in prompt else first

    model = ScriptedModel(write)
    options = TranscribeOptions("en", timestamps="segment")
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, options)
    assert (found.text, [search.num_beams for search in model.searches]) == (said, [5, 1, 5])


def test_other_beams_may_find_what_was_said_where_nothing_was_written(speech: NDArray[np.float32]) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], search: Search) -> Written:
        return Written([at(0), 0, 1, at(11)] if search.num_beams == 1 else [], -0.5)

    model = ScriptedModel(write)
    found = Transcriber(Lent(model), "mine").transcribe_samples([speech], 11.0, TranscribeOptions("en"))
    assert (found.text, len(model.searches)) == ("one two", 2)


def test_what_is_heard_alone_and_left_out_again_comes_to_an_end(speech: NDArray[np.float32]) -> None:
    model = LateModel(lambda samples, *_: Written([at(0), 0, at(len(samples) / RATE)], -0.1))
    model.late_seconds = 0.0
    samples = np.tile(speech, 2)
    found = Transcriber(Lent(model), "mine").transcribe_samples([samples], 22.0, TranscribeOptions("en"))
    assert found.text == "one one"


def test_what_is_heard_alone_is_told_to_the_next_window_in_its_place(
    speech: NDArray[np.float32],
) -> None:
    def write(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
        seconds = len(samples) / RATE
        return Written([at(28), 3, at(30)] if seconds == 30 else [at(0), 0, 1, 2, 4, at(seconds)], -0.1)

    model = LateModel(write)
    Transcriber(Lent(model), "mine").transcribe_samples([np.tile(speech, 4)], 44.0, TranscribeOptions("en"))
    told = [[token for token in prompt if token < TOKENS.end] for prompt in model.prompts]
    assert told[:3] == [[], [], []], "a window, the same with other beams, and what it left out"
    next_window = next(prompt for prompt in told if 3 in prompt)
    assert next_window[:4] == [0, 1, 2, 4] and next_window[-1] == 3


def test_what_is_heard_alone_is_told_nothing_that_it_could_say_again(speech: NDArray[np.float32]) -> None:
    def write(samples: NDArray[np.float32], prompt: list[int], _search: Search) -> Written:
        seconds = len(samples) / RATE
        if seconds == 30:
            return Written([at(0), 0, 1, 2, 4, at(30)], -0.1)
        return Written([2] if TOKENS.no_timestamps in prompt else [at(12), 3, at(seconds)], -0.1)

    model = LateModel(write)
    options = TranscribeOptions("en", hotwords="five")
    Transcriber(Lent(model), "mine").transcribe_samples([np.tile(speech, 4)], 44.0, options)
    told = [[token for token in prompt if token < TOKENS.end] for prompt in model.prompts]
    *_, window, other_beams, left_out = told
    assert window == other_beams and len(window) > 1
    assert left_out == [4], "the hotwords alone"
