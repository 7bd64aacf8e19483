"""Whole runs on the micro model: what they leave behind, and that a resumed one equals an unbroken one."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from studio.errors import (
    AdapterMismatchError,
    ConfigError,
    ManifestError,
    RunError,
    StorageError,
    StudioError,
)
from studio.files import read_json, require_free_space
from studio.options.arguments import read_config
from studio.options.training import TrainingConfig
from studio.training.checkpoints import last_checkpoint
from studio.training.events import EventLog
from studio.training.record import evaluations
from studio.training.retry import OUT_OF_MEMORY, Shortage, plan_retry
from studio.training.stop import StopSignal
from studio.translation import message_from
from tests.micro import make_tones
from tests.unit.training.attempts import (
    Runs,
    StopAtStep,
    assert_same_weights,
    attempt,
    kinds,
    losses,
    told,
    weights_of,
)
from tests.unit.training.conftest import Finished


def test_the_time_of_a_run_is_that_of_all_its_attempts_and_the_time_left_has_the_evaluations_to_come(
    runs: Runs,
) -> None:
    run = runs.new(num_train_epochs=3.0)
    first = runs.carry_out(run, stop_at=5)
    noted = told(run, "spent")[-1]
    assert noted["training_seconds"] == first.seconds["training"]
    assert first.seconds["training"] > 0 and first.seconds["evaluating"] > 0
    events = [json.loads(line) for line in run.events.read_text(encoding="utf-8").splitlines()]
    longer = [{**event, "seconds": 1000} if event["kind"] == "eval" else event for event in events]
    run.events.write_text("".join(f"{json.dumps(event)}\n" for event in longer), encoding="utf-8")
    EventLog(run.events).write("spent", training_seconds=1000.0, evaluating_seconds=500.0)  # a slow attempt
    before = len(told(run, "step"))
    last = runs.carry_out(run)
    left = told(run, "step")[before]
    assert left["step"] == 6 and 1000 < left["eta_seconds"] < 2000
    assert last.seconds["training"] > 1000 and last.seconds["evaluating"] > 500
    card = runs.registry.get(str(last.model_id))
    assert card.card["seconds"]["training"] == last.seconds["training"] and card.path is not None
    assert "Time: 16 min" in (card.path / "README.md").read_text()


def test_a_run_leaves_an_adapter_with_its_card(finished: Finished, micro_model: Path) -> None:
    runs, _run, outcome = finished
    assert (outcome.state, outcome.model_id) == ("finished", "my-tones")
    spec = runs.registry.get("my-tones")
    assert spec.problem is None and spec.base_model == str(micro_model)
    folder = runs.settings.models / "my-tones"
    assert {"adapter_config.json", "adapter_model.safetensors", "model.json"} <= {
        file.name for file in folder.iterdir()
    }
    assert not list(folder.glob("*.bin")), "no pickles in a model"
    card = spec.card
    assert card["data"]["train_samples"] == 11 and card["data"]["eval_samples"] == 1
    assert card["metrics"]["base"]["wer"] >= 0 and card["metrics"]["final"]["step"] > 0
    assert card["languages"] == ["en"] and card["config"]["lora_r"] == 4
    assert card["versions"]["torch"] and card["base_revision"].startswith("sha256:")
    generation = read_json(folder / "generation_config.json")
    assert (generation["language"], generation["task"]) == ("en", "transcribe")


def test_predicted_and_measured_memory_stand_in_events_result_and_card(finished: Finished) -> None:
    runs, run, outcome = finished
    figures = told(run, "memory")
    predicted, measured = figures[-1]["predicted"], figures[-1]["measured"]
    labels = len(" sharp") + 4
    assert predicted["label_length"] == labels, "the longest word, language, task, no times, end"
    assert 8 * 10**6 < predicted["tensor_bytes"] < 10**9
    assert measured["device"] == "cpu" or measured["allocated_bytes"] > 0
    assert measured["device"] != "cpu" or ("device_bytes" not in predicted and measured["process_bytes"] > 0)
    peaks = [event["measured"]["process_bytes"] or event["measured"]["reserved_bytes"] for event in figures]
    assert peaks == sorted(peaks)
    card = runs.registry.get("my-tones").card
    assert card["memory"]["predicted"] == outcome.to_json({})["memory"]["predicted"] == predicted


def test_events_tell_the_whole_story_in_order(finished: Finished) -> None:
    _runs, run, _outcome = finished
    phases = [event["phase"] for event in told(run, "phase")]
    assert phases[:4] == ["reading_data", "loading_model", "reading_data", "training"]
    assert phases[-1] == "saving"
    assert [event["step"] for event in told(run, "eval")] == [0, 3, 6]
    steps = told(run, "step")
    assert [event["step"] for event in steps] == [1, 2, 3, 4, 5, 6]
    assert all(event["loss"] > 0 and event["max_steps"] == 6 for event in steps)
    assert steps[-1]["eta_seconds"] == 0
    assert [event["step"] for event in told(run, "checkpoint")] == [3, 6]
    progress = [(event["done"], event["total"]) for event in told(run, "eval_progress")]
    assert progress[:2] == [(0, 1), (1, 1)]
    for line in run.events.read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["v"] == 1, "one object a line"


FEW = {"max_train_samples": 5}
IN_TWO = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
RANDOM = {"lora_dropout": 0.05}
"""Its numbers have to go on where they were."""


@pytest.mark.parametrize(
    ("method", "times", "options"),
    [
        ("lora", 2, {**IN_TWO, **FEW, **RANDOM, "per_device_train_batch_size": 1, "short_audio": "off"}),
        ("dora", 3, {}),
        ("adalora", 2, {**IN_TWO, **RANDOM, "dataloader_num_workers": 1}),
        ("full", 2, {**FEW, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}),
        (
            "frozen_encoder",
            2,
            {**FEW, "per_device_train_batch_size": 2, "gradient_checkpointing": True, "short_audio": "off"},
        ),
    ],
)
def test_a_run_keeps_its_best_checkpoint_and_equals_one_that_was_stopped_and_resumed_more_than_once(
    method: str, times: int, options: dict[str, Any], runs: Runs
) -> None:
    changes = {"method": method, "num_train_epochs": float(times), "learning_rate": 0.05, **options}
    unbroken, broken = (runs.new(name, adapter_strength=1.0, **changes) for name in ("unbroken", "broken"))
    outcome = runs.carry_out(unbroken)
    best = min(evaluations(unbroken).values(), key=lambda point: (point["wer"], point["loss"]))
    assert outcome.state == "finished" and outcome.metrics["best_step"] == best["step"]
    kept = runs.registry.get(str(outcome.model_id))
    assert kept.problem is None and kept.path is not None
    assert_same_weights(kept.path, unbroken.checkpoints / f"checkpoint-{best['step']}")
    stops = ((2, 2), (4, 3), (8, 8))  # within an epoch, at its end before its evaluation
    for asked, reached in stops[:times]:
        stopped = runs.carry_out(broken, stop_at=asked)
        assert (stopped.state, stopped.step) == ("stopped", reached)
    assert runs.carry_out(broken).state == "finished"
    assert_same_weights(*(run.checkpoints / f"checkpoint-{3 * times}" for run in (unbroken, broken)))
    assert evaluations(unbroken) == evaluations(broken)
    assert losses(unbroken) == losses(broken)
    assert kinds(broken).count("machine") == 1 and "warning" not in kinds(broken)


def test_a_resumption_on_another_machine_and_over_another_list_says_each_once(
    runs: Runs, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path, count=12)
    rows = manifest.read_text(encoding="utf-8")
    manifest.write_text("".join(rows.splitlines(keepends=True)[:11]), encoding="utf-8")
    run = runs.new(train_data=str(manifest))
    runs.carry_out(run, stop_at=2)
    manifest.write_text(rows, encoding="utf-8")
    threads = torch.get_num_threads()
    try:
        attempt(replace(runs.settings, threads=threads + 1), run, StopAtStep(run, 3))
    finally:
        torch.set_num_threads(threads)
    runs.carry_out(run, stop_at=4)
    machine, data = told(run, "warning")
    assert f"threads {threads} → {threads + 1}" in machine["text"]
    assert machine["template"].format(**machine["values"]) == machine["text"]
    assert data["text"].startswith(f"{manifest} has changed since the run was stopped")


def test_a_stop_during_an_evaluation_makes_up_for_it_when_resumed(runs: Runs) -> None:
    unbroken = runs.finished("unbroken", **RANDOM)
    best = read_json(unbroken.checkpoints / "checkpoint-6" / "trainer_state.json")["best_global_step"]
    broken = runs.new("broken", **RANDOM)
    for step in (3, 6):
        stopped = attempt(runs.settings, broken, StopAtStep(broken, step, during_evaluation=True))
        assert (stopped.state, stopped.step) == ("stopped", step)
    outcome = runs.carry_out(broken)
    assert outcome.state == "finished" and outcome.metrics["best_step"] == best
    assert evaluations(unbroken) == evaluations(broken)
    assert_same_weights(unbroken.checkpoints / "checkpoint-6", broken.checkpoints / "checkpoint-6")


def test_a_stop_before_the_first_step_resumes_from_the_start(runs: Runs) -> None:
    run = runs.new()
    run.stop_request.touch()
    assert attempt(runs.settings, run, StopSignal(run.stop_request)).state == "stopped"
    assert last_checkpoint(run.checkpoints) is None
    run.stop_request.unlink()
    assert runs.carry_out(run).state == "finished"


def test_a_checkpoint_that_was_cut_off_is_passed_over(runs: Runs) -> None:
    changes = {"save_steps": 1, "save_total_limit": 3}
    unbroken, broken = runs.finished("unbroken", **changes), runs.new("broken", **changes)
    runs.carry_out(broken, stop_at=5)
    whole = broken.checkpoints / "checkpoint-5"
    for missing in ("trainer_state.json", "optimizer.pt", "adapter_model.safetensors"):
        torn = broken.checkpoints / "checkpoint-6"
        shutil.copytree(whole, torn)
        (torn / missing).unlink()
        assert last_checkpoint(broken.checkpoints) == whole
        shutil.rmtree(torn)
    shutil.copytree(whole, broken.checkpoints / "checkpoint-6")
    state = broken.checkpoints / "checkpoint-6" / "trainer_state.json"
    state.write_text(state.read_text(encoding="utf-8")[:40], encoding="utf-8")
    assert last_checkpoint(broken.checkpoints) == whole
    assert runs.carry_out(broken).state == "finished"
    assert_same_weights(unbroken.checkpoints / "checkpoint-6", broken.checkpoints / "checkpoint-6")


def test_a_run_killed_after_its_model_was_kept_makes_no_second_one(runs: Runs) -> None:
    run = runs.new(max_steps=1, run_name="once")
    assert runs.carry_out(run).model_id == "once"
    assert runs.carry_out(run).model_id == "once"
    assert [folder.name for folder in runs.settings.models.iterdir()] == ["once"]


def test_gradient_accumulation_learns_like_a_larger_batch(runs: Runs, tmp_path: Path) -> None:
    tones = make_tones(tmp_path / "clips", count=9, text="labels of one length")
    same = {"max_train_samples": 8, "lora_dropout": 0.0, "eval_strategy": "no"}
    same |= {"num_train_epochs": 1.0, "short_audio": "off"}  # whose batches are of clips of one length
    ends = {}
    for batch, accumulated in ((4, 1), (2, 2)):
        sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulated}
        run = runs.finished(f"batch-{batch}", train_data=str(tones), **sizes, **same)
        ends[batch] = weights_of(run.checkpoints / "checkpoint-2")
    for name, tensor in ends[4].items():
        assert torch.allclose(tensor, ends[2][name], atol=1e-4), name


def test_short_clips_come_in_the_same_steps_when_batches_became_smaller(runs: Runs) -> None:
    whole, halved = runs.finished("whole"), runs.new("halved")
    config = TrainingConfig(per_device_train_batch_size=4)
    assert plan_retry(halved, config, Shortage(OUT_OF_MEMORY, "training", 1)) is not None
    runs.carry_out(halved)
    assert losses(halved) == pytest.approx(losses(whole), abs=1e-4)


def test_the_same_clips_have_times_and_are_padded_when_batches_became_smaller(
    runs: Runs, tmp_path: Path
) -> None:
    tones = make_tones(tmp_path / "clips", count=10)
    rows = [json.loads(line) for line in tones.read_text("utf-8").splitlines()]
    for row in rows:
        row["sentences"] = [{"start": 0.0, "end": 1.0, "text": row["text"]}]
    tones.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    same = {"train_data": str(tones), "test_data": str(tones), "eval_strategy": "no"}
    same |= {"lora_dropout": 0.0, "padded_share": 0.5}
    whole = runs.finished("whole", per_device_train_batch_size=6, **same)
    halved = runs.new("halved", per_device_train_batch_size=6, **same)
    for _ in range(2):  # to a batch of three, and of one
        shortage = Shortage(OUT_OF_MEMORY, "training", 1)
        assert plan_retry(halved, read_config(halved.config), shortage) is not None
    runs.carry_out(halved)
    assert losses(halved) == pytest.approx(losses(whole), abs=1e-4)


def test_without_evaluation_the_last_step_is_kept(runs: Runs) -> None:
    run = runs.new(eval_strategy="no", max_steps=4)
    outcome = runs.carry_out(run)
    assert outcome.state == "finished" and outcome.metrics["best_step"] == 4
    assert "eval" not in kinds(run)


def test_a_run_reaches_its_learning_rate_whatever_the_warm_up(runs: Runs) -> None:
    run = runs.finished(
        eval_strategy="no", max_steps=3, warmup_steps=3.0, lr_scheduler_type="polynomial", learning_rate=0.01
    )
    assert [step["learning_rate"] for step in told(run, "step")] == [0, 0.005, 0.01]
    (warning,) = told(run, "warning")
    assert warning["text"].startswith("warmup_steps 3 leaves no step of 3")


def test_evaluation_by_steps_ends_with_one(runs: Runs) -> None:
    run = runs.finished(eval_strategy="steps", eval_steps=2, max_steps=5)
    assert list(evaluations(run)) == [2, 4, 5]


def test_a_file_that_cannot_be_read_is_set_aside_with_its_line(runs: Runs, tmp_path: Path) -> None:
    manifest = str(make_tones(tmp_path / "clips", count=8))
    (tmp_path / "clips" / "tone3.wav").write_text("this is text", encoding="utf-8")
    run = runs.finished(train_data=manifest, test_data=manifest, num_train_epochs=1.0)
    (data,) = told(run, "data")
    assert (data["train_samples"], data["skipped_count"]) == (7, 2)
    for row in data["skipped"]:
        assert row["line"] == 4 and "tone3.wav" in row["reason"]
        assert str(message_from(row["template"], row["values"], "")) == row["reason"]


def test_the_base_says_which_language_it_hears_where_no_row_names_one(runs: Runs, tmp_path: Path) -> None:
    manifest = make_tones(tmp_path / "clips", count=4, language=None)
    (data,) = told(runs.finished(train_data=str(manifest), max_steps=1, eval_strategy="no"), "data")
    assert data["detected_language"] and data["languages"] == [data["detected_language"]]


def test_of_chinese_it_is_kept_what_is_wrong_in_one_script(runs: Runs, tmp_path: Path) -> None:
    manifest = str(make_tones(tmp_path / "clips", count=4, text="我们说话", language="zh"))
    changes = {"train_data": manifest, "test_data": manifest, "eval_on_start": True}
    metrics = runs.carry_out(runs.new(num_train_epochs=1.0, **changes)).metrics
    assert all("cer_in_one_script" in metrics[which] for which in ("base", "final"))


def test_training_on_times_runs(runs: Runs, tmp_path: Path) -> None:
    times = [{"start": 0.0, "end": 0.4, "text": "one"}, {"start": 0.5, "end": 1.0, "text": "two"}]
    manifest = make_tones(tmp_path / "clips", count=4, sentences=times)
    runs.finished(train_data=str(manifest), timestamps=True, max_steps=2)


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
def test_an_adapter_is_trained_on_a_quantised_base(quantization: str, runs: Runs) -> None:
    """And evaluated before its first step, which must leave the weights as training needs them."""
    runs.finished(quantization=quantization, gradient_checkpointing=True, max_steps=2, eval_on_start=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_half_precision_without_a_gpu_becomes_fp32_with_a_line(runs: Runs) -> None:
    run = runs.finished(precision="fp16", max_steps=1, eval_strategy="no")
    assert [event["text"] for event in told(run, "warning")] == [
        "fp16 needs a GPU: this run calculates in fp32."
    ]


def test_output_dir_gets_a_copy_and_its_own_copies_are_replaced(runs: Runs, tmp_path: Path) -> None:
    target = tmp_path / "out" / "model"
    for name in ("one", "two"):
        runs.finished(name, max_steps=1, output_dir=str(target))
        assert read_json(target / "model.json")["run_id"] == name


def _refused(runs: Runs, error: type[StudioError], sentence: str, **changes: Any) -> None:
    with pytest.raises(error, match=sentence):
        runs.carry_out(runs.new(**changes))
    assert not list(runs.settings.models.iterdir()), "nothing is left half done"


@pytest.mark.parametrize(
    ("name", "card"),
    [
        *(("letter.txt", card) for card in (None, "{}", "[" * 9, '{"run_id": "one"}')),
        *(("config.json", card) for card in (None, "{}", "[]", "{")),  # a model, but no run's
    ],
)
def test_an_output_dir_with_something_else_in_it_is_refused(
    runs: Runs, tmp_path: Path, name: str, card: str | None
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("{}", encoding="utf-8")
    if card:
        (folder / "model.json").write_text(card, encoding="utf-8")
    _refused(runs, ConfigError, "is not empty", output_dir=str(folder))
    assert (folder / name).is_file()


def test_an_output_dir_that_cannot_be_written_is_refused_before_anything_is_trained(
    runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    _refused(runs, StorageError, "Cannot write", output_dir=str(tmp_path / "file" / "out"))
    runs.finished("one", max_steps=1, output_dir=str(tmp_path / "new" / "folders" / "out"))
    assert [path.name for path in (tmp_path / "new" / "folders").iterdir()] == ["out"]


def test_an_output_dir_in_the_home_is_refused(runs: Runs) -> None:
    _refused(runs, ConfigError, "studio's own folder", output_dir=str(runs.settings.models / "mine"))


@pytest.mark.parametrize("package", ["tensorboard", "wandb", "trackio"])
def test_a_missing_logger_is_named(package: str, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    _refused(runs, ConfigError, f"pip install {package}", report_to=package)


def test_a_missing_manifest_is_named(runs: Runs) -> None:
    _refused(runs, ManifestError, "none.jsonl", train_data="none.jsonl")


@pytest.mark.parametrize(
    ("row", "error", "sentence"),
    [
        ({"language": "klingonish"}, ManifestError, r"line \d: 'klingonish'"),
        ({"text": "x" * 500}, ManifestError, "505 tokens, and the model takes 448"),
    ],
    ids=["unknown language", "labels that are all too long"],
)
def test_rows_that_cannot_be_taught_are_refused(
    row: dict[str, str], error: type[StudioError], sentence: str, runs: Runs, tmp_path: Path
) -> None:
    _refused(runs, error, sentence, train_data=str(make_tones(tmp_path / "clips", count=4, **row)))


def test_an_adapter_is_no_base(runs: Runs) -> None:
    runs.finished("first", max_steps=1, run_name="first")
    with pytest.raises(AdapterMismatchError, match="first is an adapter"):
        runs.carry_out(runs.new("second", base_model="first"))


def test_a_full_model_is_whole_and_can_be_trained_on(runs: Runs) -> None:
    runs.finished("first", method="full", max_steps=2, run_name="whole")
    runs.finished("second", base_model="whole", max_steps=2, run_name="on-top")
    assert runs.registry.get("on-top").base_model == "whole"


def test_too_little_space_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="this needs"):
        require_free_space(tmp_path, 10**18)


def test_a_loss_that_is_no_number_stops_the_run_and_names_step_and_clips(
    runs: Runs, micro_model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(micro_model, broken)
    weights = load_file(broken / "model.safetensors")
    weights["model.decoder.layer_norm.weight"][:] = torch.inf
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    run = runs.new(base_model=str(broken), save_steps=1)
    with pytest.raises(RunError, match=r"nan in step 1, which learns from .*tone\d\.wav \(line"):
        runs.carry_out(run)
    assert last_checkpoint(run.checkpoints) is None
