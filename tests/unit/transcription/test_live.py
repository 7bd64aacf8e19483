"""Words while somebody speaks: settled, tentative, and never lost."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.evaluation.metrics import utterance_errors
from studio.transcription.engine import TranscribeOptions, Word
from studio.transcription.live import MOST_SECONDS, LiveTranscript
from studio.transcription.loaded_base import load_base
from studio.transcription.transcriber import Transcriber

BLOCK = SAMPLING_RATE // 2


@pytest.fixture(scope="module")
def spoken(demo_speech: Path) -> NDArray[np.float32]:
    sound = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    return np.concatenate([sound, np.zeros(SAMPLING_RATE, np.float32)])


def blocks(sound: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(sound), BLOCK):
        yield sound[start : start + BLOCK]


def test_the_demo_model_hears_a_sentence_as_it_grows(demo_model: Path, spoken: NDArray[np.float32]) -> None:
    engine = Transcriber(load_base(demo_model, device="cpu", threads=1), "demo")
    options = TranscribeOptions(language="en", timestamps="word")

    def hear(sound: NDArray[np.float32]) -> tuple[Sequence[Word], str]:
        heard = engine.transcribe_samples([sound], len(sound) / SAMPLING_RATE, options)
        return [word for segment in heard.segments for word in segment.words], heard.language

    live = LiveTranscript(hear)
    texts = [live.feed(block) for block in blocks(spoken)]
    end = live.finish()
    errors, length = utterance_errors(
        "turn on the kitchen light set a timer for ten minutes", end.settled, "wer"
    )
    assert errors <= length // 5 and end.tentative == ""
    assert all(after.settled.startswith(before.settled) for before, after in itertools.pairwise(texts))
    early = next(text for text in texts if "kitchen" in text.settled + text.tentative)
    assert early.heard_seconds <= 2.0
    times = [word.start_seconds for segment in live.segments for word in segment.words]
    assert times == sorted(times) and 0.2 < times[0] < 1.0 and times[-1] < 4.6


def scripted(*hearings: str, language: str = "en", script: str = "auto") -> LiveTranscript:
    """A transcript whose hearings are these texts in turn, then the last again and again."""
    told = list(hearings)

    def hear(_sound: NDArray[np.float32]) -> tuple[Sequence[Word], str]:
        text = told.pop(0) if len(told) > 1 else told[0]
        words = [Word(0.5 * n, 0.5 * n + 0.4, word) for n, word in enumerate(text.split())]
        return words, language if words else ""

    return LiveTranscript(hear, script)


def test_words_that_two_hearings_agree_on_are_settled_and_stay(spoken: NDArray[np.float32]) -> None:
    live = scripted("turn on", "Turn on, the", "turn off the kitchen", "turn off the kitchen")
    voice = spoken[BLOCK:]
    shown = [live.feed(voice[n * 4000 : (n + 1) * 4000]) for n in range(4)]
    assert [text.settled for text in shown] == ["", "Turn on,", "Turn on,", "Turn on,"]
    assert shown[1].tentative == "the" and shown[3].tentative == "the kitchen"


@pytest.mark.parametrize(
    ("hearings", "said"),
    [
        (("we can not go", "we can not go home", "we cannot go home today"), "we can not go home today"),
        (("I went into town", "I went into town by", "I went in to town by bus"), "I went into town by bus"),
        (("twenty five came", "twenty five came in", "25 came in late"), "twenty five came in late"),
    ],
)
def test_a_later_hearing_that_splits_or_joins_words_loses_none_and_doubles_none(
    spoken: NDArray[np.float32], hearings: tuple[str, ...], said: str
) -> None:
    live = scripted(*hearings)
    for block in list(blocks(spoken))[:4]:
        live.feed(block)
    assert f"{live.text.settled} {live.text.tentative}".strip() == said


def test_a_pause_settles_everything_and_lets_the_sound_go(spoken: NDArray[np.float32]) -> None:
    live = scripted("turn on the light")
    live.feed(spoken[:28_000])
    text = live.feed(np.zeros(20_000, np.float32))
    assert (text.settled, text.tentative) == ("turn on the light", "")
    assert len(live._sound) == 0
    silent = live.feed(np.zeros(160_000, np.float32))
    assert silent.settled == text.settled and len(live._sound) < SAMPLING_RATE


def test_who_makes_no_pause_is_cut_and_memory_stays_bounded(spoken: NDArray[np.float32]) -> None:
    live = scripted("turn on the light")
    voice = np.tile(spoken[8_000:26_000], 36)
    for start in range(0, len(voice), SAMPLING_RATE):
        live.feed(voice[start : start + SAMPLING_RATE])
        assert len(live._sound) <= (MOST_SECONDS + 1) * SAMPLING_RATE
    assert live.finish().settled.count("turn on") >= 2


def test_a_loop_that_one_hearing_wrote_is_not_settled_before_another_was_heard(
    spoken: NDArray[np.float32],
) -> None:
    voice = np.tile(spoken[8_000:26_000], 26)
    live = scripted("no no no no", "turn on the light", "turn on the light")
    assert live.feed(voice[: 21 * SAMPLING_RATE]).settled == ""
    assert live.feed(voice[21 * SAMPLING_RATE : 22 * SAMPLING_RATE]).settled == ""
    assert live.feed(voice[22 * SAMPLING_RATE : 23 * SAMPLING_RATE]).settled == "turn on the light"
    alone = scripted("no no no no")
    assert alone.feed(voice[: 29 * SAMPLING_RATE]).settled == "no no no no", "no sound waits for ever"


def test_chinese_is_in_one_script_whatever_each_hearing_is_in(spoken: NDArray[np.float32]) -> None:
    voice, pause = spoken[BLOCK:28_000], np.zeros(20_000, np.float32)
    heard = ("這 個", "这 个 问 题", "这 个 问 题", "我 们 说 话", "我 們 說 話")
    live = scripted(*heard, language="zh")
    assert live.feed(voice[:8_000]).tentative == "這個"
    assert live.feed(voice[8_000:]).settled == "这个", "two hearings agree in whichever script"
    live.feed(pause)
    assert live.feed(voice).tentative == "我们说话"
    assert live.feed(pause).settled == live.finish().settled == "这个问题我们说话"
    assert [segment.text for segment in live.segments] == ["这个问题", "我们说话"]
    assert [word.text for word in live.segments[1].words] == list("我们说话")
    taiwan = scripted("软 件", language="zh", script="taiwan")
    assert taiwan.feed(voice).tentative == "軟體"
    japanese = scripted("国 会", language="ja", script="traditional")
    assert japanese.feed(voice).tentative == "国会"


def test_a_hearing_without_words_leaves_the_language_as_it_was(spoken: NDArray[np.float32]) -> None:
    live = scripted("今 天", "今 天 好", "", language="zh")
    shown = [live.feed(spoken[BLOCK + n * 4000 : BLOCK + (n + 1) * 4000]) for n in range(3)]
    assert [text.settled for text in shown] == ["", "今天", "今天"]
    assert live.finish().settled == "今天" and live.language == "zh"


def test_silence_asks_nobody_and_says_nothing() -> None:
    def hear(_sound: NDArray[np.float32]) -> tuple[Sequence[Word], str]:
        raise AssertionError("silence was shown to the model")

    live = LiveTranscript(hear)
    live.feed(np.zeros(SAMPLING_RATE, np.float32))
    assert live.finish().settled == "" and live.segments == ()
