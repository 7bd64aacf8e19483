"""What `evaluate` refuses before a model is loaded."""

from pathlib import Path

import pytest

from studio.cli import evaluate
from studio.errors import ConfigError
from studio.settings import Settings


def test_a_split_of_a_list_is_refused_as_a_list_has_none(settings: Settings, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="--split validation chooses a part of a folder"):
        evaluate.run(["--models", "demo", "--data", str(rows), "--split", "validation"], settings)
