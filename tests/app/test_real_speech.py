"""A real Whisper learns real speech: a short run of what the README's table measures in full."""

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.dataset.audio import SAMPLING_RATE, read_audio
from tests.conftest import RunStudio


@pytest.mark.timeout(900)
def test_a_few_mandarin_clips_teach_whisper_tiny_simplified_characters(
    run_studio: RunStudio, whisper_tiny: Path, real_speech: Path
) -> None:
    data = real_speech / "aishell1_zh"
    done = run_studio(
        *("train", "--base_model", whisper_tiny, "--run_name", "mandarin", "--json"),
        *("--train_data", data / "train.jsonl", "--test_data", data / "test.jsonl", "--language", "zh"),
        *("--max_train_samples", "4", "--max_eval_samples", "1", "--num_train_epochs", "1"),
        *("--short_audio", "on", "--capability_check", "False", "--replay_share", "0"),  # the story has both
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["metric"] == "cer"
    assert metrics["final"]["cer"] < metrics["base"]["cer"]

    compared = run_studio(
        *("evaluate", "--models", f"{whisper_tiny},mandarin", "--data", data / "test.jsonl"),
        *("--language", "zh", "--max_samples", "1", "--normalizer", "chinese", "--json"),
    )
    assert compared.returncode == 0, compared.stderr
    base, adapter = json.loads(compared.stdout)["models"]
    assert base["normalizer"] == "chinese" and adapter["id"] == "mandarin"
    assert adapter["n"] == base["n"] == 1


@pytest.mark.timeout(900)
def test_each_part_of_a_recording_is_written_in_the_language_that_is_spoken_there(
    run_studio: RunStudio, whisper_tiny: Path, real_speech: Path, tmp_path: Path
) -> None:
    rows = (real_speech / "aishell1_zh" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    clips = [read_audio(real_speech / "aishell1_zh" / json.loads(row)["audio"]) for row in rows[:6]]
    mandarin = np.concatenate(clips)[: 22 * SAMPLING_RATE]
    english = read_audio(next((real_speech / "jfk").glob("*.flac")))
    lesson = tmp_path / "lesson.wav"
    soundfile.write(lesson, np.concatenate([mandarin, english]), SAMPLING_RATE)
    options = ("--engine", "transformers", "--num_beams", "1", "--json")
    done = run_studio("transcribe", lesson, "--model", whisper_tiny, *options)
    assert done.returncode == 0, done.stderr
    [heard] = json.loads(done.stdout)
    spoken = [one["language"] for one in heard["segments"]]
    assert [language for language, _ in groupby(spoken)] == ["zh", "en"]
    border = next(one["start"] for one in heard["segments"] if one["language"] == "en")
    assert border == pytest.approx(22.0, abs=4.0)
    assert not heard["segments"][0]["text"].isascii()
    assert all(one["text"].isascii() for one in heard["segments"] if one["language"] == "en")
    assert "More than one language was heard" in "".join(heard["notes"])
