"""What is heard where nobody speaks, and the figure of what is written of it."""

import numpy as np
import pytest

from studio.evaluation.non_speech import figure_of, hear_non_speech, recordings, words_of
from studio.transcription.model_cache import ModelCache


def test_the_recordings_are_half_a_minute_each_and_the_same_every_time() -> None:
    silence, quiet, loud, pink, chords, babble = first = recordings()
    recordings.cache_clear()
    assert all(np.array_equal(a, b) for a, b in zip(first, recordings(), strict=True))
    assert {(len(sound), sound.dtype.name) for sound in first} == {(480_000, "float32")}
    assert not silence.any()
    levels = [float(np.sqrt(np.mean(np.square(sound)))) for sound in first[1:]]
    assert levels == pytest.approx([0.003, 0.03, 0.03, 0.08, 0.05], rel=1e-3)
    assert max(float(np.abs(sound).max()) for sound in first) < 1.0
    spectrum = np.abs(np.fft.rfft(pink)) ** 2
    octaves = [spectrum[30 * low : 60 * low].sum() for low in (200, 400, 800, 1600)]
    assert max(octaves) < 1.2 * min(octaves), "pink: as much in each octave"
    assert np.argmax(np.abs(np.fft.rfft(chords))[: 30 * 250]) > 30 * 80, "a note"
    assert np.corrcoef(quiet, loud)[0, 1] > 0.99 and np.abs(np.corrcoef(loud, babble)[0, 1]) < 0.01


def test_the_figure_counts_words_an_hour_and_texts_that_are_loops() -> None:
    texts = ["", "Thank you.", "♪ …", "谢谢", "go on and on " * 20, ""]
    figure = figure_of(texts)
    assert (figure.seconds, figure.words_per_hour) == (180.0, 20.0 * (2 + 2 + 80))
    assert figure.loop_rate == pytest.approx(1 / 6)
    assert words_of("Thank you . ♪ - 2") == ["Thank", "you", "2"]


def test_a_model_is_heard_without_being_warned_and_may_be_stopped(engines: ModelCache) -> None:
    with engines.lease("demo") as engine:
        known: dict[bytes, str] = {}

        def read(samples, language, write, should_stop):  # type: ignore[no-untyped-def]
            assert language == "en"
            return known.setdefault(samples.tobytes(), write())

        texts = hear_non_speech(engine, "auto", read=read)
        assert len(texts) == len(known) == 6
        assert texts[0] == "", "of digital silence it makes nothing up"
        assert hear_non_speech(engine, "en", lambda: True) == []
