"""Training from the command line: told while it runs, stopped with Ctrl-C, resumed, and its model used."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch

from studio.cli import demo
from tests.conftest import RunStudio
from tests.forking import Popen, forked_server
from tests.micro import make_tones
from tests.studio_process import command, end_processes_of

UNEVALUATED = ["--eval_strategy", "no", "--eval_on_start", "False", "--max_eval_samples", "2"]
ALONE = ["--replay_share", "0"]
SHORT = ["--max_steps", "2", *ALONE, *UNEVALUATED]
STEPS = 200
LONG = [
    "--max_steps",
    str(STEPS),
    "--lora_r",
    "4",
    "--per_device_train_batch_size",
    "2",
    *ALONE,
    *UNEVALUATED,
]


def run_id_of(text: str) -> str:
    found = re.search(r"^Run (\S+), in ", text, flags=re.MULTILINE)
    assert found, text
    return found[1]


SECRETS = {
    "HF_TOKEN": "hf_never-told",
    "WANDB_API_KEY": "never-told",
    "STUDIO_AUTH": "ada:never-told",
    "STUDIO_API_KEY": "never-told",
}
"""Of whoever starts a run: nothing that it leaves may hold them."""


@pytest.fixture
def start_long_run(
    environ: dict[str, str], studio_home: Path, micro_model: Path, tones: Path, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`train` at work, seen past its first step; with options of `command`."""
    started: list[subprocess.Popen[str]] = []

    def start(**how: Any) -> subprocess.Popen[str]:
        what = ["train", "--base_model", str(micro_model), "--train_data", str(tones), *LONG]
        started.append(command(what, {**environ, **SECRETS}, studio_home, tmp_path, **how))
        events = studio_home / "runs"
        while not any('"kind": "step"' in path.read_text("utf-8") for path in events.glob("*/events.jsonl")):
            assert started[0].poll() is None, (tmp_path / "stderr").read_text("utf-8")
            time.sleep(0.2)
        return started[0]

    yield start
    started[0].kill()
    started[0].wait()


def test_the_tour_sizes_trains_and_listens(run_studio: RunStudio, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shorter recipe: what the tour's own makes of the model is told in `browser/test_story.py`."""
    short = {"max_steps": 1, "max_eval_samples": 2, "generation_max_length": 20}
    short |= {"replay_share": 0.0, "capability_check": False, "per_device_train_batch_size": 2}
    monkeypatch.setattr(demo, "RECIPE", replace(demo.RECIPE, **short))
    done = run_studio("demo", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["model"]) == ("finished", "demo-tour")
    assert [point["step"] for point in answer["evaluations"]] == [0, 1]
    assert len(answer["heard"]) == 3 and all(row["reference"] and row["base"] for row in answer["heard"])
    told = (
        "1. Estimate",
        "2. Train",
        "\nfinished ",
        "\n   WER: ",
        "3. Transcribe",
        "\n   base ",
        "\n   adapter ",
    )
    places = [done.stderr.find(words) for words in told]
    assert -1 not in places and places == sorted(places), done.stderr


def test_ctrl_c_saves_a_checkpoint_and_resume_ends_the_run(
    start_long_run: Callable[..., subprocess.Popen[str]], run_studio: RunStudio, tmp_path: Path
) -> None:
    long_run = start_long_run()
    long_run.send_signal(signal.SIGINT)
    assert long_run.wait(120) == 130
    told = (tmp_path / "stderr").read_text("utf-8")
    assert "Traceback" not in told
    run_id = run_id_of(told)
    assert f"runs resume {run_id}" in told

    listed = json.loads(run_studio("runs", "--json").stdout)
    assert [(run["run_id"], run["state"], run["can_resume"]) for run in listed] == [(run_id, "stopped", True)]

    resumed = run_studio("runs", "resume", run_id, "--json")
    assert resumed.returncode == 0, resumed.stderr
    answer = json.loads(resumed.stdout)
    assert answer["state"] == "finished" and answer["step"] == STEPS and answer["model"]


def test_a_killed_worker_is_followed_by_one_that_takes_less_memory_and_no_secret_is_told(
    start_long_run: Callable[..., subprocess.Popen[str]], popen: Popen, studio_home: Path, tmp_path: Path
) -> None:
    long_run = start_long_run(**forked_server(popen))
    end_processes_of(studio_home)
    assert long_run.wait(240) == 0
    told = (tmp_path / "stderr").read_text("utf-8")
    assert "was killed" in told and "per_device_train_batch_size 2 → 1" in told
    assert "gradient_accumulation_steps 1 → 2" in told
    left = {str(path): path.read_bytes() for path in studio_home.rglob("*") if path.is_file()}
    left |= {"stdout": long_run.communicate()[0].encode(), "stderr": told.encode()}
    assert len(left) > 20 and [name for name, data in left.items() if b"never-told" in data] == []


def test_sounds_named_from_the_working_directory_are_found_by_the_check_and_the_run(
    run_studio: RunStudio, mute_model: Path, tmp_path: Path
) -> None:
    """The layout of Whisper-Finetune: lists in a folder, commands given from the folder above it."""
    lists = {}
    for name, seconds in (("train", 1.0), ("test", 1.5)):
        list_of = make_tones(tmp_path / "dataset" / name, count=4, seconds=seconds)
        rows = [json.loads(line) for line in list_of.read_text("utf-8").splitlines()]
        list_of.unlink()
        rows = [{**row, "audio": {"path": f"dataset/{name}/{row['audio']}"}} for row in rows]
        silence = {**rows[0], "text": "", "sentences": []}
        lists[name] = f"dataset/{name}.json"
        (tmp_path / lists[name]).write_text("".join(json.dumps(row) + "\n" for row in [*rows, silence]))
    foreign = json.dumps({"audio": "dataset/test/tone0.wav", "text": "x", "language": "de"})
    (tmp_path / "dataset" / "other.json").write_text(foreign)
    assert run_studio("check-data", lists["train"]).returncode == 0
    what = ["--base_model", mute_model, "--train_data", lists["train"], "--test_data", lists["test"]]
    others = ["--other_languages_data", "dataset/other.json", "--generation_max_length", "6"]
    done = run_studio("train", *what, *others, "--max_steps", "2", "--capability_check", "False")
    assert done.returncode == 0, done.stderr
    assert "also trained on" not in done.stderr
    shared = run_studio("train", *what[:-1], lists["train"], *SHORT[:-2])
    assert shared.returncode == 0, shared.stderr
    assert "5 of 5 evaluation clips are also trained on: tone0.wav" in shared.stderr


def test_a_command_of_whisper_finetune_runs_as_it_is(
    run_studio: RunStudio, mute_model: Path, demo_speech: Path, tmp_path: Path
) -> None:
    done = run_studio(
        *("train", f"--base_model={mute_model}", "--train_data", demo_speech / "train.jsonl"),
        *("--test_data", demo_speech / "validation.jsonl", "--output_dir", tmp_path / "out"),
        *("--warmup_steps=1", "--logging_steps", "1", "--eval_steps", "1000", "--save_steps", "1000"),
        *("--num_workers", "0", "--learning_rate", "1e-3", "--min_audio_len", "0.5", "--max_audio_len", "30"),
        *("--use_adalora", "False", "--fp16", "True", "--use_8bit=False", "--timestamps", "False"),
        *("--use_compile=False", "--local_files_only", "True", "--num_train_epochs", "1"),
        *("--language", "English"),
        *("--task", "transcribe", "--per_device_train_batch_size", "4", "--per_device_eval_batch_size", "4"),
        *("--gradient_accumulation_steps", "1", "--push_to_hub", "False", "--save_total_limit", "2"),
        *("--max_steps", "2", "--max_eval_samples", "2", "--capability_check", "False"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()
    assert torch.cuda.is_available() or "fp16 needs a GPU: this run calculates in fp32." in done.stderr


def test_a_command_of_a_lora_script_runs_as_it_is_and_its_model_transcribes(
    run_studio: RunStudio, demo_speech: Path, tmp_path: Path
) -> None:
    done = run_studio(
        *("train", "--model_name_or_path", "demo", "--train_file", demo_speech / "train.jsonl"),
        *("--validation_file", demo_speech / "validation.jsonl", "--max_train_samples", "2"),
        *("--lora_r", "4", "--lora_alpha", "8", "--lora_dropout", "0.0", "--num_train_epochs", "1"),
        *("--gradient_checkpointing", "--use_wandb", "False", "--wandb_project", "nothing", "--json"),
        *("--run-name", "lora-script", *SHORT),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model"] == "lora-script"

    clip = json.loads((demo_speech / "test.jsonl").read_text("utf-8").splitlines()[0])
    audio = demo_speech / (clip.get("audio_path") or clip["audio"]["path"])
    outcome = run_studio(
        *("transcribe", "--model", "lora-script", audio, "--timestamps", "word"),
        *("--format", "srt,vtt,tsv,json,txt", "--output_dir", "captions", "--output_file", "results.json"),
    )
    assert outcome.returncode == 0, outcome.stderr
    assert len(list((tmp_path / "captions").iterdir())) == 5
    (row,) = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert row["model"] == "lora-script" and row["error"] is None

    renamed = run_studio("models", "rename", "lora-script", "commands", "--json")
    assert renamed.returncode == 0 and json.loads(renamed.stdout)["id"] == "commands", renamed.stderr
    asked = ("--models", "demo,commands", "--data", "demo", "--max_samples", "4", "--json")
    compared = run_studio("evaluate", *asked)
    assert compared.returncode == 0, compared.stderr
    result = json.loads(compared.stdout)
    assert [row["id"] for row in result["models"]] == ["demo", "commands"]
    assert result["comparisons"][0]["metric"] in ("wer", "cer") and len(result["utterances"]) == 8
    assert run_studio("models", "delete", "commands", "--yes").returncode == 0
    assert run_studio("models", "show", "commands").returncode == 2


def test_a_studio_writes_into_the_home_that_it_was_given_and_no_other(
    run_studio: RunStudio,
    studio_home: Path,
    micro_model: Path,
    mute_model: Path,
    tones: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, table = tmp_path / "other", tmp_path / "packed" / "train.parquet"
    monkeypatch.setenv("STUDIO_HOME", str(other))
    rows = [json.loads(line) for line in tones.read_text("utf-8").splitlines()]
    sounds = [{"bytes": (tones.parent / row["audio"]).read_bytes(), "path": row["audio"]} for row in rows]
    table.parent.mkdir()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(
            [{"audio": sound, "text": row["text"]} for sound, row in zip(sounds, rows, strict=True)]
        ),
        table,
    )
    what = ["--base_model", micro_model, "--train_data", table.parent]

    def copied() -> list[str]:
        return [path.name for path in (studio_home / "cache" / "datasets").glob("*/*")]

    planned = run_studio("train", "--plan", *what)
    assert "Clips listed (unchecked): 11" in planned.stdout and copied() == ["train--first-20000"], (
        planned.stderr
    )
    for words in (
        ["train", *what, *SHORT],
        ["check-data", "--train_data", table.parent],
        ["evaluate", "--models", mute_model, "--data", table, "--max_samples", "2"],
    ):
        done = run_studio(*words)
        assert done.returncode == 0, done.stderr
    assert {"train", "train--first-20000"} <= set(copied()) and not other.exists()
