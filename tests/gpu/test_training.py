"""Each method trains on this machine's GPU, and what it made is heard there; skipped without one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from studio.settings import DEMO_SPEECH, PROJECT_ROOT
from tests.gpu.test_card import why_not


@pytest.fixture
def home(tmp_path: Path, sees_gpu: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of the processes that are started; skips the test where they have no GPU."""
    if reason := why_not():
        pytest.skip(reason)
    monkeypatch.setenv("STUDIO_HOME", str(tmp_path))
    return tmp_path


def studio(*words: str) -> str:
    """A command as people start it: its standard output."""
    command = [sys.executable, "-m", "studio", *words]
    done = subprocess.run(
        command,
        cwd=PROJECT_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "options",
    [
        "--method lora",
        "--method lora --quantization 8bit",
        "--method lora --quantization 4bit --gradient_checkpointing",
        "--method lora --precision fp16",
        "--method dora",
        "--method adalora --learning_rate 0.01",
        "--method full",
        "--method frozen_encoder --optim paged_adamw_8bit",
    ],
)
def test_a_run_learns_and_its_model_is_heard(options: str, home: Path) -> None:
    few = ["--max_steps", "20", "--max_eval_samples", "8", "--capability_check", "False"]
    answer = json.loads(
        studio("train", "--run_name", "made", "--eval_on_start", "--json", *few, *options.split())
    )
    assert answer["state"] == "finished" and answer["memory"]["measured"]["device"] != "cpu"
    assert answer["metrics"]["final"]["loss"] < 0.8 * answer["metrics"]["base"]["loss"]
    sound = str(DEMO_SPEECH / "samples" / "kitchen-light.flac")
    assert studio("transcribe", "--model", "made", sound).strip()


def test_faster_whisper_hears_there_or_on_the_processor_where_cublas_is_missing(home: Path) -> None:
    sound = str(DEMO_SPEECH / "samples" / "kitchen-light.flac")
    words = ("transcribe", "--model", "demo", "--engine", "faster-whisper", "--json", sound)
    (transcript,) = json.loads(studio(*words))
    assert transcript["text"]
