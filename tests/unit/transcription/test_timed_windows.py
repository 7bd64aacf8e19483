"""faster-whisper writes no time after the end of the sound, and so does not break off what is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faster_whisper import BatchedInferencePipeline
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.transcription.ctranslate2 import FasterWhisperEngine
from studio.transcription.engine import TranscribeOptions
from studio.transcription.loaded_export import LoadedExport, load_export
from studio.transcription.timed_windows import last_times, within_each_sound, within_the_sound

Clip = Callable[[str], NDArray[np.float32]]


@pytest.fixture(scope="module")
def loaded(demo_export: Path) -> LoadedExport:
    return load_export(demo_export, device="cpu", threads=1)


@pytest.fixture
def clip(demo_speech: Path) -> Clip:
    """A clip of the test data by its number; the demo model does not know the words of these."""
    return lambda name: read_audio(demo_speech / "audio" / f"test-{name}.ogg")


def heard(model: Any, samples: NDArray[np.float32], **options: Any) -> list[Any]:
    told: dict[str, Any] = {"language": "en", "beam_size": 1, "temperature": [0.0], **options}
    return list(model.transcribe(samples, **told)[0])


def test_a_clip_has_no_time_behind_its_end_and_more_of_its_words(loaded: LoadedExport, clip: Clip) -> None:
    samples = clip("020")
    seconds = len(samples) / SAMPLING_RATE
    alone = heard(loaded.model, samples)
    assert alone[-1].end > seconds + 1, "the library lets the model write it"
    bound = heard(within_the_sound(loaded.model, loaded.tokens), samples)
    assert bound[-1].end <= seconds
    assert len(bound[-1].text) > len(alone[-1].text)
    options = TranscribeOptions("en", timestamps="segment", num_beams=1, temperature=(0.0,), vad=False)
    engine = FasterWhisperEngine(loaded, "demo")
    assert engine.transcribe_samples([samples], seconds, options).text == bound[-1].text.strip()


def test_clips_that_are_decoded_together_each_end_within_their_own_sound(
    loaded: LoadedExport, clip: Clip
) -> None:
    clips = [clip(name) for name in ("020", "037", "001")]
    ends = np.cumsum([len(samples) / SAMPLING_RATE for samples in clips])
    places = [{"start": start, "end": end} for start, end in zip([0.0, *ends], ends, strict=False)]
    options = {"clip_timestamps": places, "batch_size": 3, "without_timestamps": False, "vad_filter": False}

    def latest(pipeline: Any) -> list[float]:
        segments = heard(pipeline, np.concatenate(clips), temperature=0.0, **options)
        return [max(s.end for s in segments if s.seek == int(place["start"] * 100)) for place in places]

    assert any(latest(BatchedInferencePipeline(loaded.model)) > ends + 0.02)
    pipeline = within_each_sound(BatchedInferencePipeline(loaded.model), loaded.tokens)
    assert all(latest(pipeline) <= ends + 0.02)


def test_the_last_time_is_that_of_the_last_frame_of_sound(loaded: LoadedExport) -> None:
    features = np.zeros((3, 80, 3000), np.float32)
    features[1, :, :101] = -0.5
    features[2] = 0.25
    first = loaded.tokens.first_time
    assert [time - first for time in last_times(features, loaded.tokens)] == [0, 51, 1500]
