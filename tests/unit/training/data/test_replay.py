"""Rehearsal: what the base reads, which window goes with which batch, and whole runs."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assets.make_demo.passages import SEED as PASSAGES_SEED
from assets.make_demo.passages import _sentences, written_passages
from studio.dataset.example import Example
from studio.files import read_json, write_json
from studio.memory.plan import Phase
from studio.memory.training import estimate_training
from studio.options.arguments import read_config
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.settings import DEMO_MODEL, DEMO_SPEECH, PASSAGES, Settings
from studio.training.adapters import Base, Precision, load_training_base
from studio.training.data.clips import Clip
from studio.training.data.collator import FeatureSource
from studio.training.data.replay import Windows, _language, read_by_base
from studio.training.plan import rehearses, training_plan
from tests.reading import clips_in_other_languages, passages
from tests.unit.training.attempts import Runs, assert_same_weights, losses, told

SAMPLES = DEMO_SPEECH / "samples"
REHEARSED = {
    "max_train_samples": 8,
    "max_eval_samples": 2,
    "num_train_epochs": 1.0,
    "learning_rate": 0.001,
    "lora_dropout": 0.0,
    "eval_strategy": "no",
}


@pytest.fixture(scope="module")
def base(demo_model: Path) -> Base:
    """The demo model as a run loads it."""
    return load_training_base(demo_model, TrainingConfig(), Precision("fp32"))


@pytest.fixture
def demo_runs(settings: Settings, demo_model: Path, demo_speech: Path) -> Runs:
    """Runs of the demo model on its own speech; one thread adds up in one order."""
    return Runs(replace(settings, threads=1), demo_model, demo_speech / "train.jsonl")


def sounds(folder: Path, *names: str) -> TrainingConfig:
    """A run that rehearses some of the samples, named in a list without texts."""
    folder.mkdir(exist_ok=True)
    rows = [{"audio": str(SAMPLES / name), "language": "en"} for name in names]
    (folder / "sounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return TrainingConfig(replay_data=str(folder / "sounds.jsonl"))


@pytest.fixture
def light(tmp_path: Path) -> str:
    """A list of one recording, which the demo model reads well."""
    return sounds(tmp_path / "light", "kitchen-light.flac").replay_data


def test_the_base_reads_windows_with_times_and_what_it_is_not_sure_of_is_left_out(
    base: Base, tmp_path: Path
) -> None:
    config = sounds(tmp_path, "kitchen-light.flac", "silence.flac", "long.ogg")
    windows = passages(config)
    assert [round(window.duration_seconds or 0) for window in windows] == [4, 3, 27, 27, 27]
    done: list[tuple[int, int]] = []
    features = FeatureSource(base.decoder.extractor, keep=True)
    read = read_by_base(windows, base.decoder, features, tmp_path / "kept", lambda *told: done.append(told))
    texts = [base.decoder.text_of([t for t in clip.labels if t < base.decoder.tokens.end]) for clip in read]
    assert texts[0].strip() == "turn on the kitchen light set a timer for ten minutes"
    assert len(read) == 4 and "silence" not in str([clip.example.audio_path for clip in read])
    tokens = base.decoder.tokens
    for clip in read:
        assert clip.labels[:2] == (tokens.languages["en"], tokens.tasks["transcribe"])
        assert tokens.is_time(clip.labels[2]) and clip.labels[-1] == tokens.end
    assert done == [(0, 5), (4, 5)]


def test_a_recording_in_a_language_that_the_base_lacks_is_left_out(base: Base, tmp_path: Path) -> None:
    (light,) = passages(sounds(tmp_path, "kitchen-light.flac"))
    features = FeatureSource(base.decoder.extractor, keep=False)
    named = [replace(light, language=name) for name in ("Klingon", "English")]
    read = read_by_base(named, base.decoder, features, tmp_path / "kept", lambda *_: None)
    assert [clip.example.language for clip in read] == ["English"] and read[0].language == "en"


def test_what_was_read_once_is_kept(base: Base, tmp_path: Path) -> None:
    windows = passages(sounds(tmp_path, "kitchen-light.flac"))
    features = FeatureSource(base.decoder.extractor, keep=False)
    first = read_by_base(windows, base.decoder, features, tmp_path / "kept", lambda *_: None)

    def refuse(_clip: Clip) -> Any:
        raise AssertionError("it was read before")

    assert read_by_base(windows, base.decoder, refuse, tmp_path / "kept", lambda *_: None) == first

    (light,) = windows
    namesake = tmp_path / light.audio_path.name
    namesake.write_bytes(bytes(light.audio_bytes))
    with pytest.raises(AssertionError, match="it was read before"):  # other sound of that name and size
        other = [replace(light, audio_path=namesake)]
        read_by_base(other, base.decoder, refuse, tmp_path / "kept", lambda *_: None)


def test_the_studio_brings_passages_of_a_window_each_in_ten_languages() -> None:
    found = passages(TrainingConfig())
    assert len({example.language for example in found}) > 10
    assert all(10 < (example.duration_seconds or 0) <= 30 for example in found)
    assert sum(path.stat().st_size for path in PASSAGES.parent.iterdir()) < 3 * 1024**2


def test_no_sentence_that_is_rehearsed_is_in_the_sample_of_the_check_after_a_run() -> None:
    """Some of the passages are of the sample's kind; it would show nothing if they were of its words."""
    said = written_passages(random.Random(PASSAGES_SEED))
    rehearsed = {sentence.strip(" .?!").lower() for passage in said for sentence in _sentences(passage.text)}
    checked = {row.text for row in clips_in_other_languages("", ("zh",), 40)}
    assert len(said) == len(passages(TrainingConfig())) and len(rehearsed) > 60 and len(checked) > 20
    assert not rehearsed & checked


def windows_of(count: int, per_batch: float) -> Windows:
    """Numbered windows."""
    example = Example(Path("a.wav"), "", "en", None, None, None, 30.0, (), 1)
    clips = [Clip(replace(example, line=number), "en", "transcribe", (1,)) for number in range(count)]
    return Windows(clips, per_batch, seed=3)


@pytest.mark.parametrize(("per_batch", "wanted"), [(1.0, 100), (0.5, 50), (2.0, 200), (0.125, 12)])
def test_each_batch_has_its_share_of_windows_and_all_come_equally_often(
    per_batch: float, wanted: int
) -> None:
    windows = windows_of(10, per_batch)
    seen = [clip.example.line for batch in range(100) for clip in windows.beside(batch)]
    assert len(seen) == wanted
    counts = Counter(seen)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert seen == [
        clip.example.line for batch in range(100) for clip in windows_of(10, per_batch).beside(batch)
    ]
    assert seen[:10] != seen[10:20], "each round has an order of its own"


def test_a_window_sounds_different_each_time_and_its_times_follow(base: Base, tmp_path: Path) -> None:
    tokens, features = base.decoder.tokens, FeatureSource(base.decoder.extractor, keep=True)
    windows = passages(sounds(tmp_path, "kitchen-light.flac"))
    (light,) = read_by_base(windows, base.decoder, features, tmp_path / "kept", lambda *_: None)
    varied = Windows([light], 1.0, seed=3, first_time=tokens.first_time)
    rounds = [varied.beside(number)[0] for number in range(12)]
    assert len({features(clip).tobytes() for clip in rounds}) > 8
    assert [features(clip).tobytes() for clip in rounds] == [
        features(varied.beside(number)[0]).tobytes() for number in range(12)
    ]
    end = light.labels[-2] - tokens.first_time
    assert end > 100, "two seconds, in steps of 0.02"
    for clip in rounds:
        assert clip.draw is not None
        assert clip.labels[-2] - tokens.first_time == round(end / clip.draw.speed)
        text, said = ([t for t in label if not tokens.is_time(t)] for label in (clip.labels, light.labels))
        assert text == said
    assert len({clip.labels for clip in rounds}) > 4
    assert Windows([light], 1.0, seed=3).beside(5) == [light]
    late = replace(light, labels=(*light.labels[:-2], tokens.last_time, tokens.end))
    varied = replace(varied, clips=[late])
    assert max(t for number in range(12) for t in varied.beside(number)[0].labels) == tokens.last_time


def test_nothing_that_can_be_rehearsed_is_no_error() -> None:
    assert windows_of(0, 1.0).beside(7) == []


def test_a_run_that_rehearses_and_was_resumed_equals_an_unbroken_one(demo_runs: Runs, light: str) -> None:
    changes = {
        **REHEARSED,
        "replay_data": light,
        "replay_share": 0.5,
        "gradient_accumulation_steps": 2,
        "save_steps": 1,
        "max_train_samples": 6,
        "per_device_train_batch_size": 1,
    }
    unbroken = demo_runs.finished("unbroken", **changes)
    broken = demo_runs.broken(2, **changes)
    assert_same_weights(unbroken.checkpoints / "checkpoint-3", broken.checkpoints / "checkpoint-3")
    unvaried = demo_runs.new("unvaried", **changes, replay_augmentation=False)
    without = demo_runs.new("without", **{**changes, "replay_share": 0.0})
    for run in (unvaried, without):
        demo_runs.carry_out(run, stop_at=2)
        assert losses(run)[2] != losses(unbroken)[2]
    assert losses(without)[1] == losses(unbroken)[1], "the curve is that of the clips alone"


def test_what_is_rehearsed_counts_as_much_however_a_step_is_divided(demo_runs: Runs, light: str) -> None:
    """That it is learned is told by `test_a_run_that_rehearses_and_was_resumed_equals_an_unbroken_one`."""
    same = {**REHEARSED, "replay_data": light, "max_train_samples": 2, "max_steps": 1, "short_audio": "off"}
    same |= {"replay_share": 1.0, "timestamps": False}  # of which half are drawn, otherwise in other batches
    once = demo_runs.finished("once", **same, per_device_train_batch_size=2)
    twice = demo_runs.finished("twice", **same, per_device_train_batch_size=1, gradient_accumulation_steps=2)
    first, second = (told(run, "step")[0] for run in (once, twice))
    assert first["grad_norm"] == pytest.approx(second["grad_norm"], rel=1e-3)


@pytest.mark.parametrize("per_batch", [0.5, 1.0, 1.5])
def test_all_processes_rehearse_as_many_windows_beside_a_batch_and_each_its_own(per_batch: float) -> None:
    windows = windows_of(100, per_batch)
    first, second = (
        [[clip.example.line for clip in windows.beside(batch, rank, 2)] for batch in range(10)]
        for rank in range(2)
    )
    assert [len(row) for row in first] == [len(row) for row in second]
    seen = [line for rows in (first, second) for row in rows for line in row]
    assert len(seen) == len(set(seen)) == 20 * per_batch


@pytest.mark.parametrize(("named", "wanted"), [("English", "en"), ("en", "en"), ("no language", "")])
def test_a_language_is_found_by_its_name(named: str, wanted: str) -> None:
    example = Example(Path("a.wav"), "", named, None, None, None, 5.0, (), 1)
    assert _language(example, ("de", "en")) == wanted


def test_with_deepspeed_nothing_is_rehearsed() -> None:
    config = TrainingConfig(num_processes=2)
    assert rehearses(config) and not rehearses(replace(config, sharding="zero2"))


def test_a_run_of_an_earlier_version_rehearses_nothing_and_keeps_its_learning_rate(
    demo_runs: Runs,
) -> None:
    changes = {**REHEARSED, "learning_rate": None, "save_steps": 1, "per_device_train_batch_size": 2}
    run = demo_runs.new("run", **changes)
    values = {name: value for name, value in read_json(run.config).items() if "replay" not in name}
    write_json(run.config, {**values, "schema_version": 1})
    assert read_config(run.config).replay_share == 0
    assert demo_runs.carry_out(run, stop_at=1).state == "stopped"
    lines = run.events.read_text("utf-8").splitlines()
    told_before = [{**json.loads(line), "learning_rate": 0.0123} for line in lines]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in told_before), "utf-8")
    assert demo_runs.carry_out(run).state == "finished"
    assert [plan["learning_rate"] for plan in told(run, "plan")] == [0.0123, 0.0123]
    assert not (demo_runs.settings.cache / "replay").exists()


def test_whoever_gives_recordings_of_which_nothing_can_be_read_is_told(
    demo_runs: Runs, tmp_path: Path
) -> None:
    silence = sounds(tmp_path / "silence", "silence.flac").replay_data
    changes = {**REHEARSED, "replay_data": silence, "replay_share": 0.125, "max_steps": 1}
    run = demo_runs.finished(**changes)
    assert any("No rehearsal" in warning["template"] for warning in told(run, "warning"))


def test_memory_is_planned_for_whole_windows_beside_short_clips() -> None:
    short = {"short_audio": "on", "max_audio_len": 2.0, "per_device_train_batch_size": 1}
    config = TrainingConfig(**short, eval_strategy="no")  # type: ignore[arg-type]
    tiny = ModelDimensions.from_config(read_json(DEMO_MODEL / "config.json"))
    plan, alone = (
        replace(training_plan(replace(config, replay_share=share), has_gpu=True), label_length=8)
        for share in (0.125, 0.0)
    )
    assert (plan.window_label_length, alone.window_label_length) == (225, 0)
    most, least = (estimate_training(each, tiny).phases[Phase.BACKWARD] for each in (plan, alone))
    whole = replace(alone, audio_positions=1500, label_length=225, gradient_accumulation_steps=2)
    assert most == estimate_training(whole, tiny).phases[Phase.BACKWARD] > least
    assert plan.with_window.eval_label_length == 8, "nothing is rehearsed in evaluation"
    distilled = replace(config, distill=True)
    assert not training_plan(distilled, has_gpu=True).window_label_length, "it is taught by the base anyway"
