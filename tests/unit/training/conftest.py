"""Runs in this process, for the tests of training."""

from pathlib import Path

import pytest

from studio.settings import Settings
from studio.training.outcome import Outcome
from studio.training.run_dir import RunDir
from tests.unit.training.attempts import Runs


@pytest.fixture
def runs(settings: Settings, micro_model: Path, tones: Path) -> Runs:
    """Runs of the micro model on twelve tones, in a studio of the test's own."""
    return Runs(settings, micro_model, tones)


Finished = tuple[Runs, RunDir, Outcome]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, micro_model: Path, tones: Path) -> Finished:
    """A whole run named "my tones", which several tests look at: change nothing in it."""
    home = tmp_path_factory.mktemp("finished")
    settings = Settings(home=home / "home", hf_cache=home / "hf-cache")
    settings.prepare()
    runs = Runs(settings, micro_model, tones)
    run = runs.new(run_name="my tones", eval_on_start=True)
    return runs, run, runs.carry_out(run)
