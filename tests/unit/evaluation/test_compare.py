"""Models side by side: rates, comparisons, utterances, and clips that cannot be used."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from studio.dataset.audio import read_audio, save_pcm
from studio.errors import ConfigError, ManifestError, ModelNotFoundError
from studio.evaluation.compare import _sounds_of
from studio.evaluation.corrections import clip_of, save_list
from studio.evaluation.result import Evaluation
from studio.evaluation.side_by_side import hear_side_by_side
from studio.options.choices import FASTER_WHISPER
from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from tests.reading import evaluate, read_manifest

PLAIN = TranscribeOptions(timestamps="none", max_new_tokens=30)


@pytest.fixture(scope="module")
def manifest(demo_speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine clips of two sentences, eight whole and one that is shorter than the file it is in."""
    rows = json.loads((demo_speech / "samples" / "samples.json").read_text(encoding="utf-8"))
    command = next(row for row in rows if row["file"].startswith("kitchen-light"))
    first = command["segments"][0]
    whole = {"audio": str(demo_speech / "samples" / command["file"]), "text": command["text"]}
    part = {"path": whole["audio"], "start_time": 0.0, "end_time": first["end"] + 0.2}
    return write_rows(
        tmp_path_factory.mktemp("clips") / "test.jsonl",
        [{**whole, "language": "en"}] * 8 + [{"audio": part, "text": first["text"]}],
    )


@pytest.fixture(scope="module")
def compared(engines: ModelCache, manifest: Path) -> tuple[Evaluation, list[tuple[int, int]]]:
    """The demo model beside one that garbles, and what was told on the way."""
    told: list[tuple[int, int]] = []
    models = ["demo", "garbling"]
    found = evaluate(engines, models, str(manifest), options=PLAIN, on_progress=lambda *at: told.append(at))
    return found, told


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_models_are_compared_with_the_first_on_the_same_clips(
    compared: tuple[Evaluation, list[tuple[int, int]]],
) -> None:
    found, told = compared
    base, garbling = found.models
    assert (base.id, garbling.id) == ("demo", "garbling")
    assert base.n == garbling.n == 9
    assert base.cer < 0.2 < 0.5 < garbling.cer
    assert base.real_time_factor > 0
    for row in found.comparisons:
        assert (row.a, row.b) == ("demo", "garbling")
        assert row.difference > 0
        assert row.significant == (row.ci_low > 0)
    assert [row.metric for row in found.comparisons] == ["wer", "cer"]
    assert [row.model for row in found.utterances[:4]] == ["demo", "garbling"] * 2
    assert len(found.utterances) == 18
    assert told[0] == (8, 18)
    assert told[-1] == (18, 18)


def test_models_are_compared_as_faster_whisper_plays_them(
    demo_model: Path, manifest: Path, tmp_path: Path
) -> None:
    """Each is exported once, and says so."""
    registry = ModelRegistry(tmp_path / "models", demo=demo_model, hf_cache=None)
    cache = ModelCache(registry, idle_seconds=300, device="cpu", exports=Exporter(registry))
    doing: list[str] = []
    choice, clips = EngineChoice(FASTER_WHISPER, "int8"), str(manifest)
    asked: dict[str, Any] = {"options": PLAIN, "choice": choice, "max_samples": 2}
    found = evaluate(cache, ["demo"], clips, **asked, on_step=lambda step, _: doing.append(str(step)))
    assert found.models[0].id == "demo" and found.models[0].cer < 0.2
    assert doing
    clip = Path(found.utterances[0].audio_path)
    side = hear_side_by_side(cache, ["demo"], clip, PLAIN, choice=choice)
    assert side.hearings[0].transcript.engine == FASTER_WHISPER
    cache.close()


def test_the_answer_has_the_shape_that_programs_read(engines: ModelCache, manifest: Path) -> None:
    asked: dict[str, Any] = {"options": PLAIN, "normalizer": "basic", "max_samples": 2, "non_speech": True}
    found = evaluate(engines, ["demo"], str(manifest), **asked)
    answer = json.loads(json.dumps(found.to_json()))
    assert answer["schema_version"] == 1
    assert answer["comparisons"] == []
    (row,) = answer["models"]
    assert {"id", "wer", "cer", "mer", "normalizer", "n", "real_time_factor"} <= row.keys()
    assert row["non_speech"].keys() == {"words_per_hour", "loop_rate", "seconds"}
    assert (row["normalizer"], row["n"]) == ("basic", 2)
    assert {"model", "audio_path", "reference", "hypothesis"} <= answer["utterances"][0].keys()


def test_a_clip_that_is_longer_than_the_models_hear_of_strangers_is_left_out(
    engines: ModelCache, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part of a file is shorter than the whole."""
    monkeypatch.setattr(engines, "longest_seconds", 3.0)
    found = evaluate(engines, ["demo"], str(manifest), options=PLAIN)
    assert found.models[0].n == 1 and len(found.problems) == 8
    assert "is too long: here a recording may last" in str(found.problems[0].reason)


def test_a_clip_that_cannot_be_used_is_left_out_for_all_and_named(
    engines: ModelCache, demo_speech: Path, tmp_path: Path
) -> None:
    good = demo_speech / "samples" / "kitchen-light.flac"
    bad = tmp_path / "bad.wav"
    bad.write_text("not a sound", encoding="utf-8")
    rows = [{"audio": str(file), "text": "turn on", "duration": 2.0} for file in (bad, good)]
    path = write_rows(tmp_path / "test.jsonl", [*rows, {**rows[1], "language": "Klingon"}])
    found = evaluate(engines, ["demo", "garbling"], str(path), options=PLAIN)
    assert [row.n for row in found.models] == [1, 1]
    assert {str(row.place) for row in found.utterances} == {"line 2"}
    assert [(problem.line, problem.audio_path) for problem in found.problems] == [
        (1, str(bad)),
        (3, str(good)),
    ]
    other = write_rows(tmp_path / "other.jsonl", rows[1:])
    of_both = evaluate(engines, ["demo"], f"{path},{other}", options=PLAIN)
    assert [str(row.place) for row in of_both.utterances] == [
        f"line 2 of {tmp_path.name}/test.jsonl",
        f"line 1 of {tmp_path.name}/other.jsonl",
    ]
    write_rows(path, rows[:1])
    with pytest.raises(ManifestError, match=r"bad\.wav|Not one clip"):
        evaluate(engines, ["demo"], str(path), options=PLAIN)


def test_a_clip_of_over_thirty_seconds_is_heard_whole_and_stands_where_its_list_has_it(
    engines: ModelCache, demo_speech: Path, tmp_path: Path
) -> None:
    command = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    pause = (5e-4 * np.random.default_rng(0).standard_normal(28 * 16_000)).astype(np.float32)
    save_pcm(np.concatenate([command, pause, command]), 16_000, tmp_path / "long.flac")
    save_pcm(command, 16_000, tmp_path / "short.flac")
    rows = [{"audio": f"{name}.flac", "text": "turn on"} for name in ("short", "long")]
    path = write_rows(tmp_path / "test.jsonl", rows)
    with engines.lease("demo") as engine:
        once = engine.transcribe_samples([command], 4.0, TranscribeOptions()).text
    asked: dict[str, Any] = {"options": PLAIN, "kept": tmp_path / "kept"}
    found = evaluate(engines, ["demo"], str(path), **asked)
    assert [row.line for row in found.utterances] == [1, 2]
    assert found.utterances[1].hypothesis.count(once.split()[-1]) >= 2
    corrections = {clip_of(read_manifest(path).examples[0]): "something else"}
    again = evaluate(engines, ["demo"], str(path), corrections=corrections, **asked)
    assert [row.line for row in again.utterances] == [1, 2], "the long one was heard, and kept, first"


def test_a_stop_gives_rates_over_what_is_done(engines: ModelCache, manifest: Path) -> None:
    told: list[int] = []
    found = evaluate(
        engines,
        ["demo", "garbling"],
        str(manifest),
        options=PLAIN,
        on_progress=lambda done, _: told.append(done),
        should_stop=lambda: bool(told),
    )
    assert [(row.id, row.n) for row in found.models] == [("demo", 8)]
    assert found.comparisons == ()
    nothing = evaluate(engines, ["demo"], str(manifest), options=PLAIN, should_stop=lambda: True)
    assert nothing.models == nothing.utterances == ()


def test_an_evaluation_that_was_cut_short_goes_on_where_it_was(
    engines: ModelCache,
    manifest: Path,
    compared: tuple[Evaluation, list[tuple[int, int]]],
    tmp_path: Path,
) -> None:
    """In whatever moment: a line that was torn is heard again, and another question is another evaluation."""
    kept, told = tmp_path / "kept", list[int]()
    asked: dict[str, Any] = {"options": PLAIN, "kept": kept}
    whole, _ = compared
    evaluate(
        engines,
        ["demo"],
        str(manifest),
        **asked,
        on_progress=lambda done, _: told.append(done),
        should_stop=lambda: bool(told),
    )
    (file,) = kept.iterdir()
    assert (told, len(file.read_text("utf-8").splitlines())) == ([8], 1)
    file.write_text(file.read_text("utf-8") + '{"clips": [[8, "torn', "utf-8")
    evaluate(engines, ["demo"], str(manifest), **{**asked, "options": replace(PLAIN, max_new_tokens=2)})
    told.clear()
    found = evaluate(
        engines, ["demo", "garbling"], str(manifest), **asked, on_progress=lambda done, _: told.append(done)
    )
    assert told[0] == 9, "the first eight of the first model are not heard again"
    assert found.utterances == whole.utterances
    assert "same clips: 8." in str(found.taken_up) and whole.taken_up is None


def refuse_to_load(*_: object) -> NoReturn:
    raise AssertionError("a model was loaded")


def test_the_same_clips_with_other_references_are_not_heard_again(
    engines: ModelCache, manifest: Path, tmp_path: Path
) -> None:
    """The model is not even loaded; who asks for the very same evaluation has it heard again."""
    kept, clips = tmp_path / "kept", read_manifest(manifest)
    asked: dict[str, Any] = {"options": PLAIN, "kept": kept, "max_samples": 2}
    first = evaluate(engines, ["demo"], str(manifest), **asked)
    corrections = {clip_of(clips.examples[0]): "something else"}
    unloaded = ModelCache(engines._registry, idle_seconds=300, load=refuse_to_load)
    again = evaluate(unloaded, ["demo"], str(manifest), corrections=corrections, **asked)
    assert [row.hypothesis for row in again.utterances] == [row.hypothesis for row in first.utterances]
    assert again.models[0].real_time_factor == first.models[0].real_time_factor
    assert [row.reference for row in again.utterances] == ["something else", first.utterances[1].reference]
    assert again.utterances[0].wer > first.utterances[0].wer
    new = tmp_path / "new.jsonl"
    save_list(clips, corrections, new)
    told: list[int] = []
    saved = evaluate(unloaded, ["demo"], str(new), **asked, on_progress=lambda done, _: told.append(done))
    assert (saved.models, told) == (again.models, [])
    evaluate(engines, ["demo"], str(new), **asked, on_progress=lambda done, _: told.append(done))
    assert told[0] == 2
    clip = clips.examples[0]
    other = replace(clip, audio_path=tmp_path / clip.audio_path.name)
    other.audio_path.write_bytes(bytes(clip.audio_bytes))
    assert _sounds_of([other]) != _sounds_of([clip]), "other sound of the same name and size"


def test_what_cannot_be_compared_is_refused(engines: ModelCache, manifest: Path) -> None:
    for models, told, sentence in (
        ([], {}, "No model is given"),
        (["demo", "demo"], {}, "demo is given twice"),
        (["demo"], {"normalizer": "klingon"}, "normalizer must be one of .* got 'klingon'"),
        (["demo"], {"options": TranscribeOptions(language="yue")}, "does not know the language"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            evaluate(engines, models, str(manifest), **{"options": PLAIN, **told})
    with pytest.raises(ModelNotFoundError):
        evaluate(engines, ["nobody"], str(manifest), options=PLAIN)


def test_a_model_that_cannot_hear_the_clips_is_named_before_the_first_one_hears_any(
    demo_model: Path, demo_speech: Path, tmp_path: Path
) -> None:
    """The second of two models, known by what its folder says: no weights are loaded."""
    english = tmp_path / "models" / "english"
    shutil.copytree(demo_model, english)
    path = english / "generation_config.json"
    said = {**json.loads(path.read_text("utf-8")), "is_multilingual": False}
    path.write_text(json.dumps(said), encoding="utf-8")
    registry = ModelRegistry(english.parent, demo=demo_model, hf_cache=None)
    cache = ModelCache(registry, idle_seconds=300, load=refuse_to_load)
    sound = str(demo_speech / "samples" / "kitchen-light.flac")
    rows = [{"audio": sound, "text": "on", "language": code} for code in ("English", "zh-TW")]
    clips = str(write_rows(tmp_path / "test.jsonl", rows))
    for options, sentence in (
        (PLAIN, r"english knows English only, and line 2 of .*test\.jsonl is to be heard as zh"),
        (replace(PLAIN, language="German"), r"english knows English only, and line 1 .* heard as de"),
        (replace(PLAIN, language="en", task="translate"), "english knows English only and has nothing to"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            evaluate(cache, ["demo", "english"], clips, options=options)
    in_english = replace(PLAIN, language="en")
    assert not evaluate(
        cache, ["demo", "english"], clips, options=in_english, should_stop=lambda: True
    ).models
    with pytest.raises(ModelNotFoundError):
        evaluate(cache, ["demo", "nobody"], clips, options=PLAIN)
    write_rows(tmp_path / "test.jsonl", [{**rows[0], "language": "Klingon"}])
    with pytest.raises(ManifestError, match=r"Not one clip .* line 1: 'Klingon' is no language of Whisper"):
        evaluate(cache, ["demo"], clips, options=PLAIN)
