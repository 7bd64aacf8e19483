"""What `train` says before it starts anything."""

from pathlib import Path

import pytest

from studio.cli import train
from studio.errors import StudioError
from studio.runs.manager import JobState
from studio.services import Services
from studio.settings import Settings


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--adapter", "nosuch"), "There is no model 'nosuch'"),
        (("--num_gpus", "1024"), "1024 processes need a core each"),
        (("--output_dir", "list.jsonl/out"), "Cannot write"),
    ],
)
def test_a_plan_refuses_what_the_run_would(
    options: tuple[str, str],
    sentence: str,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.jsonl").touch()
    with pytest.raises(StudioError, match=sentence):
        train.run(["--base_model", "demo", "--plan", *options], settings)
    assert not settings.runs.exists() or not list(settings.runs.iterdir())


def test_a_run_that_goes_on_may_wait_for_a_studio_as_a_new_one_may(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--train_data", "demo", "--no_wait"]
    assert train.run(words, settings) == 0
    run_id = capsys.readouterr().out.strip()
    with Services.open(settings) as services:
        services.jobs.stop(run_id)
        assert train.run([*words, "--resume"], settings) == 0
        assert capsys.readouterr().out.strip() == run_id
        assert services.jobs.status(run_id).state is JobState.QUEUED
