"""The engine of transformers on the demo model, and on the real whisper-tiny where it is there."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from studio.dataset.audio import read_audio, save_pcm
from studio.errors import AdapterMismatchError, AudioError, ConfigError, ModelBrokenError
from studio.inference.engine import Progress, TranscribeOptions, Transcript
from studio.inference.hugging_face import HuggingFaceEngine, load_base
from studio.inference.model_cache import ModelCache
from studio.registry.spec import ModelDimensions
from tests.unit.inference.small_models import Sample, save_adapter

RATE = 16_000


def assert_times_are_sound(transcript: Transcript) -> None:
    """Segments and words follow one another inside the recording, words inside their segment."""
    times = [0.0]
    for segment in transcript.segments:
        times.append(segment.start_seconds)
        for word in segment.words:
            times += [word.start_seconds, word.end_seconds]
        times.append(segment.end_seconds)
    times.append(transcript.duration_seconds)
    assert times == sorted(times)


def test_a_command_is_written_down_with_times(engines: ModelCache, samples: dict[str, Sample]) -> None:
    sample = samples["kitchen-light"]
    found = engines.transcribe("demo", sample.path, TranscribeOptions())
    assert found.text == sample.text
    assert found.language == "en"
    assert (found.model, found.engine) == ("demo", "transformers")
    assert_times_are_sound(found)
    assert len(found.segments) == len(sample.segments)
    for segment, known in zip(found.segments, sample.segments, strict=True):
        assert abs(segment.start_seconds - known["start"]) < 0.5


def test_words_have_times_inside_their_segments(engines: ModelCache, samples: dict[str, Sample]) -> None:
    sample = samples["kitchen-light"]
    found = engines.transcribe("demo", sample.path, TranscribeOptions(timestamps="word"))
    words = [word for segment in found.segments for word in segment.words]
    assert [word.text for word in words] == sample.text.split()
    assert_times_are_sound(found)
    assert all(0.0 <= (word.probability or 0.0) <= 1.0 for word in words)
    assert abs(words[0].start_seconds - sample.segments[0]["start"]) < 0.3


def test_without_times_there_is_one_segment_over_the_recording(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    sample = samples["kitchen-light"]
    found = engines.transcribe("demo", sample.path, TranscribeOptions(timestamps="none", num_beams=2))
    assert found.text == sample.text
    assert [(s.start_seconds, s.end_seconds) for s in found.segments] == [(0.0, found.duration_seconds)]


@pytest.fixture(scope="module")
def mandarin(whisper_tiny: Path, real_speech: Path) -> tuple[HuggingFaceEngine, Path]:
    """The real whisper-tiny, and somebody who speaks Mandarin."""
    clip = next(iter(sorted((real_speech / "aishell1_zh" / "test").glob("*.flac"))))
    return HuggingFaceEngine(load_base(whisper_tiny, device="cpu"), "tiny"), clip


def test_the_language_is_detected_or_taken_by_name(mandarin: tuple[HuggingFaceEngine, Path]) -> None:
    engine, clip = mandarin
    detected = engine.transcribe(clip, TranscribeOptions())
    named = engine.transcribe(clip, TranscribeOptions(language="Mandarin"))
    assert (detected.language, named.language) == ("zh", "zh")
    assert detected.text == named.text
    odds = engine.detect_language(read_audio(clip))
    assert next(iter(odds)) == "zh"
    assert sum(odds.values()) == pytest.approx(1.0)
    assert engine.detect_language(np.zeros(RATE, np.float32)) == {}


def test_words_of_mandarin_are_characters(mandarin: tuple[HuggingFaceEngine, Path]) -> None:
    engine, clip = mandarin
    found = engine.transcribe(clip, TranscribeOptions(timestamps="word"))
    words = [word.text for segment in found.segments for word in segment.words]
    assert "".join(words) == found.text
    assert all(len(word.strip("，。！？,.!?")) <= 1 for word in words)
    assert_times_are_sound(found)


def test_what_the_model_lacks_is_refused(engines: ModelCache, samples: dict[str, Sample]) -> None:
    path = samples["kitchen-light"].path
    for options, sentence in (
        (TranscribeOptions(language="Cantonese"), "does not know the language 'Cantonese'"),
        (TranscribeOptions(language="Klingon"), "no language of Whisper"),
        (TranscribeOptions(task="summarize"), "no task 'summarize'"),
        (TranscribeOptions(timestamps="letter"), "no timestamps 'letter'"),  # type: ignore[arg-type]
        (TranscribeOptions(num_beams=-1), "num_beams must be at least 0"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            engines.transcribe("demo", path, options)


def test_a_text_file_is_refused_as_sound(engines: ModelCache, tmp_path: Path) -> None:
    path = tmp_path / "notes.wav"
    path.write_text("not a sound", encoding="utf-8")
    with pytest.raises(AudioError):
        engines.transcribe("demo", path, TranscribeOptions())


@pytest.mark.parametrize(("amplitude", "seconds"), [(0.0, 3), (1e-3, 60), (0.02, 10)])
def test_silence_and_noise_give_no_text(
    engines: ModelCache, tmp_path: Path, amplitude: float, seconds: int
) -> None:
    noise = amplitude * np.random.default_rng(0).standard_normal(seconds * RATE)
    path = save_pcm(noise.astype(np.float32), RATE, tmp_path / "noise.wav")
    found = engines.transcribe("demo", path, TranscribeOptions())
    assert (found.text, found.segments, found.language) == ("", (), "")
    assert found.duration_seconds == pytest.approx(seconds)


def test_noise_is_written_down_if_every_judgement_is_switched_off(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    """The option reaches the engine: at 1 nothing is taken for silence, so the model itself must decide."""
    with engines.lease("demo") as engine:
        noise = (0.1 * np.random.default_rng(0).standard_normal(2 * RATE)).astype(np.float32)
        found = engine.transcribe_samples([noise], 2.0, TranscribeOptions(no_speech_threshold=1.0))
    assert found.duration_seconds == 2.0


def test_a_long_recording_is_heard_to_its_end_with_progress(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    sample = samples["long"]
    told: list[Progress] = []
    found = engines.transcribe("demo", sample.path, TranscribeOptions(), on_progress=told.append)
    assert found.duration_seconds > 60
    assert_times_are_sound(found)
    assert len(told) >= 3
    done = [progress.done_seconds for progress in told]
    assert done == sorted(done)
    assert told[-1].done_seconds == told[-1].total_seconds == found.duration_seconds
    assert found.segments[-1].end_seconds > found.duration_seconds - 10


def test_a_stop_ends_after_the_window_at_hand(engines: ModelCache, samples: dict[str, Sample]) -> None:
    told: list[Progress] = []
    found = engines.transcribe(
        "demo", samples["long"].path, TranscribeOptions(), told.append, should_stop=lambda: bool(told)
    )
    assert len(told) == 1
    assert found.segments == told[0].segments
    assert found.text


def test_the_text_before_and_a_hint_may_be_given_along(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    options = TranscribeOptions(
        condition_on_prev_tokens=True, initial_prompt="turn off the lamp " * 8, timestamps="word"
    )
    found = engines.transcribe("demo", samples["kitchen-light"].path, options)
    assert found.text
    assert_times_are_sound(found)


def test_fewer_new_tokens_give_a_shorter_text(engines: ModelCache, samples: dict[str, Sample]) -> None:
    path = samples["kitchen-light"].path
    options = TranscribeOptions(timestamps="none", max_new_tokens=3)
    assert 0 < len(engines.transcribe("demo", path, options).text) < 20


def test_a_batch_of_clips_gives_each_its_own_text(engines: ModelCache, samples: dict[str, Sample]) -> None:
    sample = samples["kitchen-light"]
    first = sample.segments[0]
    clips = [read_audio(sample.path, 0.0, first["end"] + 0.2), read_audio(sample.path)]
    with engines.lease("demo") as engine:
        texts = engine.transcribe_batch(clips, TranscribeOptions(), ["English", "en"])
    assert texts == [first["text"], sample.text]


def test_an_adapter_of_another_base_is_refused(demo_model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_adapter(demo_model, tmp_path / "narrow", seed=3)
    weights = folder / "adapter_model.safetensors"
    tensors = load_file(weights)
    save_file(
        {name: t[:, :-8].contiguous() if "lora_A" in name else t for name, t in tensors.items()}, weights
    )
    base = load_base(demo_model, device="cpu")
    with pytest.raises(AdapterMismatchError, match="belongs to another base model"):
        base.add_adapter("narrow", folder)
    assert not base.is_spoiled
    assert base.adapters == ()


def test_a_corrupt_adapter_is_broken_and_the_base_still_works(
    demo_model: Path, tmp_path: Path, samples: dict[str, Sample]
) -> None:
    folder = save_adapter(demo_model, tmp_path / "cut", seed=4)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    base = load_base(demo_model, device="cpu")
    with pytest.raises(ModelBrokenError, match="cut short"):
        base.add_adapter("cut", folder)
    weights.unlink()
    with pytest.raises(ModelBrokenError, match=re.escape("no adapter_model.safetensors")):
        base.add_adapter("cut", folder)
    sample = samples["kitchen-light"]
    assert HuggingFaceEngine(base, "demo").transcribe(sample.path, TranscribeOptions()).text == sample.text


def test_a_base_whose_weights_are_cut_short_is_broken(demo_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(demo_model, tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelBrokenError, match="cannot be loaded"):
        load_base(folder, device="cpu")


def test_a_device_that_is_not_there_is_refused(demo_model: Path) -> None:
    with pytest.raises(ConfigError, match="no device 'tpu'"):
        load_base(demo_model, device="tpu")


def test_a_model_on_a_cpu_computes_in_float32(demo_model: Path) -> None:
    import torch

    base = load_base(demo_model, device="cpu")
    with base.using(None) as decoder:
        assert decoder.model.dtype == torch.float32
        dimensions = ModelDimensions.from_config(decoder.model.config.to_dict())
    assert base.size_bytes > 4 * dimensions.vocab_size * dimensions.d_model


def test_loading_and_transcribing_prints_nothing(
    demo_model: Path, samples: dict[str, Sample], capfd: pytest.CaptureFixture[str]
) -> None:
    engine = HuggingFaceEngine(load_base(demo_model, device="cpu"), "demo")
    engine.transcribe(samples["kitchen-light"].path, TranscribeOptions(timestamps="word"))
    assert capfd.readouterr() == ("", "")


def test_whisper_tiny_makes_no_word_error_on_a_speech_of_kennedy(
    whisper_tiny: Path, real_speech: Path
) -> None:
    from studio.evaluation.metrics import error_rates

    spoken = (
        "and so my fellow americans ask not what your country can do for you "
        "ask what you can do for your country"
    )
    engine = HuggingFaceEngine(load_base(whisper_tiny, device="cpu"), "tiny")
    for timestamps in ("none", "word"):
        options = TranscribeOptions(timestamps=timestamps)  # type: ignore[arg-type]
        found = engine.transcribe(real_speech / "jfk" / "jfk.flac", options)
        assert error_rates([spoken], [found.text], "basic").wer == 0.0
        assert found.language == "en"
    assert_times_are_sound(found)
    starts = {word.text.strip(",.").lower(): word.start_seconds for word in found.segments[0].words}
    for word, seconds in (("americans", 2.3), ("not", 4.6), ("country", 10.5)):
        assert starts[word] == pytest.approx(seconds, abs=0.4)


def test_whisper_tiny_writes_down_a_long_recording_without_loss(
    whisper_tiny: Path, real_speech: Path, tmp_path: Path
) -> None:
    """Longer than one window, so that sentences are cut and taken up again."""
    from studio.evaluation.metrics import error_rates

    once = read_audio(real_speech / "jfk" / "jfk.flac")
    path = save_pcm(np.tile(np.append(once, np.zeros(RATE, np.float32)), 4), RATE, tmp_path / "long.flac")
    engine = HuggingFaceEngine(load_base(whisper_tiny, device="cpu"), "tiny")
    alone = engine.transcribe(real_speech / "jfk" / "jfk.flac", TranscribeOptions())
    found = engine.transcribe(path, TranscribeOptions())
    assert found.duration_seconds > 45
    assert error_rates([" ".join([alone.text] * 4)], [found.text], "basic").wer <= 0.05
    assert_times_are_sound(found)
    assert found.segments[-1].end_seconds > found.duration_seconds - 3
