"""Options, by their effect on what is decoded; those of the search are in `test_decoding`."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.errors import ConfigError
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.model_cache import ModelCache
from studio.transcription.options import check_engine, parse_numbers, parse_tokens
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Written
from tests.unit.transcription.scripted_model import Lent, ScriptedModel
from tests.unit.transcription.small_models import Sample

PLAIN = TranscribeOptions()


def test_suppressed_tokens_are_never_written(base: LoadedBase, command: Sample) -> None:
    transcriber = Transcriber(base, "demo")
    assert "light" in transcriber.transcribe(command.path, PLAIN).text
    options = replace(PLAIN, suppress_tokens=tuple(base.model.tokens_of(" light")))
    assert "light" not in transcriber.transcribe(command.path, options).text


def test_noise_is_shown_to_the_model_without_the_detector() -> None:
    noise = (0.02 * np.random.default_rng(0).standard_normal(32_000)).astype(np.float32)
    for options, shown in (
        (PLAIN, 0),
        (replace(PLAIN, vad=False), 1),
        (replace(PLAIN, no_speech_threshold=1), 1),
    ):
        model = ScriptedModel(lambda *_: Written([0], -0.1))
        Transcriber(Lent(model), "mine").transcribe_samples([noise], 2.0, options)
        assert len(model.batches) == shown


def test_short_recordings_heard_together_are_heard_as_alone(engines: ModelCache, command: Sample) -> None:
    first = read_audio(command.path, 0.0, command.segments[0]["end"] + 0.2)
    silence = np.zeros(16_000, np.float32)
    with engines.lease("demo") as engine:
        found = list(engine.transcribe_clips([first, silence, command.sound], PLAIN, ["a", "b"]))
        alone = engine.transcribe(command.path, PLAIN)
    assert [row.text for row in found] == [command.segments[0]["text"], "", command.text]
    assert [row.audio_path for row in found] == ["a", "b", ""]
    assert [row.language for row in found] == ["en", "", "en"]
    assert found[2].segments == alone.segments


def test_windows_of_a_long_recording_can_be_decoded_together(
    engines: ModelCache, samples: dict[str, Sample]
) -> None:
    told: list[Any] = []
    options = replace(PLAIN, batch_size=4)
    found = engines.transcribe("demo", samples["long"].path, options, told.append)
    spoken = " ".join(row["text"] for row in samples["long"].segments).split()
    heard_words = found.text.split()
    assert len(set(spoken) & set(heard_words)) > 0.8 * len(set(spoken))
    assert told[-1].done_seconds == found.duration_seconds
    times = [at for s in found.segments for at in (s.start_seconds, s.end_seconds)]
    assert times == sorted(times)


def test_values_that_cannot_be_are_refused(engines: ModelCache, command: Sample) -> None:
    for name, value, sentence in (
        ("num_beams", -1, "num_beams must be between 0 and 100000, got -1."),
        ("num_beams", 1.5, "num_beams must be a whole number, got 1.5"),
        ("task", "sing", "task must be one of transcribe, translate, got 'sing'"),
        ("timestamps", "letter", "none, segment, word, got 'letter'"),
        ("audio_context", "long", "auto, full, short, got 'long'"),
        ("temperature", (), "temperature must be one or more numbers"),
        ("temperature", (3.0,), "numbers from 0 to 2"),
        ("no_speech_threshold", 1.5, "no_speech_threshold must be between 0 and 1, got 1.5"),
        ("no_speech_threshold", None, "no_speech_threshold is empty: give a number."),
        ("compression_ratio_threshold", -3.5, "must be between 0 and 1000, got -3.5"),
    ):
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            replace(PLAIN, **{name: value})
    for options, sentence in (
        (replace(PLAIN, hotwords="light " * 400), "takes 223: shorten them"),
        (replace(PLAIN, suppress_tokens=(-4,)), "this model's tokens are 0 to"),
    ):
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            engines.transcribe("demo", command.path, options)
    with pytest.raises(ConfigError, match=r"engine must be one of .* got 'kaldi'"):
        check_engine(EngineChoice("kaldi"))
    with pytest.raises(ConfigError, match="transformers has no precision 'int8_float16'"):
        check_engine(EngineChoice("transformers", "int8_float16"))


def test_lists_are_read_as_people_write_them() -> None:
    assert parse_numbers("temperature", "0, 0.2 1") == (0.0, 0.2, 1.0)
    with pytest.raises(ConfigError, match="temperature takes numbers"):
        parse_numbers("temperature", "warm")
    assert (parse_tokens("-1"), parse_tokens(""), parse_tokens("none")) == (None, None, ())
    assert parse_tokens("1,22") == (1, 22)
    for given in ("1, nan", "inf", "1.7"):
        with pytest.raises(ConfigError, match="suppress_tokens must be a whole number, got"):
            parse_tokens(given)
