"""The transcriber with an engine from outside: windows, batches, times, contexts, stops."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.errors import AudioError, RunError
from studio.transcription.engine import Progress
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Search, Written
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


def blocks(samples: NDArray[np.float32], block_seconds: float = 7.3) -> Iterator[NDArray[np.float32]]:
    size = int(block_seconds * RATE)
    return (samples[first : first + size] for first in range(0, len(samples), size))


def test_what_a_model_leaves_at_a_windows_end_is_heard_in_the_next() -> None:
    starts: list[float] = []

    def write(samples: NDArray[np.float32], prompt: list[int], search: Search) -> Written:
        starts.append(float(samples[0]))
        return two_sentences(samples, prompt, search)

    found = Transcriber(Lent(ScriptedModel(write)), "mine").transcribe_samples(
        blocks(sound(75)), 75.0, replace(OPTIONS, timestamps="word")
    )
    assert starts == [0.0, 20.0, 40.0, 60.0]
    assert (found.text, found.engine, found.model) == ("one two. " * 3 + "one two.", "scripted", "mine")
    assert found.duration_seconds == 75.0 and len(found.segments) == 4
    assert [word.text for word in found.segments[0].words] == ["one", "two."]
    assert_times_are_sound(found)


@pytest.mark.parametrize(("language", "text"), [("zh", "國家發展"), ("ja", "国家发展")])
def test_the_script_that_is_asked_for_is_that_of_chinese_and_no_japanese_is_touched(
    language: str, text: str
) -> None:
    class Han(ScriptedModel):
        """Writes in simplified characters."""

        tokens = replace(TOKENS, languages={"zh": 103, "ja": 106})

        def decoded(self, tokens: Sequence[int]) -> str:
            return "".join("国家发展"[token] for token in tokens)

    model = Han(lambda samples, *_: Written([at(0), 0, 1, 2, 3, at(len(samples) / RATE)], -0.1))
    options = replace(OPTIONS, language=language, chinese_script="traditional", timestamps="word")
    found = Transcriber(Lent(model), "mine").transcribe_samples([sound(8)], 8.0, options)
    assert found.text == text == "".join(word.text for word in found.segments[0].words)


def test_a_window_that_its_model_does_not_move_on_from_cannot_hang() -> None:
    model = ScriptedModel(lambda *_: Written([at(0), 0, at(0), at(0), 1], -0.1))
    found = Transcriber(Lent(model), "mine").transcribe_samples([sound(12)], 12.0, OPTIONS)
    assert len(model.batches) <= 12 and found.text


@pytest.mark.parametrize("told_seconds", [75.0, 1.0], ids=["honest", "lying"])
def test_what_is_longer_than_allowed_is_refused_whatever_its_header_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_seconds: float
) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.ones(75 * RATE, np.float32) / 4, RATE)
    monkeypatch.setattr("studio.transcription.transcriber.audio_duration", lambda _path: told_seconds)
    model = ScriptedModel(two_sentences)
    with pytest.raises(AudioError, match=r"long\.wav is too long: here a recording may last 1 min 00 s"):
        Transcriber(Lent(model), "mine", longest_seconds=60).transcribe(path, OPTIONS)
    assert Transcriber(Lent(model), "mine", longest_seconds=76).transcribe(path, OPTIONS).text


def test_progress_is_told_after_each_window_and_a_stop_keeps_what_was_heard() -> None:
    told: list[Progress] = []
    transcriber = Transcriber(Lent(ScriptedModel(two_sentences)), "mine")
    whole = transcriber.transcribe_samples([sound(75)], 70.0, OPTIONS, told.append)
    assert [(p.done_seconds, len(p.segments)) for p in told[:4]] == [(20, 1), (40, 2), (60, 3), (75, 4)]
    assert told[-1].total_seconds == whole.duration_seconds == 75.0
    told.clear()
    cut = transcriber.transcribe_samples(
        [sound(75)], 75.0, OPTIONS, told.append, should_stop=lambda: len(told) == 2
    )
    assert len(cut.segments) == 2 and cut.duration_seconds == 75.0


def test_several_recordings_are_heard_together_and_each_keeps_its_own() -> None:
    model = ScriptedModel(lambda samples, *_: Written([round(len(samples) / RATE) - 1], -0.1))
    clips = [sound(seconds) for seconds in (1.0, 3.0, 2.0, 4.0, 1.0)]
    options = replace(OPTIONS, batch_size=3, timestamps="none", language="auto")
    found = list(Transcriber(Lent(model), "mine").transcribe_clips(clips, options, ["a", "b"]))
    assert model.batches == [3, 2]
    assert [row.text for row in found] == ["one", "three", "two", "four", "one"]
    assert [row.audio_path for row in found] == ["a", "b", "", "", ""]
    assert [row.language for row in found] == ["en"] * 5
    assert found[0].language_probabilities == {"en": 0.75, "zh": 0.25}


def test_short_recordings_together_tell_how_far_they_are_and_a_stop_keeps_those_that_are_finished() -> None:
    told: list[Progress] = []
    clips = [sound(seconds) for seconds in (10, 30, 10, 10)]
    heard = Transcriber(Lent(ScriptedModel(two_sentences)), "mine").transcribe_clips(
        clips, OPTIONS, "abcd", told.append, should_stop=lambda: len(told) == 1
    )
    assert [next(heard).audio_path, told] == ["a", []], "it does not wait for the others"
    assert [row.audio_path for row in heard] == ["c"], "of b a sentence is left"
    assert [(p.done_seconds, p.total_seconds, len(p.segments)) for p in told] == [(0, 30, 0)]


def test_unless_told_more_windows_are_heard_together_while_that_is_quick() -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    list(Transcriber(Lent(model), "mine").transcribe_clips([sound(1.0)] * 20, OPTIONS))
    assert model.batches == [1, 2, 4, 8, 5]


class SmallMemory(ScriptedModel):
    """It encodes, but decodes so many windows together and no more."""

    room = 2

    def generate(self, encoded: Any, *arguments: Any, **options: Any) -> list[Written]:
        if len(encoded) > self.room:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().generate(encoded, *arguments, **options)


def test_a_batch_larger_than_memory_goes_on_with_half_and_says_so() -> None:
    model = SmallMemory(lambda samples, *_: Written([round(len(samples) / RATE) - 1], -0.1))
    clips = [sound(seconds) for seconds in (1.0, 3.0, 2.0, 4.0, 1.0, 2.0)]
    options = replace(OPTIONS, batch_size=5, initial_prompt="five")
    found = list(Transcriber(Lent(model), "mine").transcribe_clips(clips, options))
    assert [row.text for row in found] == ["one", "three", "two", "four", "one", "two"]
    assert model.batches == [2, 2, 2]
    assert all(TOKENS.previous in prompt for prompt in model.prompts), (
        "what comes before is told all the same"
    )
    said = "Memory ran out over 5 windows together: 2 at a time went on."
    assert [[str(note) for note in row.notes] for row in found] == [[said]] * 5 + [[]]


def test_one_window_larger_than_memory_is_an_error_with_what_to_do() -> None:
    model = SmallMemory(two_sentences)
    model.room = 0
    with pytest.raises(RunError, match="choose fewer beams, a smaller model"):
        Transcriber(Lent(model), "mine").transcribe_samples([sound(5)], 5.0, OPTIONS)
    with pytest.raises(RunError, match="choose fewer beams, a smaller model"):
        Transcriber(Lent(model), "mine").transcribe_batch([sound(5)] * 2, OPTIONS, ["en"] * 2)


def test_a_test_set_larger_than_memory_is_heard_in_halves_in_its_order() -> None:
    model = SmallMemory(lambda samples, *_: Written([round(len(samples) / RATE) - 1], -0.1))
    clips = [sound(seconds) for seconds in (1.0, 3.0, 2.0, 4.0, 5.0)]
    texts = Transcriber(Lent(model), "mine").transcribe_batch(clips, OPTIONS, ["en"] * 5)
    assert texts == ["one", "three", "two", "four", "five"]
    assert model.batches == [2, 1, 2]


def test_windows_of_one_recording_are_heard_in_turn_and_those_of_several_together() -> None:
    model = ScriptedModel(two_sentences)
    clips = [sound(seconds) for seconds in (60, 10, 10, 60)]
    found = list(
        Transcriber(Lent(model), "mine").transcribe_clips(clips, replace(OPTIONS, timestamps="word"))
    )
    assert model.encoded == [1, 2, 3, 1, 1]
    assert [row.text for row in found] == [
        "one two. " * 2 + "one two.",
        "one two.",
        "one two.",
        found[0].text,
    ]


def test_windows_that_are_asked_for_together_are_decoded_together_without_voice_activity_too() -> None:
    model = ScriptedModel(lambda samples, *_: Written([at(0), 0, at(len(samples) / RATE)], -0.1))
    Transcriber(Lent(model), "mine").transcribe_samples([sound(60)], 60.0, replace(OPTIONS, batch_size=8))
    assert model.batches == [3]


@pytest.mark.parametrize("seconds", [5.0, 20.0])
def test_a_long_text_without_times_is_still_written_with_them(seconds: float) -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    options = replace(OPTIONS, timestamps="none")
    Transcriber(Lent(model), "mine").transcribe_samples([sound(seconds)], seconds, options)
    assert (TOKENS.no_timestamps in model.prompts[0]) is (seconds < 15)


def test_a_single_word_is_written_without_time_tokens_and_has_its_times_all_the_same() -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    options = replace(OPTIONS, timestamps="word")
    found = Transcriber(Lent(model), "mine").transcribe_samples([sound(0.6)], 0.6, options)
    assert model.prompts == [TOKENS.prompt("en", "transcribe", with_times=False)]
    [word] = found.segments[0].words
    assert (word.text, word.start_seconds, word.end_seconds) == ("one", 0.0, 0.6)


def test_a_single_word_is_written_however_unsure_if_a_voice_is_in_it(demo_speech: Path) -> None:
    samples = read_audio(demo_speech / "samples" / "kitchen-light.flac", 1.0, 1.9)
    model = ScriptedModel(lambda *_: Written([0], -3.0, 0.9))
    judged = replace(OPTIONS, vad=True)
    twice = np.tile(samples, 2)
    for clip, options, said, calls in (
        (samples, judged, "one", 1),
        (0 * samples, judged, "", 0),
        (samples, OPTIONS, "", 1),
        (twice, judged, "", 1),
    ):
        model.batches.clear()
        found = Transcriber(Lent(model), "mine").transcribe_samples([clip], len(clip) / RATE, options)
        assert (found.text, len(model.batches)) == (said, calls)


def test_times_stay_in_the_recording_and_never_go_back() -> None:
    model = ScriptedModel(lambda *_: Written([at(0), 0, 5, 1, 5, 2, at(3), at(3), 4], -0.1))
    model.align = lambda _encoded, _prompt, texts, seconds: [  # type: ignore[method-assign]
        type(
            "Times",
            (),
            {"edges": np.linspace(-1.0, 99.0, len(text) + 1), "probabilities": np.ones(len(text))},
        )()
        for text in texts
    ]
    found = Transcriber(Lent(model), "mine").transcribe_samples(
        [sound(25)], 25.0, replace(OPTIONS, timestamps="word")
    )
    assert len(found.segments) > 5
    assert_times_are_sound(found)
