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
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.checkpoints import last_checkpoint
from studio.training.events import read_events
from studio.training.record import evaluations
from studio.training.stop import StopSignal
from tests.micro import make_tones
from tests.unit.training.attempts import StopAtStep, attempt, kinds, new_run, quick

METHODS = ("lora", "dora", "adalora", "full", "frozen_encoder")


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next(folder.glob("*model.safetensors")))


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert different == []


def test_a_run_leaves_an_adapter_with_its_card(settings: Settings, micro_model: Path, tones: Path) -> None:
    run = new_run(settings, quick(micro_model, tones, run_name="my tones", eval_on_start=True))
    outcome = attempt(settings, run)
    assert (outcome.state, outcome.model_id) == ("finished", "my-tones")
    registry = ModelRegistry(settings.models, demo=None, hf_cache=None)
    spec = registry.get("my-tones")
    assert spec.problem == "" and spec.base_model == str(micro_model)
    assert {"adapter_config.json", "adapter_model.safetensors", "model.json"} <= {
        file.name for file in (settings.models / "my-tones").iterdir()
    }
    assert not list((settings.models / "my-tones").glob("*.bin")), "no pickles in a model"
    card = spec.card
    assert card["data"]["train_samples"] == 11 and card["data"]["eval_samples"] == 1
    assert card["metrics"]["base"]["wer"] >= 0 and card["metrics"]["final"]["step"] > 0
    assert card["languages"] == ["en"] and card["config"]["lora_r"] == 4
    assert card["versions"]["torch"] and card["base_revision"].startswith("sha256:")
    generation = read_json(settings.models / "my-tones" / "generation_config.json")
    assert (generation["language"], generation["task"]) == ("en", "transcribe")


def test_predicted_and_measured_memory_stand_in_events_result_and_card(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(settings, quick(micro_model, tones, run_name="weighed"))
    outcome = attempt(settings, run)
    told = [event for event in read_events(run.events)[0] if event["kind"] == "memory"]
    predicted, measured = told[-1]["predicted"], told[-1]["measured"]
    labels = len(" sharp") + 4
    assert predicted["label_length"] == labels, "the longest word, language, task, no times, end"
    assert 8 * 10**6 < predicted["tensor_bytes"] < 10**9
    assert measured["device"] == "cpu" or measured["allocated_bytes"] > 0
    assert measured["device"] != "cpu" or ("device_bytes" not in predicted and measured["process_bytes"] > 0)
    peaks = [event["measured"]["process_bytes"] or event["measured"]["reserved_bytes"] for event in told]
    assert peaks == sorted(peaks)
    card = ModelRegistry(settings.models, demo=None, hf_cache=None).get("weighed").card
    assert card["memory"]["predicted"] == outcome.to_json({})["memory"]["predicted"] == predicted


def test_events_tell_the_whole_story_in_order(settings: Settings, micro_model: Path, tones: Path) -> None:
    run = new_run(settings, quick(micro_model, tones, eval_on_start=True))
    attempt(settings, run)
    events = read_events(run.events)[0]
    phases = [event["phase"] for event in events if event["kind"] == "phase"]
    assert phases[:4] == ["reading_data", "loading_model", "reading_data", "training"]
    assert phases[-1] == "saving"
    assert [event["step"] for event in events if event["kind"] == "eval"] == [0, 3, 6]
    steps = [event for event in events if event["kind"] == "step"]
    assert [event["step"] for event in steps] == [1, 2, 3, 4, 5, 6]
    assert all(event["loss"] > 0 and event["max_steps"] == 6 for event in steps)
    assert steps[-1]["eta_seconds"] == 0
    assert [event["step"] for event in events if event["kind"] == "checkpoint"] == [3, 6]
    progress = [(event["done"], event["total"]) for event in events if event["kind"] == "eval_progress"]
    assert progress[:2] == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("lora", {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "short_audio": "off"}),
        ("dora", {}),
        (
            "adalora",
            {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "dataloader_num_workers": 1},
        ),
        ("full", {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}),
        ("frozen_encoder", {"gradient_checkpointing": True, "short_audio": "off"}),
    ],
)
def test_a_run_stopped_and_resumed_three_times_equals_an_unbroken_one(
    method: str, options: dict[str, Any], settings: Settings, micro_model: Path, tones: Path
) -> None:
    config = quick(micro_model, tones, method=method, num_train_epochs=3.0, **options)
    unbroken = new_run(settings, config, "unbroken")
    assert attempt(settings, unbroken).state == "finished"
    broken = new_run(settings, config, "broken")
    for asked, reached in ((2, 2), (4, 3), (8, 8)):  # within an epoch, at its end before its evaluation
        stopped = attempt(settings, broken, StopAtStep(broken, asked))
        assert (stopped.state, stopped.step) == ("stopped", reached)
    assert attempt(settings, broken).state == "finished"
    assert_same_weights(unbroken.checkpoints / "checkpoint-9", broken.checkpoints / "checkpoint-9")
    assert evaluations(unbroken) == evaluations(broken)
    losses = [
        {event["step"]: event["loss"] for event in read_events(run.events)[0] if event["kind"] == "step"}
        for run in (unbroken, broken)
    ]
    assert losses[0] == losses[1]
    assert kinds(broken).count("machine") == 1 and "warning" not in kinds(broken)


def test_a_resumption_on_another_machine_says_that_numbers_may_differ(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(settings, quick(micro_model, tones))
    attempt(settings, run, StopAtStep(run, 2))
    threads = torch.get_num_threads()
    try:
        attempt(replace(settings, threads=threads + 1), run)
    finally:
        torch.set_num_threads(threads)
    (warning,) = [event for event in read_events(run.events)[0] if event["kind"] == "warning"]
    assert f"threads {threads} → {threads + 1}" in warning["text"]
    assert warning["template"].format(**warning["values"]) == warning["text"]


def test_a_stop_during_an_evaluation_makes_up_for_it_when_resumed(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    config = quick(micro_model, tones)
    unbroken = new_run(settings, config, "unbroken")
    attempt(settings, unbroken)
    for step in (3, 6):
        broken = new_run(settings, config, f"broken-{step}")
        first = attempt(settings, broken, StopAtStep(broken, step, during_evaluation=True))
        assert (first.state, first.step) == ("stopped", step)
        outcome = attempt(settings, broken)
        assert outcome.state == "finished"
        assert evaluations(unbroken) == evaluations(broken)
        assert outcome.metrics["best_step"] == read_best(unbroken.checkpoints)
        assert_same_weights(unbroken.checkpoints / "checkpoint-6", broken.checkpoints / "checkpoint-6")


def read_best(checkpoints: Path) -> Any:
    return read_json(checkpoints / "checkpoint-6" / "trainer_state.json")["best_global_step"]


def test_a_stop_before_the_first_step_resumes_from_the_start(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(settings, quick(micro_model, tones))
    run.stop_request.touch()
    assert attempt(settings, run, StopSignal(run.stop_request)).state == "stopped"
    assert last_checkpoint(run.checkpoints) is None
    run.stop_request.unlink()
    assert attempt(settings, run).state == "finished"


def test_a_checkpoint_that_was_cut_off_is_passed_over(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    config = quick(micro_model, tones, save_steps=1, save_total_limit=3, num_train_epochs=3.0)
    unbroken = new_run(settings, config, "unbroken")
    attempt(settings, unbroken)
    broken = new_run(settings, config, "broken")
    attempt(settings, broken, StopAtStep(broken, 5))
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
    assert attempt(settings, broken).state == "finished"
    assert_same_weights(unbroken.checkpoints / "checkpoint-9", broken.checkpoints / "checkpoint-9")


@pytest.mark.parametrize("method", METHODS)
def test_the_model_that_is_kept_is_the_checkpoint_that_was_evaluated_best(
    method: str, settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(
        settings, quick(micro_model, tones, method=method, num_train_epochs=3.0, learning_rate=0.05)
    )
    outcome = attempt(settings, run)
    assert outcome.model_id is not None
    points = evaluations(run)
    best = min(points.values(), key=lambda point: (point["wer"], point["loss"]))
    assert outcome.metrics["best_step"] == best["step"]
    model = settings.models / outcome.model_id
    assert_same_weights(model, run.checkpoints / f"checkpoint-{best['step']}")
    assert ModelRegistry(settings.models, demo=None, hf_cache=None).get(outcome.model_id).problem == ""


def test_a_run_killed_after_its_model_was_kept_makes_no_second_one(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(settings, quick(micro_model, tones, max_steps=1, run_name="once"))
    assert attempt(settings, run).model_id == "once"
    assert attempt(settings, run).model_id == "once"
    assert [folder.name for folder in settings.models.iterdir()] == ["once"]


def test_gradient_accumulation_learns_like_a_larger_batch(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    tones = make_tones(tmp_path / "clips", count=9, text="labels of one length")
    ends = {}
    for batch, accumulated in ((4, 1), (2, 2)):
        config = quick(
            micro_model,
            tones,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulated,
            max_train_samples=8,
            lora_dropout=0.0,
            eval_strategy="no",
            short_audio="off",  # whose batches are of clips of one length
        )
        run = new_run(settings, config, f"batch-{batch}")
        attempt(settings, run)
        ends[batch] = weights_of(run.checkpoints / "checkpoint-4")
    for name, tensor in ends[4].items():
        assert torch.allclose(tensor, ends[2][name], atol=1e-4), name


def test_without_evaluation_the_last_step_is_kept(settings: Settings, micro_model: Path, tones: Path) -> None:
    run = new_run(settings, quick(micro_model, tones, eval_strategy="no", max_steps=4))
    outcome = attempt(settings, run)
    assert outcome.state == "finished" and outcome.metrics["best_step"] == 4
    assert "eval" not in kinds(run)


def test_evaluation_by_steps_ends_with_one(settings: Settings, micro_model: Path, tones: Path) -> None:
    run = new_run(settings, quick(micro_model, tones, eval_strategy="steps", eval_steps=2, max_steps=5))
    attempt(settings, run)
    assert list(evaluations(run)) == [2, 4, 5]


def test_a_file_that_cannot_be_read_is_set_aside_with_its_line(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path / "clips", count=8)
    (tmp_path / "clips" / "tone3.wav").write_text("this is text", encoding="utf-8")
    run = new_run(settings, quick(micro_model, manifest, test_data=str(manifest), num_train_epochs=1.0))
    assert attempt(settings, run).state == "finished"
    data = next(event for event in read_events(run.events)[0] if event["kind"] == "data")
    assert (data["train_samples"], data["skipped_count"]) == (7, 2)
    assert {row["line"] for row in data["skipped"]} == {4}


def test_the_base_says_which_language_it_hears_where_no_row_names_one(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path / "clips", count=4, language=None)
    run = new_run(settings, quick(micro_model, manifest, max_steps=1, eval_strategy="no"))
    attempt(settings, run)
    data = next(event for event in read_events(run.events)[0] if event["kind"] == "data")
    assert data["detected_language"] and data["languages"] == [data["detected_language"]]


def test_training_on_times_runs(settings: Settings, micro_model: Path, tmp_path: Path) -> None:
    times = [{"start": 0.0, "end": 0.4, "text": "one"}, {"start": 0.5, "end": 1.0, "text": "two"}]
    manifest = make_tones(tmp_path / "clips", count=4, sentences=times)
    run = new_run(settings, quick(micro_model, manifest, timestamps=True, max_steps=2))
    assert attempt(settings, run).state == "finished"


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
def test_an_adapter_is_trained_on_a_quantised_base(
    quantization: str, settings: Settings, micro_model: Path, tones: Path
) -> None:
    run = new_run(
        settings,
        quick(
            *(micro_model, tones),
            quantization=quantization,
            gradient_checkpointing=True,
            max_steps=2,
            eval_on_start=True,  # an evaluation must leave the weights as training needs them
        ),
    )
    assert attempt(settings, run).state == "finished"


def test_half_precision_without_a_gpu_becomes_fp32_with_a_line(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    run = new_run(settings, quick(micro_model, tones, precision="fp16", max_steps=1, eval_strategy="no"))
    attempt(settings, run)
    texts = [event["text"] for event in read_events(run.events)[0] if event["kind"] == "warning"]
    assert texts == ["fp16 needs a GPU: this run calculates in fp32."]


def test_output_dir_gets_a_copy_and_its_own_copies_are_replaced(
    settings: Settings, micro_model: Path, tones: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "model"
    for name in ("one", "two"):
        run = new_run(settings, quick(micro_model, tones, max_steps=1, output_dir=str(target)), name)
        assert attempt(settings, run).state == "finished"
        assert read_json(target / "model.json")["run_id"] == name


def _refused(
    settings: Settings, model: Path | str, tones: Path, error: type[StudioError], match: str, **changes: Any
) -> None:
    config = quick(Path(), tones, **{"base_model": str(model), **changes})
    run = new_run(settings, config)
    with pytest.raises(error, match=match):
        attempt(settings, run)
    assert not list(settings.models.iterdir()), "nothing is left half done"


def test_an_output_dir_of_somebody_else_is_refused(
    settings: Settings, micro_model: Path, tones: Path, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    _refused(settings, micro_model, tones, ConfigError, "is not empty", output_dir=str(tmp_path))


@pytest.mark.parametrize("package", ["tensorboard", "wandb", "trackio"])
def test_a_missing_logger_is_named(
    package: str, settings: Settings, micro_model: Path, tones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    _refused(settings, micro_model, tones, ConfigError, f"pip install {package}", report_to=package)


def test_a_missing_manifest_is_named(settings: Settings, micro_model: Path, tmp_path: Path) -> None:
    _refused(settings, micro_model, tmp_path / "none.jsonl", ManifestError, "none.jsonl")


def test_an_unknown_language_is_named_with_its_line(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path / "clips", count=4, language="klingonish")
    _refused(settings, micro_model, manifest, ConfigError, r"Line \d: 'klingonish'")


def test_labels_that_are_all_too_long_are_refused(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path / "clips", count=4, text="x" * 500)
    _refused(settings, micro_model, manifest, ManifestError, "505 tokens, and the model takes 448")


def test_an_adapter_is_no_base(settings: Settings, micro_model: Path, tones: Path) -> None:
    attempt(settings, new_run(settings, quick(micro_model, tones, max_steps=1, run_name="first"), "first"))
    run = new_run(settings, quick(Path("first"), tones), "second")
    with pytest.raises(AdapterMismatchError, match="first is an adapter"):
        attempt(settings, run)


def test_a_full_model_is_whole_and_can_be_trained_on(
    settings: Settings, micro_model: Path, tones: Path
) -> None:
    first = quick(micro_model, tones, method="full", max_steps=2, run_name="whole")
    assert attempt(settings, new_run(settings, first, "first")).state == "finished"
    second = quick(Path("whole"), tones, max_steps=2, run_name="on-top")
    assert attempt(settings, new_run(settings, second, "second")).state == "finished"
    assert ModelRegistry(settings.models, demo=None, hf_cache=None).get("on-top").base_model == "whole"


def test_too_little_space_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="this needs"):
        require_free_space(tmp_path, 10**18)


def test_a_loss_that_is_no_number_stops_the_run_and_names_step_and_clips(
    settings: Settings, micro_model: Path, tones: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(micro_model, broken)
    weights = load_file(broken / "model.safetensors")
    weights["model.decoder.layer_norm.weight"][:] = torch.inf
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    run = new_run(settings, quick(broken, tones, save_steps=1))
    with pytest.raises(RunError, match=r"nan in step 1, which learns from .*tone\d\.wav \(line"):
        attempt(settings, run)
    assert last_checkpoint(run.checkpoints) is None


def test_json_of_events_is_one_object_a_line(settings: Settings, micro_model: Path, tones: Path) -> None:
    run = new_run(settings, quick(micro_model, tones, max_steps=1))
    attempt(settings, run)
    for line in run.events.read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["v"] == 1
