"""What `evaluate` refuses before a model is loaded."""

from pathlib import Path

import pytest

from studio.cli import evaluate
from studio.errors import ConfigError
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_SPEECH, Settings

_SOUND = str(DEMO_SPEECH / "samples" / "kitchen-light.flac")


def test_a_split_of_a_list_is_refused_as_a_list_has_none(settings: Settings, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="--split validation chooses a part of a folder"):
        evaluate.run(["--models", "demo", "--data", str(rows), "--split", "validation"], settings)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--result r.json --models demo", "made before: leave out --models"),
        ("--result r.json --max_samples 3", "made before: leave out --max_samples"),
        ("--result r.json --language en", "made before: leave out --language"),
        ("--audio_path SOUND --max_samples 3", "are of a test set"),
        (
            "--audio_path SOUND --rows 3 --search x",
            "--search, --rows: clips of a test set .* or --audio_path",
        ),
        ("--forms all --data demo --show loops", "--show: clips of a test set are listed.* or --forms"),
        ("--data demo --reference x", "--reference is what is said in one recording"),
        ("--forms all --data demo --reference x", "--reference is what is said in one recording"),
    ],
)
def test_what_would_have_no_effect_is_refused(settings: Settings, words: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        evaluate.run([_SOUND if word == "SOUND" else word for word in words.split()], settings)


@pytest.mark.parametrize("words", ["--audio_path SOUND", "--forms all --data demo"])
def test_nothing_is_downloaded_where_only_local_files_are_wanted(
    settings: Settings, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def local_path(self: ModelRegistry, name: str, *, local_files_only: bool = False) -> Path:
        asked.append(local_files_only)
        raise ConfigError("Is it here?")

    monkeypatch.setattr(ModelRegistry, "local_path", local_path)
    with pytest.raises(ConfigError, match="Is it here"):
        evaluate.run(
            [
                "--model",
                "small",
                "--local_files_only",
                *(_SOUND if word == "SOUND" else word for word in words.split()),
            ],
            settings,
        )
    assert asked == [True]
