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
        ("--result r.json --split test --num_beams 0", "made before: leave out --split, --num_beams"),
        (
            "--result r.json --engine faster-whisper --compute_type int8",
            "made before: leave out --engine, --compute_type",
        ),
        ("--result r.json --use-4bit", "made before: leave out --use_4bit"),
        ("--audio_path SOUND --max_samples 3 --split test", "Only a test set has --split, --max_samples:"),
        ("--audio_path SOUND --remove_pun False", "Only a test set has --remove_pun:"),
        ("--audio_path SOUND --output_file made.csv", "Only a test set has .csv:"),
        (
            "--audio_path SOUND --rows 3 --search x",
            "With --audio_path, there are no clips to list: leave out --search, --rows",
        ),
        (
            "--forms all --data demo --show loops",
            "With --forms, there are no clips to list: leave out --show",
        ),
        ("--data demo --normalizer none --remove_pun", "choose a normalizer: leave out them or it"),
        ("--data nowhere.csv --errors_at 20", "errors_at takes two shares"),
        ("--data nowhere.csv --rows 0", "rows must be at least 1"),
        ("--data demo --dataset a/b", "Give one of --data and --dataset"),
        ("--config hi", "--config belongs to a Hub dataset"),
        ("--data demo --reference x", "--reference is what is said in one recording"),
        ("--forms all --data demo --reference x", "--reference is what is said in one recording"),
    ],
)
def test_what_would_have_no_effect_or_cannot_be_is_refused_before_anything_is_heard(
    settings: Settings, words: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        evaluate.run([_SOUND if word == "SOUND" else word for word in words.split()], settings)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--dataset mozilla/speech --config hi", "mozilla/speech:hi"),
        ("--dataset_path hf-audio/esb --dataset ami", "hf-audio/esb:ami"),
        ("--dataset a/b", "a/b"),
        ("--data rows.csv", "rows.csv"),
        ("", None),
    ],
)
def test_a_dataset_of_the_hub_is_named_whole_or_in_parts(words: str, named: str | None) -> None:
    assert evaluate.data_named(evaluate.parser().read(words.split())) == named


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
