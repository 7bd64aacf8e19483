"""Each option of the engine of transformers, by its effect on what is decoded."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.errors import ConfigError
from studio.transcription.decoding import Decoder, Search
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.hearing import Hearing
from studio.transcription.hugging_face import HuggingFaceEngine, load_base
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.model_cache import ModelCache
from studio.transcription.options import check_choice, parse_numbers, parse_tokens
from tests.unit.transcription.small_models import Sample, save_adapter

PLAIN = TranscribeOptions()


class Spy:
    """Lends a decoder and remembers prompts and searches."""

    def __init__(self, base: LoadedBase) -> None:
        self._base = base
        self.calls: list[tuple[list[int], Search]] = []

    @contextmanager
    def __call__(self) -> Iterator[Decoder]:
        with self._base.using(None) as decoder:
            original = decoder.hear

            def hear(encoded: Any, prompts: Any, search: Search, seconds: Any = None) -> Any:
                self.calls += [(list(prompt), search) for prompt in prompts]
                return original(encoded, prompts, search, seconds)

            decoder.hear = hear  # type: ignore[method-assign]
            try:
                yield decoder
            finally:
                del decoder.hear  # type: ignore[method-assign]


def heard(base: LoadedBase, clip: Any, options: TranscribeOptions) -> tuple[str, Spy]:
    spy = Spy(base)
    found = Hearing(spy, options, "en", with_times=True)(clip, ())
    return " ".join(segment.text for segment in found.segments), spy


def test_options_of_the_search_reach_it(base: LoadedBase, command: Sample) -> None:
    options = replace(PLAIN, num_beams=2, max_new_tokens=20, suppress_tokens=(3, 5), temperature=(0.0,))
    _, spy = heard(base, command.sound, options)
    assert [search for _, search in spy.calls] == [Search(2, 0.0, 20, (3, 5))]
    _, untold = heard(base, command.sound, PLAIN)
    assert [search.num_beams for _, search in untold.calls] == [1]


def test_suppressed_tokens_are_never_written(base: LoadedBase, command: Sample) -> None:
    text, _ = heard(base, command.sound, PLAIN)
    assert "light" in text
    options = replace(PLAIN, suppress_tokens=tuple(base.decoder.tokens_of(" light")))
    assert "light" not in heard(base, command.sound, options)[0]


def test_an_unsure_text_is_tried_at_each_temperature(base: LoadedBase, command: Sample) -> None:
    options = replace(PLAIN, temperature=(0.0, 0.3, 0.9), logprob_threshold=0.0, no_speech_threshold=1.0)
    text, spy = heard(base, command.sound, options)
    assert [search.temperature for _, search in spy.calls] == [0.0, 0.3, 0.9]
    assert text == command.text  # the surest of the three
    _, sure = heard(base, command.sound, PLAIN)
    assert [search.temperature for _, search in sure.calls] == [0.0]


def test_an_unsure_text_is_silence_where_silence_is_likely(base: LoadedBase, command: Sample) -> None:
    strict = replace(PLAIN, no_speech_threshold=0.0, logprob_threshold=0.0)
    assert heard(base, command.sound, strict)[0] == ""
    assert heard(base, command.sound, replace(strict, logprob_threshold=-5.0))[0] != ""


def test_a_low_compression_ratio_makes_a_text_a_loop(base: LoadedBase, command: Sample) -> None:
    # Cut at three tokens it counts as ended for want of room, and any text is compressed by more than this.
    options = replace(PLAIN, compression_ratio_threshold=0.01, logprob_threshold=-9)
    options = replace(options, max_new_tokens=3, temperature=(0.0, 0.5))
    assert len(heard(base, command.sound, options)[1].calls) == 2
    assert len(heard(base, command.sound, replace(options, compression_ratio_threshold=2.4))[1].calls) == 1


def test_text_before_is_told_once_and_hotwords_each_time(
    base: LoadedBase, command: Sample, samples: dict[str, Sample]
) -> None:
    spy = Spy(base)
    options = replace(PLAIN, initial_prompt="set a timer", hotwords="kitchen", condition_on_prev_tokens=True)
    hearing = Hearing(spy, options, "en", with_times=True)
    context = hearing(command.sound, ()).context
    hearing(command.sound, context)
    words = [base.decoder.text_of(prompt) for prompt, _ in spy.calls]
    assert words == [" kitchen set a timer", f" kitchen {samples['kitchen-light'].text}"]
    assert Hearing(spy, PLAIN, "en", with_times=True)(command.sound, ()).context == ()


def test_noise_is_shown_to_the_model_without_the_detector(base: LoadedBase) -> None:
    noise = (0.02 * np.random.default_rng(0).standard_normal(32_000)).astype(np.float32)
    assert heard(base, noise, PLAIN)[1].calls == []
    assert heard(base, noise, replace(PLAIN, vad=False))[1].calls != []


def test_short_recordings_heard_together_are_heard_as_alone(engines: ModelCache, command: Sample) -> None:
    first = read_audio(command.path, 0.0, command.segments[0]["end"] + 0.2)
    silence = np.zeros(16_000, np.float32)
    with engines.lease("demo") as engine:
        found = engine.transcribe_clips([first, silence, command.sound], PLAIN, ["a", "b"])
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
    for options, sentence in (
        (replace(PLAIN, num_beams=-1), "num_beams must be at least 0, got -1."),
        (replace(PLAIN, temperature=()), "temperature must be one or more numbers"),
        (replace(PLAIN, temperature=(3.0,)), "numbers from 0 to 2"),
        (replace(PLAIN, no_speech_threshold=1.5), "a probability from 0 to 1"),
        (replace(PLAIN, hotwords="light " * 400), "takes 223: shorten them"),
        (replace(PLAIN, batch_size=8, condition_on_prev_tokens=True), "Give batch_size 1."),
        (replace(PLAIN, suppress_tokens=(-4,)), "this model's tokens are 0 to"),
    ):
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            engines.transcribe("demo", command.path, options)
    with pytest.raises(ConfigError, match="no engine 'kaldi'"):
        check_choice(EngineChoice("kaldi"))
    with pytest.raises(ConfigError, match="transformers has no precision 'int8_float16'"):
        check_choice(EngineChoice("transformers", "int8_float16"))


def test_lists_are_read_as_people_write_them() -> None:
    assert parse_numbers("temperature", "0, 0.2 1") == (0.0, 0.2, 1.0)
    with pytest.raises(ConfigError, match="temperature takes numbers"):
        parse_numbers("temperature", "warm")
    assert (parse_tokens("-1"), parse_tokens(""), parse_tokens("none")) == (None, None, ())
    assert parse_tokens("1,22") == (1, 22)


@pytest.mark.parametrize(("precision", "share"), [("float16", 0.51), ("int8", 0.75), ("int4", 0.75)])
def test_weights_in_fewer_bits_need_less_memory(
    demo_model: Any, base: LoadedBase, command: Sample, precision: str, share: float, tmp_path: Any
) -> None:
    small = load_base(demo_model, device="cpu", precision=precision)
    assert small.size_bytes < share * base.size_bytes
    options = replace(PLAIN, timestamps="none")
    text = HuggingFaceEngine(small, "demo").transcribe(command.path, options).text
    # 4 bits are too few for a model as small as this one: that it writes must do.
    assert text == command.text if precision != "int4" else text
    if precision == "int8":
        small.add_adapter("faint", save_adapter(demo_model, tmp_path / "faint", seed=1, strength=0.0))
        adapted = HuggingFaceEngine(small, "faint", "faint").transcribe(command.path, options)
        assert adapted.text == command.text
