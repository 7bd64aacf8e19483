"""`demo`: what it answers where its run fails."""

import json

import pytest

from studio.cli import demo
from studio.runs.manager import JobManager
from studio.settings import Settings


def test_a_run_that_fails_is_told_to_machines_too(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(jobs: JobManager, run_id: str) -> object:
        jobs.stop(run_id)
        return jobs.status(run_id)

    monkeypatch.setattr(JobManager, "start", lambda jobs: None)
    monkeypatch.setattr(demo, "follow", stopped)
    assert demo.run(["--json"], settings) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"].startswith(demo.RECIPE.run_name)
    assert told["state"] != "finished" and told["heard"] == []
