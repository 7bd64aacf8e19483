"""A real Whisper learns real speech: a short run of what the README's table measures in full."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunStudio


@pytest.mark.timeout(900)
def test_a_few_mandarin_clips_teach_whisper_tiny_simplified_characters(
    run_studio: RunStudio, whisper_tiny: Path, real_speech: Path
) -> None:
    data = real_speech / "aishell1_zh"
    done = run_studio(
        *("train", "--base_model", whisper_tiny, "--run_name", "mandarin", "--json"),
        *("--train_data", data / "train.jsonl", "--test_data", data / "test.jsonl", "--language", "zh"),
        *("--max_train_samples", "16", "--max_eval_samples", "4", "--num_train_epochs", "1"),
        *("--short_audio", "on", "--capability_check", "False", "--replay_share", "0"),  # the story has both
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["metric"] == "cer"
    assert metrics["final"]["cer"] < metrics["base"]["cer"]

    compared = run_studio(
        *("evaluate", "--models", f"{whisper_tiny},mandarin", "--data", data / "test.jsonl"),
        *("--language", "zh", "--max_samples", "2", "--normalizer", "chinese", "--json"),
    )
    assert compared.returncode == 0, compared.stderr
    base, adapter = json.loads(compared.stdout)["models"]
    assert base["normalizer"] == "chinese" and adapter["id"] == "mandarin"
    assert adapter["n"] == base["n"] == 2
