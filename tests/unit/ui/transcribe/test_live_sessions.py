"""Those who speak to the page: who is heard slowly is still there."""

import base64
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.registry.store import ModelRegistry
from studio.transcription.engine import TranscribeOptions
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.transcription.model_cache import ModelCache
from studio.transcription.window_model import Search, Written
from studio.ui.transcribe import live_sessions
from studio.ui.transcribe.live_sessions import LiveSessions
from tests.unit.transcription.scripted_model import TOKENS, Lent, ScriptedModel, at

PATIENCE_SECONDS = 60.0


class Loaded(Lent):
    """In memory for good."""

    is_spoiled = False


@pytest.mark.parametrize(
    ("language", "longest_wait_seconds", "blocks", "words"),
    [
        ("en", math.inf, 8, {"five"}),
        ("en", 0.0, 8, {"five"}),
        ("en", 0.0, 14, {"one"}),
        ("auto", math.inf, 8, {"one", "two"}),
    ],
    ids=["as a file", "words had to wait once", "words had to wait twice", "two languages"],
)
def test_after_stop_the_text_is_what_a_file_would_give_if_that_can_be(
    language: str,
    longest_wait_seconds: float,
    blocks: int,
    words: set[str],
    demo_model: Path,
    demo_speech: Path,
    tmp_path: Path,
) -> None:
    """Two voices in turn, a louder one at the end; more than one beam is a file's."""

    def write(samples: NDArray[np.float32], prompt: list[int], search: Search) -> Written:
        word = 4 if search.num_beams > 1 else int(TOKENS.languages["zh"] in prompt)
        return Written([at(0), word, at(len(samples) / SAMPLING_RATE)], -0.1)

    model = ScriptedModel(write)
    model.language = lambda samples: {"zh": 0.99} if np.abs(samples).max() > 0.2 else {"en": 0.99}
    registry = ModelRegistry(tmp_path / "models", demo=demo_model, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=300, load=lambda *_: Loaded(model))
    said = np.pad(read_audio(demo_speech / "samples" / "kitchen-light.flac"), (0, SAMPLING_RATE))
    said /= np.abs(said).max()
    sessions = LiveSessions(engines, lambda: tmp_path / "live", longest_wait_seconds)
    sessions.begin("me", "demo", TranscribeOptions(language))
    for number in range(blocks):
        block = said * (0.1 if number < 4 else 0.4)
        shown = sessions.feed("me", SAMPLING_RATE, encoded(block), is_last=number == blocks - 1)
        assert number == blocks - 1 or "five" not in shown.settled
    spoken = sessions.end("me")
    assert spoken and spoken.transcript.text == shown.settled
    assert (set(shown.settled.split()), spoken.transcript.engine) == (words, "live")
    assert spoken.transcript.duration_seconds == shown.heard_seconds == blocks * len(said) / SAMPLING_RATE
    engines.close()


def encoded(samples: NDArray[np.float32]) -> str:
    """As the page sends it."""
    return base64.b64encode((samples * 32767).astype("<i2").tobytes()).decode()


def test_who_waits_for_a_slow_model_is_not_taken_for_gone(
    demo_model: Path, mute_model: Path, demo_speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []
    is_waiting, goes_on = threading.Event(), threading.Event()

    def load(folder: Path, *_kind: str) -> LoadedBase:
        if folder in loaded:
            is_waiting.set()
            assert goes_on.wait(PATIENCE_SECONDS)
        loaded.append(folder)
        return load_base(folder, device="cpu")

    registry = ModelRegistry(tmp_path / "models", demo=demo_model, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=300, load=load)
    sessions = LiveSessions(engines, lambda: tmp_path / "live")
    sessions.begin("slow", "demo", TranscribeOptions("en"))
    engines.unload_all()
    monkeypatch.setattr(live_sessions, "IDLE_SECONDS", 0.0)
    said = read_audio(demo_speech / "samples" / "kitchen-light.flac")[: 2 * SAMPLING_RATE]
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(sessions.feed, "slow", SAMPLING_RATE, encoded(said), is_last=False)
        assert is_waiting.wait(PATIENCE_SECONDS)
        sessions.begin("other", str(mute_model), TranscribeOptions("en"))
        goes_on.set()
        assert "turn on" in heard.result(PATIENCE_SECONDS).tentative
    assert sessions.knows("slow")
    sessions.begin("last", "demo", TranscribeOptions("en"))
    assert not sessions.knows("slow"), "nothing came of it since"
    engines.close()


def test_who_has_left_without_a_word_is_forgotten_with_their_sound(
    demo_model: Path, demo_speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_sessions, "IDLE_SECONDS", 0.1)
    registry = ModelRegistry(tmp_path / "models", demo=demo_model, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=300)
    sessions = LiveSessions(engines, lambda: tmp_path / "live")
    sessions.begin("gone", "demo", TranscribeOptions("en"))
    sessions.feed("gone", SAMPLING_RATE, base64.b64encode(bytes(3200)).decode(), is_last=False)
    until = time.monotonic() + PATIENCE_SECONDS
    while sessions.knows("gone") or list((tmp_path / "live").iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)
    engines.close()
