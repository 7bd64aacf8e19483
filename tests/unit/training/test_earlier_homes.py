"""Homes whose settings earlier versions wrote: what is in them opens, and a run goes on as it began."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from studio.options.arguments import read_config
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.settings import DEMO_MODEL, Settings
from studio.training.data import replay
from studio.training.events import RunPhase
from studio.training.run_dir import RunDir
from studio.training.strength import strength_of
from tests.unit.training.attempts import StopWhen, attempt, told

HOMES = Path(__file__).parents[2] / "golden" / "earlier_homes"
"""That of version 2 is the one of the golden records, whose run goes on to its end."""


@pytest.fixture(scope="module")
def read_by_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the base reads for rehearsal, kept from one home to the next."""
    return tmp_path_factory.mktemp("replay")


def is_training(events: list[Mapping[str, Any]]) -> bool:
    return bool([one for one in events if one["kind"] == "phase"][-1]["phase"] == RunPhase.TRAINING)


@pytest.mark.parametrize(
    ("version", "strength", "rehearsed", "is_varied"),
    [(1, 1.0, 0.0, False), (3, 0.85, 0.125, False), (4, 0.85, 0.125, False), (5, 0.85, 0.0625, True)],
)
def test_a_home_of_an_earlier_version_opens_and_its_run_goes_on_with_its_own_recipe(
    settings: Settings,
    read_by_base: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    strength: float,
    rehearsed: float,
    is_varied: bool,
) -> None:
    monkeypatch.setattr(replay, "_MOST_WINDOWS", 2)
    for kept, place in (
        (HOMES / f"version-{version}", settings.home),
        (read_by_base, settings.cache / "replay"),
    ):
        shutil.copytree(kept, place, dirs_exist_ok=True)
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    manager = JobManager(settings, registry)
    states = {run.run_id.rsplit("-", 2)[0]: run.state.value for run in manager.runs()}
    assert states == {"finished": "finished", "interrupted": "interrupted", "queued": "queued"}
    assert registry.get("finished").problem is None
    (folder,) = settings.runs.glob("interrupted-*")
    run = RunDir(folder)
    config, before = read_config(run.config), [event["step"] for event in told(run, "step")]
    found = strength_of(config), config.replay_share, config.replay_augmentation
    assert found == (strength, rehearsed, is_varied)
    (checkpoint,) = run.checkpoints.iterdir()
    begun = int(checkpoint.name.removeprefix("checkpoint-"))
    outcome = attempt(settings, run, StopWhen(run, is_training))
    shutil.copytree(settings.cache / "replay", read_by_base, dirs_exist_ok=True)
    assert (outcome.state, outcome.step) == ("stopped", begun + 1)
    after = [event["step"] for event in told(run, "step")][len(before) :]
    assert after == [begun + 1]
