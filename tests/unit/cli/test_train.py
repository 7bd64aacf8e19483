"""What `train` says before it starts anything."""

from pathlib import Path

import pytest

from studio.cli import train
from studio.errors import StudioError
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
