"""The engine of faster-whisper, on an export of the demo model."""

import inspect
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faster_whisper import WhisperModel

from studio.dataset.audio import read_audio, save_pcm
from studio.errors import ConfigError, ModelBrokenError
from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.transcription.engine import EngineChoice, Progress, TranscribeOptions
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.loaded_export import LoadedExport, load_export
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Search
from studio.transcription.windows import WindowLengths
from studio.whisper.audio_context import positions_of
from tests.unit.transcription.small_models import (
    ONE_WINDOW_AFTER_ANOTHER,
    Sample,
    assert_is_whole,
    assert_is_written_down,
    assert_times_are_sound,
)

RATE = 16_000
FASTER = EngineChoice("faster-whisper")


@pytest.fixture(scope="module")
def cache(demo_model: Path, demo_export: Path) -> Iterator[ModelCache]:
    """A cache of its own, whose registry has the export."""
    registry = ModelRegistry(demo_export.parent, demo=demo_model, hf_cache=None)
    made = ModelCache(registry, idle_seconds=300, device="cpu", exports=Exporter(registry))
    yield made
    made.close()


def with_lengths(export: Path) -> tuple[LoadedExport, list[int]]:
    """An export, and the positions that its encoder gives out, in their order."""
    loaded, lengths = load_export(export, device="cpu"), []
    encode = loaded.model.encode

    def noted(clips: Any, **how: Any) -> Any:
        encoded = encode(clips, **how)
        lengths.append(encoded.shape[1])
        return encoded

    loaded.model.encode = noted  # type: ignore[method-assign]
    return loaded, lengths


@pytest.mark.parametrize("timestamps", ["none", "segment", "word"])
def test_a_command_is_written_down_as_transformers_does(
    cache: ModelCache, command: Sample, timestamps: Any
) -> None:
    options = TranscribeOptions(timestamps=timestamps)
    found = cache.transcribe("demo", command.path, options, choice=FASTER)
    assert found.engine == "faster-whisper"
    assert_is_written_down(found, command, timestamps)


def test_an_export_chooses_its_engine_by_itself_and_transformers_refuses_it(
    cache: ModelCache, demo_export: Path, command: Sample
) -> None:
    found = cache.transcribe(demo_export.name, command.path, TranscribeOptions(timestamps="none"))
    assert (found.text, found.engine) == (command.text, "faster-whisper")
    transformers = EngineChoice("transformers")
    with pytest.raises(ConfigError, match="only faster"), cache.lease(demo_export.name, transformers):
        pass


def test_a_long_recording_is_decoded_several_windows_at_once_and_can_be_cancelled(
    cache: ModelCache, samples: dict[str, Sample]
) -> None:
    path = samples["long"].path
    told: list[Progress] = []
    whole = cache.transcribe("demo", path, TranscribeOptions(), told.append, choice=FASTER)
    assert len(told) > 1
    assert_is_whole(whole, told)
    cut = cache.transcribe(
        "demo", path, TranscribeOptions(), told.append, should_stop=lambda: True, choice=FASTER
    )
    assert 0 < len(cut.segments) < len(whole.segments)


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("amplitude", [0.0, 0.02])
def test_silence_and_noise_give_no_text(
    cache: ModelCache, tmp_path: Path, amplitude: float, batch_size: int
) -> None:
    noise = amplitude * np.random.default_rng(0).standard_normal(5 * RATE)
    path = save_pcm(noise.astype(np.float32), RATE, tmp_path / "noise.wav")
    options = TranscribeOptions(batch_size=batch_size)
    found = cache.transcribe("demo", path, options, choice=FASTER)
    assert (found.text, found.segments, found.language) == ("", (), "")
    assert found.duration_seconds == pytest.approx(5)


def test_unless_told_the_search_has_as_many_beams_as_in_the_library_itself(demo_export: Path) -> None:
    usual = inspect.signature(WhisperModel.transcribe).parameters["beam_size"].default
    assert load_export(demo_export, device="cpu").model.usual_beams == usual


def test_what_it_is_told_of_a_search_it_does(demo_export: Path, command: Sample) -> None:
    model = load_export(demo_export, device="cpu").model
    prompt = model.tokens.prompt("en", "transcribe", with_times=False)
    encoded = model.encode([command.sound])

    def heard(search: Search) -> str:
        return model.text_of(model.generate(encoded, [prompt], search)[0].tokens).strip()

    assert heard(Search()) == command.text
    assert "light" not in heard(Search(suppress_tokens=tuple(model.tokens_of(" light"))))
    assert heard(Search(max_new_tokens=3)) == " ".join(command.text.split()[:3])
    again = model.generate(model.rows(encoded, [0, 0]), [prompt] * 2, Search())
    assert [model.text_of(written.tokens).strip() for written in again] == [command.text] * 2
    assert all(-1 < written.average_logprob < 0 for written in again)


def test_no_time_is_later_than_the_end_of_its_own_clip(demo_export: Path, demo_speech: Path) -> None:
    model = load_export(demo_export, device="cpu").model
    # The demo model does not know these words, and at the second clip sees no end to them.
    clips = [read_audio(demo_speech / "audio" / f"test-{number}.ogg") for number in ("001", "020")]
    seconds = [len(clip) / RATE for clip in clips]
    prompt = model.tokens.prompt("en", "transcribe", with_times=True)

    def latest(given: list[float] | None) -> list[float]:
        found = model.generate(model.encode(clips), [prompt] * 2, Search(max_new_tokens=40), given)
        times = [filter(model.tokens.is_time, written.tokens) for written in found]
        return [max(map(model.tokens.seconds, row)) for row in times]

    assert latest(None)[1] > seconds[1] + 0.02
    assert all(time <= end + 0.02 for time, end in zip(latest(seconds), seconds, strict=True))


def test_words_have_the_times_that_transformers_gives_them(
    demo_export: Path, base: LoadedBase, command: Sample
) -> None:
    found = []
    for model in (load_export(demo_export, device="cpu").model, base.model):
        prompt = model.tokens.prompt("en", "transcribe", with_times=False)
        text = model.tokens_of(f" {command.text}")
        with torch.inference_mode():
            found.append(model.align(model.encode([command.sound]), prompt, [text], [4.5])[0])
    assert np.abs(found[0].edges - found[1].edges).max() <= 0.06
    assert np.abs(found[0].probabilities - found[1].probabilities).max() < 0.01


@pytest.mark.parametrize("is_short", [False, True])
def test_features_are_those_of_transformers(demo_export: Path, command: Sample, is_short: bool) -> None:
    from transformers import WhisperFeatureExtractor

    model = load_export(demo_export, device="cpu").model
    frames = 2 * positions_of(len(command.sound) / RATE) if is_short else 3000
    whole = WhisperFeatureExtractor()(command.sound, sampling_rate=RATE, return_tensors="np").input_features
    assert np.abs(model._features(command.sound, frames) - whole[0, :, :frames]).max() < 1e-3


@pytest.mark.parametrize(
    ("trained", "asked", "is_short"),
    [("full", "auto", False), ("full", "short", True), ("short", "auto", True), ("short", "full", False)],
)
def test_the_encoder_sees_what_the_card_says_unless_the_visitor_does(
    demo_export: Path, command: Sample, trained: str, asked: Any, is_short: bool
) -> None:
    loaded, lengths = with_lengths(demo_export)
    engine = Transcriber(loaded, "demo", audio_context=trained)
    for batch_size in (1, 4):
        options = TranscribeOptions("en", audio_context=asked, timestamps="word", batch_size=batch_size)
        assert_times_are_sound(engine.transcribe_samples([command.sound], len(command.sound) / RATE, options))
    assert engine.transcribe_batch([command.sound], TranscribeOptions(audio_context=asked), ["en"]) != [""]
    longest = positions_of(len(command.sound) / RATE) if is_short else 1500
    assert len(lengths) >= 3 and longest - 64 <= max(lengths) <= longest
    assert all(length <= longest for length in lengths)


def test_a_model_of_short_clips_hears_a_recording_in_windows_as_short_and_each_is_a_segment(
    demo_export: Path, samples: dict[str, Sample]
) -> None:
    loaded, lengths = with_lengths(demo_export)
    engine = Transcriber(loaded, "demo", None, "short", WindowLengths.of_clips((2.0, 6.0)))
    clip = read_audio(samples["long"].path)[: 20 * RATE]
    found = engine.transcribe_samples([clip], 20.0, TranscribeOptions("en"))
    assert_times_are_sound(found)
    assert lengths and max(lengths) <= positions_of(6.0)
    assert len(found.segments) > 3
    engine = Transcriber(loaded, "demo", audio_context="short")
    plain = engine.transcribe_samples([clip], 20.0, TranscribeOptions("en"))
    assert max(lengths) > positions_of(6.0) and plain.segments


@pytest.mark.parametrize("given", ONE_WINDOW_AFTER_ANOTHER, ids=lambda given: next(iter(given)))
def test_whatever_is_asked_of_a_model_of_short_clips_its_windows_are_short(
    demo_export: Path, samples: dict[str, Sample], given: dict[str, Any]
) -> None:
    loaded, lengths = with_lengths(demo_export)
    prompts: list[list[int]] = []
    write = loaded.model.generate
    loaded.model.generate = lambda *asked: prompts.extend(asked[1]) or write(*asked)  # type: ignore[method-assign]
    engine = Transcriber(loaded, "demo", None, "short", WindowLengths.of_clips((2.0, 6.0)))
    clip = read_audio(samples["long"].path)[: 20 * RATE]
    found = engine.transcribe_samples([clip], 20.0, TranscribeOptions("en", **given))
    assert_times_are_sound(found)
    assert len(found.segments) > 3 and found.segments[-1].end_seconds > 15
    assert max(lengths) <= positions_of(6.0)
    told = [loaded.model.tokens.previous in prompt for prompt in prompts]
    assert told[0] is ("initial_prompt" in given) and not any(told[1:]), (
        "it has never read text before a clip"
    )


def test_what_is_drawn_by_chance_is_drawn_the_same_another_time(demo_export: Path, command: Sample) -> None:
    clip = command.sound[::-1].copy()  # in no language
    unjudged: dict[str, Any] = {"logprob_threshold": -100.0, "no_speech_threshold": 1.0, "vad": False}
    options = TranscribeOptions("en", timestamps="none", temperature=(1.9,), **unjudged)

    def heard() -> list[str]:
        engine = Transcriber(load_export(demo_export, device="cpu"), "demo")
        return [engine.transcribe_samples([clip], 4.5, options).text for _ in range(3)]

    first = heard()
    assert len(set(first)) > 1, "it is drawn by chance"
    assert heard() == first


def test_what_model_or_engine_lack_is_refused_in_a_sentence(cache: ModelCache, command: Sample) -> None:
    plain = TranscribeOptions()
    for options, sentence in (
        (replace(plain, language="Cantonese"), "does not know the language 'Cantonese'"),
        (replace(plain, initial_prompt="light " * 400), "takes 223: shorten them"),
        (replace(plain, suppress_tokens=(99_999_999,)), "this model's tokens are 0 to"),
    ):
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            cache.transcribe("demo", command.path, options, choice=FASTER)
    for precision, sentence in (
        ("int4", "has no precision 'int4'"),
        ("float16", "cannot compute in float16"),
    ):
        choice = EngineChoice("faster-whisper", precision)
        with pytest.raises(ConfigError, match=sentence), cache.lease("demo", choice):
            pass


def test_weights_in_8_bits_need_less_memory_and_hear_the_same(demo_export: Path, command: Sample) -> None:
    whole, small = (load_export(demo_export, device="cpu", precision=name) for name in ("float32", "int8"))
    assert [row.model.model.compute_type for row in (whole, small)] == ["float32", "int8_float32"]
    options = TranscribeOptions(timestamps="none")
    assert Transcriber(small, "demo").transcribe(command.path, options).text == command.text


def test_a_batch_of_clips_gives_each_its_own_text(cache: ModelCache, command: Sample) -> None:
    first = command.segments[0]
    clips = [read_audio(command.path, 0.0, first["end"] + 0.2), command.sound]
    with cache.lease("demo", FASTER) as engine:
        texts = engine.transcribe_batch(clips, TranscribeOptions(), ["auto", "en"])
    assert texts == [first["text"], command.text]


def test_an_export_whose_weights_are_cut_short_is_broken(demo_export: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(demo_export, tmp_path / "cut")
    (folder / "model.bin").write_bytes((demo_export / "model.bin").read_bytes()[:-1000])
    with pytest.raises(ModelBrokenError, match="cannot be loaded"):
        load_export(folder, device="cpu")


def test_what_is_loaded_is_one_export_for_all_who_ask(cache: ModelCache, demo_export: Path) -> None:
    with cache.lease("demo", FASTER) as one, cache.lease("demo", FASTER) as two:
        assert isinstance(one, Transcriber) and isinstance(two, Transcriber)
        assert isinstance(one._lent, LoadedExport)
        assert one._lent is two._lent
