"""The engine of transformers on the demo model, and on the real whisper-tiny where it is there."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studio.dataset.audio import read_audio, save_pcm
from studio.errors import AdapterMismatchError, AudioError, ConfigError, ModelBrokenError, RunError
from studio.evaluation.metrics import error_rates
from studio.transcription.engine import Progress, TranscribeOptions, Transcript
from studio.transcription.engines.transformers import _row_starts, alignment_heads
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Transcriber
from tests.unit.transcription.small_models import (
    CountingLoader,
    Sample,
    assert_is_whole,
    assert_is_written_down,
    assert_times_are_sound,
    save_adapter,
)

RATE = 16_000
PLAIN = TranscribeOptions()


@pytest.mark.parametrize(("timestamps", "num_beams"), [("none", 2), ("segment", 0), ("word", 0)])
def test_a_command_is_written_down_with_the_times_that_are_asked(
    engines: ModelCache, command: Sample, timestamps: Any, num_beams: int
) -> None:
    options = TranscribeOptions(timestamps=timestamps, num_beams=num_beams)
    found = engines.transcribe("demo", command.path, options)
    assert found.engine == "transformers"
    assert_is_written_down(found, command, timestamps)
    if timestamps == "word":
        words = {word.text.lower().strip(".,"): word for segment in found.segments for word in segment.words}
        assert abs(words["turn"].start_seconds - command.segments[0]["start"]) < 0.3
        for last, segment in zip(("light", "minutes"), command.segments, strict=True):
            assert abs(words[last].end_seconds - segment["end"]) < 0.2, "not where the next word begins"


@pytest.fixture(scope="module")
def tiny(whisper_tiny: Path) -> Transcriber:
    """The real whisper-tiny."""
    return Transcriber(load_base(whisper_tiny, device="cpu"), "tiny")


@pytest.fixture(scope="module")
def kennedy(tiny: Transcriber, real_speech: Path) -> Transcript:
    """What whisper-tiny hears of a speech."""
    return tiny.transcribe(real_speech / "jfk" / "jfk.flac", TranscribeOptions(timestamps="word"))


@pytest.fixture
def mandarin(real_speech: Path) -> Path:
    """Somebody who speaks Mandarin."""
    return min((real_speech / "aishell1_zh" / "test").glob("*.flac"))


def test_the_language_is_detected_or_taken_by_name(tiny: Transcriber, mandarin: Path) -> None:
    detected = tiny.transcribe(mandarin, TranscribeOptions(num_beams=1))
    named = tiny.transcribe(mandarin, TranscribeOptions(language="Mandarin", num_beams=1))
    assert (detected.language, named.language) == ("zh", "zh")
    assert detected.text == named.text
    odds = tiny.detect_language(read_audio(mandarin))
    assert next(iter(odds)) == "zh"
    assert sum(odds.values()) == pytest.approx(1.0)
    assert tiny.detect_language(np.zeros(RATE, np.float32)) == {}


def test_words_of_mandarin_are_characters(tiny: Transcriber, mandarin: Path) -> None:
    found = tiny.transcribe(mandarin, TranscribeOptions(timestamps="word"))
    words = [word.text for segment in found.segments for word in segment.words]
    assert "".join(words) == found.text
    assert all(len(word.strip("，。！？,.!?")) <= 1 for word in words)
    assert_times_are_sound(found)


def test_what_the_model_lacks_is_refused(engines: ModelCache, command: Sample) -> None:
    for language, sentence in (
        ("Cantonese", "does not know the language 'Cantonese'"),
        ("Klingon", "no language of Whisper"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            engines.transcribe("demo", command.path, TranscribeOptions(language=language))


def test_a_text_file_is_refused_as_sound_before_a_model_is_loaded(
    cache: ModelCache, loader: CountingLoader, tmp_path: Path
) -> None:
    path = tmp_path / "notes.wav"
    path.write_text("not a sound", encoding="utf-8")
    with pytest.raises(AudioError):
        cache.transcribe("demo", path, TranscribeOptions())
    assert loader.folders == []


@pytest.mark.parametrize(("amplitude", "seconds"), [(0.0, 3), (1e-3, 60), (0.02, 10)])
def test_silence_and_noise_give_no_text(
    engines: ModelCache, tmp_path: Path, amplitude: float, seconds: int
) -> None:
    noise = amplitude * np.random.default_rng(0).standard_normal(seconds * RATE)
    path = save_pcm(noise.astype(np.float32), RATE, tmp_path / "noise.wav")
    found = engines.transcribe("demo", path, TranscribeOptions())
    assert (found.text, found.segments, found.language) == ("", (), "")
    assert found.duration_seconds == pytest.approx(seconds)


def test_noise_is_written_down_if_every_judgement_is_switched_off(engines: ModelCache) -> None:
    """The option reaches the engine: at 1 nothing is taken for silence, so the model itself must decide."""
    noise = (0.1 * np.random.default_rng(0).standard_normal(2 * RATE)).astype(np.float32)
    with engines.lease("demo") as engine:
        found = engine.transcribe_samples([noise], 2.0, TranscribeOptions(no_speech_threshold=1.0))
    assert found.duration_seconds == 2.0


def test_a_long_recording_is_heard_to_its_end_with_progress(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    """The demo model never went on from a text, and is told none: of what it repeats, most is wrong."""
    told: list[Progress] = []
    options = TranscribeOptions("en", num_beams=1, temperature=(0.0,))
    found = engines.transcribe("demo", samples["long"].path, options, told.append)
    assert error_rates([samples["long"].text], [found.text], "basic").wer < 0.3
    assert found.duration_seconds > 60
    assert_is_whole(found, told)
    assert len(told) >= 3


def test_a_stop_ends_after_the_window_at_hand(engines: ModelCache, samples: dict[str, Sample]) -> None:
    told: list[Progress] = []
    found = engines.transcribe(
        "demo", samples["long"].path, TranscribeOptions(), told.append, should_stop=lambda: bool(told)
    )
    assert len(told) == 1
    assert found.segments == told[0].segments
    assert found.text


def test_the_text_before_and_a_hint_may_be_given_along(engines: ModelCache, command: Sample) -> None:
    options = TranscribeOptions(
        condition_on_prev_tokens=True, initial_prompt="turn off the lamp " * 8, timestamps="word"
    )
    found = engines.transcribe("demo", command.path, options)
    assert found.text
    assert_times_are_sound(found)


def test_fewer_new_tokens_give_a_shorter_text(engines: ModelCache, command: Sample) -> None:
    found = engines.transcribe("demo", command.path, TranscribeOptions(timestamps="none", max_new_tokens=3))
    assert 0 < len(found.text) < 20


def test_a_batch_of_clips_gives_each_its_own_text(engines: ModelCache, command: Sample) -> None:
    first = command.segments[0]
    clips = [read_audio(command.path, 0.0, first["end"] + 0.2), command.sound]
    with engines.lease("demo") as engine:
        texts = engine.transcribe_batch(clips, TranscribeOptions(), ["English", "en"])
    assert texts == [first["text"], command.text]


def test_an_adapter_that_cannot_be_used_is_refused_and_the_base_still_works(
    base: LoadedBase, demo_model: Path, tmp_path: Path, command: Sample
) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_adapter(demo_model, tmp_path / "mine", seed=3)
    weights = folder / "adapter_model.safetensors"
    tensors = load_file(weights)
    narrow = {name: t[:, :-8].contiguous() if "lora_A" in name else t for name, t in tensors.items()}
    save_file(narrow, weights)
    with pytest.raises(AdapterMismatchError, match="belongs to another base model"):
        base.add_adapter("narrow", folder)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelBrokenError, match="cut short"):
        base.add_adapter("cut", folder)
    weights.unlink()
    with pytest.raises(ModelBrokenError, match=re.escape("no adapter_model.safetensors")):
        base.add_adapter("gone", folder)
    assert not base.is_spoiled
    assert Transcriber(base, "demo").transcribe(command.path, TranscribeOptions()).text == command.text


def test_an_adapter_that_memory_does_not_hold_is_not_called_broken(
    demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import peft
    import torch

    def load_on_a_full_gpu(*_what: object, **_how: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    base, folder = load_base(demo_model, device="cpu"), save_adapter(demo_model, tmp_path / "mine", seed=3)
    monkeypatch.setattr(peft.PeftModel, "from_pretrained", load_on_a_full_gpu)
    with pytest.raises(RunError, match="There is not enough memory for this model: choose a smaller one"):
        base.add_adapter("mine", folder)
    assert base.is_spoiled, "who asks next has the base loaded anew"


def test_a_base_whose_weights_are_cut_short_is_broken(demo_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(demo_model, tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelBrokenError, match="cannot be loaded"):
        load_base(folder, device="cpu")


def test_a_device_that_is_not_there_is_refused(demo_model: Path) -> None:
    with pytest.raises(ConfigError, match=r"device must be one of .* got 'tpu'"):
        load_base(demo_model, device="tpu")


def test_a_model_on_a_cpu_computes_in_float32(base: LoadedBase) -> None:
    import torch

    with base.using(None) as decoder:
        assert decoder.model.dtype == torch.float32


def test_loading_and_transcribing_prints_nothing(
    demo_model: Path, command: Sample, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = Transcriber(load_base(demo_model, device="cpu"), "demo")
    engine.transcribe(command.path, TranscribeOptions(timestamps="word"))
    assert capfd.readouterr() == ("", "")


def test_whisper_tiny_makes_no_word_error_on_a_speech_of_kennedy(
    tiny: Transcriber, kennedy: Transcript, real_speech: Path
) -> None:
    spoken = "and so my fellow americans ask not what your country can do for you "
    spoken += "ask what you can do for your country"
    plain = tiny.transcribe(real_speech / "jfk" / "jfk.flac", TranscribeOptions(timestamps="none"))
    for found in (plain, kennedy):
        assert error_rates([spoken], [found.text], "basic").wer == 0.0
        assert found.language == "en"
    assert_times_are_sound(kennedy)
    words = [word for segment in kennedy.segments for word in segment.words]
    # As the loudness of the sound has them: two of these words follow a pause of a second.
    for place, text, seconds in (
        (4, "Americans", 1.6),
        (5, "ask", 3.25),
        (6, "not", 4.0),
        (7, "what", 5.4),
        (21, "country", 10),
    ):
        assert words[place].text.rstrip(",.") == text
        assert words[place].start_seconds == pytest.approx(seconds, abs=0.25)


def test_whisper_tiny_writes_down_a_long_recording_without_loss(
    tiny: Transcriber, kennedy: Transcript, real_speech: Path, tmp_path: Path
) -> None:
    """Longer than one window, so that sentences are cut and taken up again."""
    once = read_audio(real_speech / "jfk" / "jfk.flac")
    path = save_pcm(np.tile(np.append(once, np.zeros(RATE, np.float32)), 3), RATE, tmp_path / "long.flac")
    found = tiny.transcribe(path, TranscribeOptions())
    assert found.duration_seconds > 35
    assert error_rates([" ".join([kennedy.text] * 3)], [found.text], "basic").wer <= 0.05
    assert_times_are_sound(found)
    assert found.segments[-1].end_seconds > found.duration_seconds - 3


@pytest.mark.parametrize(("precision", "share"), [("float16", 0.51), ("int8", 0.75), ("int4", 0.75)])
def test_weights_in_fewer_bits_need_less_memory(
    demo_model: Any, base: LoadedBase, command: Sample, precision: str, share: float, tmp_path: Any
) -> None:
    small = load_base(demo_model, device="cpu", precision=precision)
    sizes = [row.model.model.get_memory_footprint() for row in (small, base)]
    assert sizes[0] < share * sizes[1]
    options = replace(PLAIN, timestamps="none")
    text = Transcriber(small, "demo").transcribe(command.path, options).text
    # 4 bits are too few for a model as small as this one: that it writes must do.
    assert text == command.text if precision != "int4" else text
    if precision == "int8":
        small.add_adapter("faint", save_adapter(demo_model, tmp_path / "faint", seed=1, strength=0.0))
        adapted = Transcriber(small, "faint", "faint").transcribe(command.path, options)
        assert adapted.text == command.text


def test_a_model_without_alignment_heads_uses_the_upper_half_of_its_decoder() -> None:
    assert alignment_heads({}, 4, 2) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert alignment_heads({"alignment_heads": [[1, 0], [9, 9]]}, 4, 2) == [(1, 0)]


def test_the_path_through_the_attention_gives_each_token_its_start() -> None:
    attention = np.zeros((3, 10))
    attention[0, :4] = attention[1, 4:7] = attention[2, 7:] = 1.0
    assert _row_starts(-attention).tolist() == [0, 4, 7]


def test_more_tokens_than_positions_still_get_times() -> None:
    starts = _row_starts(-np.eye(5, 2))
    assert len(starts) == 5
    assert sorted(starts) == starts.tolist()
