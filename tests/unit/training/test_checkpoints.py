"""Checkpoints are written aside and renamed: what is there is whole, and its weights are numbers."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Seq2SeqTrainingArguments, TrainerCallback, WhisperForConditionalGeneration

from studio.errors import RunError
from studio.files import read_json, write_json
from studio.runs.disk import remove_checkpoints
from studio.training import checkpoints
from studio.training.checkpoints import (
    WRITING,
    complete_checkpoints,
    last_checkpoint,
    put_in_place,
)
from studio.training.distributed.world import World
from studio.training.guarded_trainer import GuardedTrainer
from studio.training.run_dir import RunDir
from tests.unit.training.attempts import Runs, attempt, told


class Watch(threading.Thread):
    """Looks at the folder of checkpoints all the time."""

    def __init__(self, checkpoints: Path) -> None:
        super().__init__(daemon=True)
        self._checkpoints = checkpoints
        self._is_over = threading.Event()
        self.torn: set[str] = set()
        self.aside: set[str] = set()

    def run(self) -> None:
        while not self._is_over.wait(0.0005):
            there = {folder.name for folder in self._checkpoints.glob("checkpoint-*")}
            whole = {folder.name for folder in complete_checkpoints(self._checkpoints)}
            self.torn |= there - whole
            self.aside |= {folder.name for folder in (self._checkpoints / WRITING).glob("*")}

    def end(self) -> None:
        self._is_over.set()
        self.join()


def test_what_is_there_of_a_checkpoint_is_all_of_it(runs: Runs) -> None:
    run = runs.new(method="full", save_steps=1, save_total_limit=9)
    watch = Watch(run.checkpoints)
    watch.start()
    try:
        assert runs.carry_out(run).state == "finished"
    finally:
        watch.end()
    assert not watch.torn and watch.aside
    assert [folder.name for folder in run.checkpoints.iterdir() if folder.name == WRITING] == []
    assert len(complete_checkpoints(run.checkpoints)) == 6


def test_one_that_is_removed_while_somebody_looks_at_it_is_none(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trainer keeps the last two; page and command line may ask at any moment."""
    run = runs.new(save_steps=1, save_total_limit=2)
    runs.carry_out(run, stop_at=3)
    gone, kept = complete_checkpoints(run.checkpoints)
    look = checkpoints._state

    def look_and_remove(folder: Path) -> dict[str, Any] | None:
        found = look(folder)
        shutil.rmtree(gone, ignore_errors=True)
        return found

    monkeypatch.setattr(checkpoints, "_state", look_and_remove)
    assert complete_checkpoints(run.checkpoints) == [kept]


def test_what_a_killed_worker_left_aside_is_no_checkpoint_and_goes(runs: Runs) -> None:
    run = runs.new(save_steps=1, save_total_limit=2)
    runs.carry_out(run, stop_at=5)
    whole = run.checkpoints / "checkpoint-5"
    shutil.copytree(whole, run.checkpoints / WRITING / "checkpoint-9")
    assert last_checkpoint(run.checkpoints) == whole
    assert runs.carry_out(run).state == "finished"
    kept = {folder.name for folder in run.checkpoints.iterdir()}
    assert kept <= {f"checkpoint-{step}" for step in range(1, 7)}
    assert "checkpoint-6" in kept and len(kept) == 2


def test_a_run_goes_on_from_the_checkpoint_before_one_that_was_cut_short(runs: Runs) -> None:
    stopped = runs.new(save_steps=1, save_total_limit=3)
    runs.carry_out(stopped, stop_at=4)
    for name in ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        run = RunDir(shutil.copytree(stopped.path, stopped.path.with_name(name)))
        before, latest = complete_checkpoints(run.checkpoints)[-2:]
        cut = latest / name
        cut.write_bytes(cut.read_bytes()[:-100])
        assert last_checkpoint(run.checkpoints) == before, name
        assert runs.carry_out(run).state == "finished", name


@pytest.fixture
def stopped(runs: Runs) -> RunDir:
    """A run that was stopped at step 5, of which the checkpoint of step 3 is, and stays, the best."""
    run = runs.new(save_steps=1, save_total_limit=2)
    runs.carry_out(run, stop_at=5)
    state = run.checkpoints / "checkpoint-5" / "trainer_state.json"
    write_json(state, {**read_json(state), "best_metric": -1.0})
    return run


def test_the_best_checkpoint_stays_where_checkpoints_are_removed(runs: Runs, stopped: RunDir) -> None:
    remove_checkpoints(stopped, keep_last=True)
    kept = [folder.name for folder in complete_checkpoints(stopped.checkpoints)]
    assert kept == ["checkpoint-3", "checkpoint-5"]
    outcome = runs.carry_out(stopped)
    assert (outcome.state, outcome.metrics["best_step"]) == ("finished", 3)


def test_the_best_checkpoint_stays_in_a_home_that_was_moved(stopped: RunDir, runs: Runs) -> None:
    moved = replace(runs.settings, home=runs.settings.home.with_name("moved"))
    runs.settings.home.rename(moved.home)
    run = RunDir(moved.runs / stopped.run_id)
    outcome = attempt(moved, run)
    assert (outcome.state, outcome.metrics["best_step"]) == ("finished", 3)


def test_without_its_best_checkpoint_a_run_makes_its_model_of_the_last(runs: Runs, stopped: RunDir) -> None:
    shutil.rmtree(stopped.checkpoints / "checkpoint-3")
    outcome = runs.carry_out(stopped)
    assert (outcome.state, outcome.metrics["best_step"]) == ("finished", 6)
    texts = [warning["text"] for warning in told(stopped, "warning")]
    assert any("checkpoint-3, the best checkpoint, is gone" in text for text in texts)


def test_the_latest_checkpoints_stay_whatever_the_clock_says(runs: Runs) -> None:
    run = runs.new(eval_strategy="no", save_steps=1, save_total_limit=2)
    runs.carry_out(run, stop_at=3)
    for folder in run.checkpoints.iterdir():  # the clock has been set back by an hour since
        late = folder.stat().st_mtime + 3600
        os.utime(folder, (late, late))
    runs.carry_out(run, stop_at=5)
    steps = [folder.name for folder in complete_checkpoints(run.checkpoints)]
    assert steps == ["checkpoint-4", "checkpoint-5"]


def test_a_checkpoint_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    for name, text in (("old", "one"), ("new", "two")):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "file").write_text(text, encoding="utf-8")
    put_in_place(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "inner" / "file").read_text(encoding="utf-8") == "two"
    assert not (tmp_path / "new").exists()


class Poison(TrainerCallback):
    """Makes a weight no number after the third step, as an optimizer may."""

    def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 2:
            with torch.no_grad():
                model.get_decoder().layer_norm.weight[0] = torch.nan


def test_weights_that_are_no_numbers_never_reach_a_checkpoint(micro_model: Path, tmp_path: Path) -> None:
    row = {"input_features": torch.zeros(80, 3000), "labels": torch.arange(5)}
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True}
    arguments = Seq2SeqTrainingArguments(
        str(tmp_path / "checkpoints"), max_steps=5, save_steps=1, per_device_train_batch_size=1, **quiet
    )
    trainer = GuardedTrainer(
        model=WhisperForConditionalGeneration.from_pretrained(micro_model),
        args=arguments,
        train_dataset=[row] * 5,
        callbacks=[Poison()],
    )
    trainer.world, trainer.on_wait = World(), lambda _seconds: None
    with pytest.raises(RunError, match=r"not a number by step 3 \(model.decoder.layer_norm.weight first\)"):
        trainer.train()
    whole = {"checkpoint-1", "checkpoint-2"}
    assert {folder.name for folder in complete_checkpoints(tmp_path / "checkpoints")} == whole
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == whole
