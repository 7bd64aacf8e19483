"""A worker that is killed anywhere between its last step and the registered model: nothing is lost.

The real code runs in a forked process, which kills itself before its nth change of a file, for every n; what
it left of a checkpoint is looked at, and what it left of a model is gone on with by another one.
"""

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from studio.files import read_json, write_json
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_MODEL, Settings
from studio.training.attempt import Attempt
from studio.training.checkpoints import complete_checkpoints, last_checkpoint
from studio.training.outcome import Outcome
from studio.training.run_dir import RunDir
from tests.unit.registry.conftest import make_adapter
from tests.unit.training.attempts import Runs, StopAtStep

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")


@pytest.fixture
def runs(settings: Settings, micro_model: Path, tones: Path) -> Runs:
    return Runs(settings, micro_model, tones)


def ends(do: Callable[[], object], folder: Path, before_change: int) -> bool:
    """Has a process do it that is killed before a change in a folder, counted from 0; whether it ended."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), "what went wrong is in the output"
        return code == 0
    try:
        changes = count()

        def asked(event: str, given: tuple[Any, ...]) -> None:
            is_written = (
                event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if not is_written and event not in CHANGES:
                return
            # What rmtree removes is told relative to the folder that it has open.
            is_here = str(given[0]).startswith(str(folder)) or not Path(str(given[0])).is_absolute()
            if is_here and next(changes) == before_change:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(asked)
        do()
    except BaseException:  # noqa: BLE001 - nothing of the tests goes on here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def deaths(do: Callable[[], object], folder: Path) -> Iterator[int]:
    """After each death of a process that did it; then the folder is as it was, and so it is in the end."""
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept)
    for before_change in count():
        is_over = ends(do, folder, before_change)
        if not is_over:
            yield before_change
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        if is_over:
            shutil.rmtree(kept)
            return


class Killed(Attempt):
    """A run that is killed at every step of writing its last checkpoint, and of making its model of it."""

    died = 0
    had_model = had_checkpoint = 0
    weights: set[bytes]

    def _trainer(self, *given: Any) -> Any:
        trainer, callback = super()._trainer(*given)
        trainer._save_checkpoint = lambda *saved: self._save(trainer, *saved)
        return trainer, callback

    def _save(self, trainer: Any, *given: Any) -> None:
        save = type(trainer)._save_checkpoint
        if trainer.state.global_step == 2:
            before = complete_checkpoints(self.run.checkpoints)
            new = self.run.checkpoints / f"checkpoint-{trainer.state.global_step}"
            for _ in deaths(lambda: save(trainer, *given), self.run.path.parents[2]):
                last = last_checkpoint(self.run.checkpoints)
                assert last is not None and last in (before[-1], new), "the one before, or the new one"
                type(self).died += 1
                type(self).had_checkpoint += last == new
        save(trainer, *given)

    def _keep(self, best: Path, ready: Any) -> None:
        def keep() -> None:
            super(Killed, self)._keep(best, ready)
            write_json(self.run.result, self.outcome.to_json({}))

        target, self.weights = Path(self.config.output_dir), set()
        checkpoints = complete_checkpoints(self.run.checkpoints)
        for _ in deaths(keep, self.run.path.parents[2]):
            assert complete_checkpoints(self.run.checkpoints) == checkpoints
            self._require_whole(target, is_over=self.run.result.exists())
            type(self).died += 1
            type(self).had_model += len(list(self.settings.models.iterdir()))
            keep()
            self._require_whole(target, is_over=True)
            assert read_json(self.run.result)["model_id"] == "new"
            left = [path for path in target.parent.iterdir() if path != target]
            assert left == [] and not (self.run.path / "model").exists()
        keep()
        self._require_whole(target, is_over=True)
        assert len(self.weights) == 1, "they are always the same"

    def _require_whole(self, target: Path, *, is_over: bool) -> None:
        """The model is whole where it is, and is there if that was said."""
        fresh = ModelRegistry(self.settings.models, demo=DEMO_MODEL, hf_cache=self.settings.hf_cache)
        made = [spec for spec in fresh.all() if spec.path and spec.path.parent == self.settings.models]
        assert [(spec.id, spec.problem) for spec in made] == [("new", None)] * len(made)
        for folder in [
            *([self.settings.models / "new"] if is_over or made else []),
            *([target] if is_over else []),
        ]:
            assert read_json(folder / "model.json")["run_id"] == self.run.run_id
            assert not is_over or (folder / "README.md").is_file()
            self.weights.add(next(folder.glob("*model.safetensors")).read_bytes())


def test_whoever_is_killed_while_saving_and_registering_loses_nothing(
    runs: Runs, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    target = tmp_path / "shared" / "out" / "model"
    make_adapter(target, "demo", card={"run_id": "an earlier one"})
    run = runs.new("new", max_steps=2, save_steps=1, output_dir=str(target))
    Killed.died = Killed.had_model = Killed.had_checkpoint = 0
    outcome = Outcome()
    Killed(run, runs.settings, StopAtStep(run, None), outcome).carry_out()
    assert outcome.state == "finished" and RunDir(run.path).result.exists()
    assert Killed.died > 40 and 0 < Killed.had_checkpoint < Killed.died and 0 < Killed.had_model < Killed.died
    record_property("moments at which it was killed", Killed.died)
