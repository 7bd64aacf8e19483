"""Those who speak to the page: who is heard slowly is still there."""

import base64
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.registry.store import ModelRegistry
from studio.transcription.engine import TranscribeOptions
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.transcription.model_cache import ModelCache
from studio.ui.transcribe import live_sessions
from studio.ui.transcribe.live_sessions import LiveSessions

PATIENCE_SECONDS = 60.0


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
    sound = base64.b64encode((said * 32767).astype("<i2").tobytes()).decode()
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(sessions.feed, "slow", SAMPLING_RATE, sound, is_last=False)
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
