"""`export --output_dir`: a copy is whole, or it is not there."""

import shutil
from pathlib import Path

import pytest

from studio.cli import export
from studio.errors import ConfigError
from studio.settings import Settings


def _made(settings: Settings) -> str:
    """An export, whose name is given back."""
    export.run(["demo"], settings)
    (folder,) = settings.models.iterdir()
    return folder.name


def test_a_copy_that_is_interrupted_is_not_there(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, copies = _made(settings), tmp_path / "copies"

    def interrupted(source: str, target: str) -> str:
        if source.endswith("model.bin"):
            raise KeyboardInterrupt
        return str(copy2(source, target))

    copy2 = shutil.copy2
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil.copytree, "__defaults__", (False, None, interrupted, False, False))
        export.run(["demo", "--output_dir", str(copies)], settings)
    assert list(copies.iterdir()) == []
    for _ in range(2):  # the second over the first, beside what else is there
        assert export.run(["demo", "--output_dir", str(copies)], settings) == 0
        kept = copies / name / "notes" / "config.json"
        if not kept.exists():
            kept.parent.mkdir()
            kept.write_text("mine", encoding="utf-8")
            mine = kept.stat()
    whole = {path.name for path in (settings.models / name).iterdir()}
    assert {path.name for path in (copies / name).iterdir()} == whole | {"notes"}
    assert kept.stat() == mine and kept.read_text(encoding="utf-8") == "mine", "it is not even copied"
    assert [path.name for path in copies.iterdir()] == [name]


def test_the_folder_of_the_models_has_it_already(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    name = _made(settings)
    assert export.run(["demo", "--output_dir", str(settings.models)], settings) == 0
    assert "Copied" not in capsys.readouterr().err
    with pytest.raises(ConfigError, match="lies in the studio's own folder"):
        export.run(["demo", "--output_dir", str(settings.models / name / "copies")], settings)
    assert [path.name for path in settings.models.iterdir()] == [name]
    assert not (settings.models / name / "copies").exists()
