"""The copy of a model in `output_dir`."""

import shutil
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from studio.errors import ConfigError, StorageError
from studio.files import write_json
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.training.finished_model import hand_out, name_of
from tests.unit.training.attempts import Runs


def test_what_was_put_into_output_dir_while_a_run_trained_stays(micro_model: Path, tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "home" / "models", demo=None, hf_cache=None)
    shutil.copytree(micro_model, registry.models / "mine")
    write_json(registry.models / "mine" / "model.json", {"run_id": "one"})
    target = tmp_path / "out"
    beside = [tmp_path / ".out.old" / "kept.txt", tmp_path / ".out.new" / "kept.txt"]
    config = TrainingConfig(output_dir=str(target))
    for file in (*beside, target / "thesis.txt"):
        file.parent.mkdir()
        file.touch()
    with pytest.raises(ConfigError, match="is not empty"):
        hand_out(registry, registry.get("mine"), config)
    (target / "thesis.txt").unlink()
    for _ in range(2):  # into an empty folder, and over its own copy
        hand_out(registry, registry.get("mine"), config)
        assert (target / "model.json").is_file()
    assert all(file.is_file() for file in beside)
    assert {path.name for path in tmp_path.iterdir()} == {"home", "out", ".out.old", ".out.new"}


def test_the_copy_of_an_earlier_run_stays_if_no_other_can_take_its_place(
    micro_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = ModelRegistry(tmp_path / "home" / "models", demo=None, hf_cache=None)
    shutil.copytree(micro_model, registry.models / "mine")
    write_json(registry.models / "mine" / "model.json", {"run_id": "one"})
    target = tmp_path / "out"
    config = TrainingConfig(output_dir=str(target))
    hand_out(registry, registry.get("mine"), config)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    write_json(registry.models / "mine" / "model.json", {"run_id": "two"})
    rename = Path.rename

    def full(self: Path, to: Path) -> Any:
        """The disk is full just then."""
        if self.name == "new":
            raise OSError(ENOSPC, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(StorageError):
        hand_out(registry, registry.get("mine"), config)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"home", "out"}


def test_a_run_name_of_rare_letters_is_cut_to_what_a_disk_takes(runs: Runs, tmp_path: Path) -> None:
    target = tmp_path / (62 * "𠀀")
    options = {"max_steps": 1, "eval_strategy": "no", "output_dir": str(target)}
    for count in (1, 2):
        outcome = runs.carry_out(runs.new(f"run{count}", run_name=80 * "𠀀", **options))
        assert outcome.model_id == 50 * "𠀀" + ("-2" if count == 2 else "")
    assert (target / "model.json").is_file()
    assert name_of(TrainingConfig(run_name=80 * "x"), "run") == 80 * "x"
