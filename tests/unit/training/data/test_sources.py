"""Several manifests in one run: joined, weighted, and split so that nothing is on both sides."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from studio.actions.check_data import characters_of_labels
from studio.cli import train
from studio.errors import ConfigError, ManifestError, StudioError
from studio.options.arguments import command_line, parse_training_arguments, read_config, write_yaml
from studio.options.sources import sources_of
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training.data.sources import SourceData, require
from studio.training.events import read_events
from studio.transcription.loaded_base import load_base
from tests.micro import make_tones
from tests.reading import check_dataset, check_sources, read_manifest, read_source
from tests.unit.training.attempts import Runs


def rows_of(manifest: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]


def write_rows(manifest: Path, rows: Iterable[object]) -> None:
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def split(manifest: Path) -> SourceData:
    """With a fifth of the clips kept back for evaluation."""
    return read_source(TrainingConfig(train_data=str(manifest), validation_share=0.2))


@pytest.fixture
def two(tmp_path: Path) -> str:
    first = make_tones(tmp_path / "first", count=8)
    second = make_tones(tmp_path / "second", count=2)
    return f"{first},{second}"


def folders(examples: object) -> Counter[str]:
    return Counter(example.audio_path.parent.name for example in examples)  # type: ignore[attr-defined]


def test_several_manifests_are_read_one_after_the_other(two: str) -> None:
    source = read_source(TrainingConfig(train_data=two, test_data=two))
    assert folders(source.train_examples) == {"first": 8, "second": 2}
    assert len(source.eval_examples) == 10


def test_weights_are_shares_of_an_epoch(two: str) -> None:
    config = TrainingConfig(train_data=two, test_data=two, train_weights="0.3, 0.7")
    source = read_source(config)
    assert folders(source.train_examples) == {"first": 3, "second": 7}
    paths = Counter(example.audio_path for example in source.train_examples)
    assert sorted(paths.values()) == [1, 1, 1, 3, 4], "whole rounds first, then a sample"
    assert read_source(config).train_examples == source.train_examples


@pytest.mark.parametrize("weights", ["0.5", "1,2,3", "a,b", "1,-1", "0,1"])
def test_weights_that_fit_nothing_are_refused(weights: str, two: str) -> None:
    with pytest.raises(
        ConfigError, match=r"train_weights must be numbers above 0, one a manifest in train_data \(2\)"
    ):
        TrainingConfig(train_data=two, train_weights=weights)


def test_weights_travel_by_command_line_and_file(two: str, tmp_path: Path) -> None:
    config, _ = parse_training_arguments(["--train_data", two, "--train_weights", "0.7,0.3"])
    assert config.weights == (0.7, 0.3)
    assert f"--train_data {two} --train_weights 0.7,0.3" in command_line(config)
    path = tmp_path / "run.yaml"
    path.write_text(write_yaml(config), encoding="utf-8")
    assert read_config(path) == config
    path.write_text(json.dumps({"train_data": two.split(","), "train_weights": [0.7, 0.3]}), encoding="utf-8")
    assert read_config(path) == config


def test_a_comma_in_a_file_name_separates_nothing(tmp_path: Path) -> None:
    (tmp_path / "a,b.jsonl").write_text("x", encoding="utf-8")
    assert sources_of(str(tmp_path / "a,b.jsonl")) == [str(tmp_path / "a,b.jsonl")]
    assert sources_of("a.jsonl, b.jsonl\nc") == ["a.jsonl", "b.jsonl", "c"]
    assert sources_of("") == [""]


def test_a_slip_in_the_second_manifest_is_answered_at_once(two: str) -> None:
    with pytest.raises(ManifestError, match=r"no manifest .*gone\.jsonl"):
        check_sources(TrainingConfig(train_data=f"{two},gone.jsonl"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"language": "ga-IE"}, "'ga-IE' is no language of Whisper.* Or set language"),
        ({"language": "ckb"}, "'ckb' is no language of Whisper.* Or set language"),
        ({"start_time": 0.0, "end_time": 0.1}, "The clip lasts 0.10 s"),
    ],
)
def test_a_list_of_which_nothing_can_be_used_is_refused_alike_before_the_start_and_in_the_run(
    tmp_path: Path, settings: Settings, row: dict[str, Any], reason: str
) -> None:
    manifest = make_tones(tmp_path, count=3)
    write_rows(manifest, [{**old, **row} for old in rows_of(manifest)])
    config = TrainingConfig(train_data=str(manifest))
    with pytest.raises(ManifestError, match=f"3 rows have problems.*{reason}") as before:
        check_sources(config, downloads=False)
    with pytest.raises(ManifestError) as within:
        read_source(config)
    assert str(before.value) == str(within.value)
    with pytest.raises(ManifestError, match=reason):
        train.run(["--train_data", str(manifest), "--base_model", "large-v3", "--plan"], settings)
    if "language" in row:
        check_sources(replace(config, language="en"))
        report = check_dataset(str(manifest), label_length=characters_of_labels(config))
        assert report.good_rows == 0 and str(report.problems[0].reason) in str(within.value)


@pytest.mark.parametrize("normalizer", ["none", "basic", "english", "chinese", "no_punctuation"])
def test_a_text_of_which_the_normalizer_leaves_nothing_is_named_and_left_out(
    tmp_path: Path, normalizer: str
) -> None:
    manifest = make_tones(tmp_path, count=4)
    first, *rest = rows_of(manifest)
    write_rows(manifest, [{**first, "text": "?!"}, *rest])
    config = TrainingConfig(train_data=str(manifest), test_data=str(manifest), normalizer=normalizer)
    report = check_dataset(str(manifest), label_length=characters_of_labels(config))
    source = read_source(config)
    if normalizer == "none":
        assert (len(source.train_examples), report.good_rows) == (4, 4)
        return
    assert (len(source.train_examples), len(source.eval_examples), report.good_rows) == (3, 3, 3)
    for problem in (source.problems[0], report.problems[0]):
        assert str(problem.reason).startswith("Nothing is left of the text '?!' with the normalizer")


def test_nobody_is_heard_in_training_and_in_evaluation(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=20)
    write_rows(manifest, [{**row, "speaker_id": n % 10} for n, row in enumerate(rows_of(manifest))])
    source = split(manifest)
    assert len(source.eval_examples) == 4
    assert not {e.speaker for e in source.train_examples} & {e.speaker for e in source.eval_examples}


def test_slices_of_a_recording_stay_together(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=5)
    rows = [
        {"audio": f"tone{file}.wav", "start_time": at, "end_time": at + 0.4, "text": "x"}
        for file in range(5)
        for at in (0.0, 0.5)
    ]
    write_rows(manifest, rows)
    first, second = split(manifest).eval_examples
    assert first.audio_path == second.audio_path


def test_copies_of_a_clip_are_on_one_side(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=10)
    rows = rows_of(manifest)
    copies = [{**row, "audio": f"copy{number}.wav"} for number, row in enumerate(rows)]
    for row, copy in zip(rows, copies, strict=True):
        shutil.copy(tmp_path / row["audio"], tmp_path / copy["audio"])
    write_rows(manifest, rows + copies)
    source = split(manifest)
    trained, evaluated = (
        {example.audio_path.read_bytes() for example in part}
        for part in (source.train_examples, source.eval_examples)
    )
    assert evaluated and not trained & evaluated


def test_clips_are_tied_by_recordings_and_copies_whoever_speaks(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=10)
    for number in range(10):
        shutil.copy(tmp_path / f"tone{number}.wav", tmp_path / f"copy{number}.wav")
    rows = [
        {
            "audio": f"{name}{n}.wav",
            "start_time": at,
            "end_time": at + 0.4,
            "text": f"{name} {at}",
            "speaker": who,
        }
        for n in range(10)
        for name, at, who in (("tone", 0.0, f"a{n}"), ("tone", 0.5, f"b{n}"), ("copy", 0.5, f"c{n}"))
    ]
    write_rows(manifest, rows)
    source = split(manifest)
    heard = [
        {example.audio_path.name[4] for example in part}
        for part in (source.train_examples, source.eval_examples)
    ]
    assert len(source.eval_examples) == 6 and not heard[0] & heard[1]


def test_where_one_voice_is_in_all_recordings_the_others_are_on_one_side(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=10)
    rows = [
        {"audio": f"tone{n}.wav", "start_time": at, "end_time": at + 0.4, "text": "x", "speaker": who}
        for n in range(10)
        for at, who in ((0.0, "agent"), (0.3, f"caller {n}"), (0.6, f"caller {n}"))
    ]
    write_rows(manifest, rows)
    source = split(manifest)
    assert len(source.eval_examples) == 6
    assert not {e.speaker for e in source.train_examples} & {e.speaker for e in source.eval_examples}


def test_several_manifests_are_one_for_the_page_and_the_check(two: str) -> None:
    first = Path(two.split(",")[0])
    first.write_text(first.read_text(encoding="utf-8") + "not json\n", encoding="utf-8")
    manifest = read_manifest(two)
    assert len(manifest.examples) == 10 and manifest.format == "jsonl"
    assert [(problem.line, problem.source) for problem in manifest.problems] == [(9, str(first))]


def test_rows_that_a_run_leaves_out_are_set_aside(runs: Runs, tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=6)
    write_rows(manifest, [*rows_of(manifest), {"audio": "gone.wav", "text": "x"}])
    run = runs.finished(train_data=str(manifest), max_steps=1, eval_strategy="no")
    assert [row["line"] for row in rows_of(runs.settings.quarantine / f"{run.run_id}.jsonl")] == [7]


def test_of_several_lists_the_one_is_named_that_a_row_stands_in(runs: Runs, tmp_path: Path) -> None:
    lists = [make_tones(tmp_path / name, count=4) for name in ("one", "two")]
    write_rows(lists[1], [*rows_of(lists[1]), {"audio": "gone.wav", "text": "x"}])
    train, test = map(str, lists)
    source = read_source(TrainingConfig(train_data=train, test_data=test))
    assert [(row.line, row.source) for row in source.problems] == [(5, test)]
    assert [row.source for row in read_source(TrainingConfig(train_data=test)).problems] == [""]
    run = runs.finished(train_data=train, test_data=test, max_steps=1)
    (data,) = [event for event in read_events(run.events)[0] if event["kind"] == "data"]
    assert [(row["line"], row["source"]) for row in data["skipped"]] == [(5, test)]


def test_a_base_whose_window_is_not_30_seconds_is_refused_before_anything_is_read(
    runs: Runs, micro_model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(micro_model, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "max_source_positions": 750}), encoding="utf-8")
    weights = load_file(other / "model.safetensors")
    name = "model.encoder.embed_positions.weight"
    weights[name] = weights[name][:750].clone()
    save_file(weights, other / "model.safetensors", {"format": "pt"})
    for begin in (lambda: runs.carry_out(runs.new(base_model=str(other))), lambda: load_base(other)):
        with pytest.raises(StudioError, match=r"sees windows of 15 s \(max_source_positions 750\)"):
            begin()


def test_clips_longer_than_the_window_are_named_with_their_line_and_length(tmp_path: Path) -> None:
    rows = rows_of(make_tones(tmp_path / "long", count=1, seconds=31.5))
    long = {**rows[0], "audio": "long/tone0.wav"}
    manifest = make_tones(tmp_path, count=3)
    first, _, third = rows_of(manifest)
    write_rows(manifest, [first, long, third])
    source = read_source(TrainingConfig(train_data=str(manifest), validation_share=0.5))
    assert [(p.line, p.kind) for p in source.problems] == [(2, "too_long")]
    assert "lasts 31.50 s, and max_audio_len is 30 s" in str(source.problems[0].reason)
    write_rows(manifest, [long, long])
    with pytest.raises(ManifestError, match="max_audio_len is 30 s"):
        read_source(TrainingConfig(train_data=str(manifest)))


def test_where_there_is_neither_a_clip_nor_a_problem_no_line_is_named() -> None:
    with pytest.raises(ManifestError, match=r"^a\.csv has no rows\.$"):
        require((), "a.csv", ())
