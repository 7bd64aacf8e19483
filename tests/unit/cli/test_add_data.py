"""`add-data`: a zip becomes training data without the page."""

import json
from pathlib import Path

import pytest

from studio.cli.add_data import run
from studio.settings import Settings
from tests.micro import make_tones


def test_files_are_added_and_listed(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make_tones(tmp_path, count=2)
    sounds = [str(path) for path in manifest.parent.glob("*.wav")]
    assert run([str(manifest), *sounds, "--name", "mine", "--json"], settings) == 0
    added = json.loads(capsys.readouterr().out)
    assert (added["name"], added["files"], added["problem"]) == ("mine", 3, None)
    assert added["unusable_rows"] == 0
    with manifest.open("a", encoding="utf-8") as file:
        file.write('{"audio": "gone.wav", "text": "x"}\n')
    assert run([str(manifest), *sounds, "--name", "half"], settings) == 0
    assert "Rows that cannot be used: 1; check-data names them." in capsys.readouterr().out
    assert run([*sounds, "--name", "no list"], settings) == 1
    said = capsys.readouterr().out
    assert "It is kept, but: " in said and f"--train_data {settings.datasets / 'no list'}" in said
    assert run(["--json"], settings) == 0
    found = json.loads(capsys.readouterr().out)["data_sets"]
    assert {each["name"]: each["train_data"] for each in found}["mine"] == added["train_data"]
    assert run([], settings) == 0
    assert "no list" in capsys.readouterr().out
