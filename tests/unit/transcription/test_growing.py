"""A recording that still goes on: heard in the windows of a file, and to its end soon after it."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.transcription.engine import TranscribeOptions, Transcript
from studio.transcription.growing import GrowingRecording
from studio.transcription.loaded_base import load_base
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Search, Written
from studio.transcription.windows import WINDOW_SAMPLES
from tests.unit.transcription.scripted_model import (
    OPTIONS,
    Lent,
    ScriptedModel,
    sound,
    two_sentences,
)


def spoken(engine: Transcriber, samples: NDArray[np.float32], options: TranscribeOptions) -> Transcript:
    """What is heard of these samples, a second at a time."""
    growing = GrowingRecording(lambda: nullcontext(engine), options)
    for second in np.array_split(samples, round(len(samples) / SAMPLING_RATE)):
        growing.add(second)
        if growing.is_due(is_busy=False):
            growing.hear()
        assert not growing.is_due(is_busy=True), "no more is kept than one window and what waits for the next"
    return growing.finish()


@pytest.mark.parametrize("seconds", [12, 30, 75])
def test_it_is_heard_in_the_windows_of_a_file_each_told_of_the_one_before(seconds: int) -> None:
    model = ScriptedModel(two_sentences)
    engine, options = Transcriber(Lent(model), "mine"), replace(OPTIONS, timestamps="word")
    file = engine.transcribe_samples([sound(seconds)], seconds, options)
    prompts, model.prompts = model.prompts, []
    grown = spoken(engine, sound(seconds), options)
    assert replace(grown, processing_seconds=file.processing_seconds) == file
    assert model.prompts == prompts and len(prompts) == 1 + seconds // 21


def test_a_better_moment_is_waited_for_but_not_for_ever() -> None:
    growing = GrowingRecording(
        lambda: nullcontext(Transcriber(Lent(ScriptedModel(two_sentences)), "")), OPTIONS
    )
    growing.add(sound(40))
    assert growing.is_due(is_busy=False) and not growing.is_due(is_busy=True)
    growing.add(sound(11))
    assert growing.is_due(is_busy=True)


def test_what_ended_in_silence_is_heard_and_the_silence_is_let_go(demo_speech: Path) -> None:
    lengths: list[float] = []

    def write(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
        lengths.append(len(samples) / SAMPLING_RATE)
        return Written([0], -0.1)

    voice = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    growing = GrowingRecording(
        lambda: nullcontext(Transcriber(Lent(ScriptedModel(write)), "mine")), TranscribeOptions("en")
    )
    growing.add(np.concatenate([np.zeros(10 * SAMPLING_RATE, np.float32), voice]))
    growing.add(np.zeros(20 * SAMPLING_RATE, np.float32))
    growing.hear()
    assert len(lengths) == 1 and lengths[0] < 6, "as long as somebody speaks"
    for _ in range(4):
        growing.add(np.zeros(20 * SAMPLING_RATE, np.float32))
        growing.hear()
        assert not growing.is_due(is_busy=False)
    assert growing.finish().text == "one" and len(lengths) == 1


def test_a_window_that_ends_in_a_pause_is_followed_by_the_same_as_in_a_file(demo_speech: Path) -> None:
    windows: list[NDArray[np.float32]] = []

    def write(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
        windows.append(samples)
        return Written([0], -0.1)

    voice = read_audio(demo_speech / "samples" / "kitchen-light.flac")[: 5 * SAMPLING_RATE]
    pause = np.zeros(SAMPLING_RATE, np.float32)
    samples, options = np.tile(np.concatenate([pause, voice, pause]), 9), TranscribeOptions("en")
    engine = Transcriber(Lent(ScriptedModel(write)), "mine")
    engine.transcribe_samples([samples], len(samples) / SAMPLING_RATE, options)
    file, windows = windows, []
    spoken(engine, samples, options)
    assert len(file) > 2 and file[-1].size < WINDOW_SAMPLES
    for grown, whole in zip(windows, file, strict=True):
        assert np.array_equal(grown[:-1], whole[: grown.size - 1]), "but for the rounding of its end"
        assert abs(grown.size - whole.size) <= 1


def test_the_demo_model_hears_a_long_recording_as_it_hears_the_file(
    demo_model: Path, demo_speech: Path
) -> None:
    engine = Transcriber(load_base(demo_model, device="cpu", threads=1), "demo", knows_text_before=False)
    samples = read_audio(demo_speech / "samples" / "long.ogg")[: 36 * SAMPLING_RATE]
    options = TranscribeOptions("en", timestamps="word")
    file = engine.transcribe_samples([samples], 36.0, options)
    grown = spoken(engine, samples, options)
    assert grown.text == file.text
    times = [word.start_seconds for segment in grown.segments for word in segment.words]
    assert times == sorted(times) and times[-1] > 32
