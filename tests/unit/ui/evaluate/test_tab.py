"""A corrected list, written beside the old one or, on a Space, brought down by its visitor."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.dataset.example import RowProblem
from studio.evaluation.corrections import clip_of
from studio.evaluation.explorer import Explorer
from studio.evaluation.result import ComparisonRow, Evaluation
from studio.messages import Message
from studio.settings import Settings
from studio.translation import said
from studio.ui.evaluate.tab import _brought_down, _kept_corrections, _looked_into, _saved, _whole
from tests.reading import read_manifest
from tests.unit.evaluation.test_explorer import evaluation

SAID = ["turn on", "the light", "off"]


def test_a_list_is_saved_with_its_corrections_and_looked_into_at_once(
    settings: Settings, demo_speech: Path, tmp_path: Path
) -> None:
    """A row that cannot be used is in no new list: clips have the lines that they have there."""
    sounds = [str(demo_speech / "audio" / f"test-00{n}.ogg") for n in range(3)]
    rows = [{"path": "gone.wav", "text": "x"}] + [
        {"path": sound, "text": text} for sound, text in zip(sounds, SAID, strict=True)
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = evaluation(SAID, SAID)
    clips = [
        replace(row, audio_path=sound, line=row.line + 1)
        for row, sound in zip(made.utterances, sounds, strict=True)
    ]
    found = replace(made, source=str(path), utterances=tuple(clips))
    kept = _kept_corrections(settings, found.source)
    assert kept is not None
    kept.put(clip_of(clips[1]), "the lights")
    assert _looked_into(found, settings, "en").corrected == {1: "the lights"}, "after a restart, too"
    files = [_looked_into(found, settings, "en", has_sound=wanted).files for wanted in (True, False)]
    assert [one["html"].count("data:audio") for one in files] == [3, 0]
    assert json.loads(files[0]["json"])["errors"][0]["words"][0]["word"] == "light"
    hours = replace(found, utterances=(*clips[:2], replace(clips[2], duration_seconds=7200.0)))
    assert "html" not in _looked_into(hours, settings, "en", has_sound=True).files, "nor is it packed in vain"
    after, told, data = _saved(found, kept.read(), settings, "en")
    assert data == str(tmp_path / "list-corrected.jsonl") == after.source and data in told
    assert "not in the new one, because they cannot be used: 1." in told and "gone.wav" in told
    assert not after.problems, "which are those of the old list"
    assert [(row.line, row.reference) for row in after.utterances] == [
        (1, "turn on"),
        (2, "the lights"),
        (3, "off"),
    ]
    assert [clip_of(clip) for clip in read_manifest(data).examples] == list(map(clip_of, after.utterances))
    saved = [json.loads(line) for line in Path(data).read_text("utf-8").splitlines()]
    assert saved == [rows[1], {**rows[2], "text": "the lights"}, rows[3]]
    assert (after.models[0].wer, Explorer(after).errors[0].errors.tolist()) == (0.2, [0, 1, 0])


def test_models_are_called_as_where_they_are_chosen_and_have_their_ids_in_files(settings: Settings) -> None:
    names = {"a": "Demo model", "b": "Mine"}.__getitem__
    made = evaluation(SAID, SAID, ["turn on", "the night", "off"])
    pair: dict[str, Any] = {
        "a": "a",
        "b": "b",
        "metric": "wer",
        "better": 0,
        "worse": 1,
        "significant": False,
    }
    pair |= {"difference": 0.2, "ci_low": -0.1, "ci_high": 0.3}
    found = _looked_into(replace(made, comparisons=(ComparisonRow(**pair),)), settings, "en", names)
    _, rates, comparisons, _, _, model, *_, scatter, _, clips, _, _, _, explorer = _whole(found, False, "en")
    for shown in (rates, comparisons, clips, found.files["html"], str(scatter.value)):
        assert "Demo model" in shown and "Mine" in shown
    assert model.choices == [("Demo model", "a"), ("Mine", "b")] and explorer.models == ["a", "b"]
    assert [row["id"] for row in json.loads(found.files["json"])["models"]] == ["a", "b"]


def test_rows_that_were_left_out_and_texts_of_before_are_told(settings: Settings) -> None:
    gone = RowProblem(7, Message("There is no audio file {path}.", path="gone.wav"), "gone.wav")
    made = replace(evaluation(SAID, SAID), problems=(gone,), heard_before=2)
    status = _whole(_looked_into(made, settings, "en"), False, "en")[0]
    assert re.search(r"cannot be used: 1\..*gone\.wav.*There is no audio file", status)
    assert "same clips: 2." in status
    saved = json.loads(json.dumps(made.to_json()))
    opened = _looked_into(Evaluation.from_json(saved), settings, "zh-CN")
    assert said(gone.reason, "zh-CN") in _whole(opened, False, "zh-CN")[0], "in the reader's language"
    saved["problems"][0] |= {"template": "{path:>99999999}"}
    opened = _looked_into(Evaluation.from_json(saved), settings, "zh-CN")
    assert str(gone.reason) in _whole(opened, False, "zh-CN")[0], "a sentence of another make is as it is"
    assert _whole(_looked_into(evaluation(SAID, SAID), settings, "en"), False, "en")[0] == ""


def test_on_a_space_the_download_has_the_columns_of_the_list_and_the_rows_that_were_evaluated(
    settings: Settings, demo_speech: Path, tmp_path: Path
) -> None:
    """What was corrected before stays corrected: there is no new list to go on with."""
    sounds = [str(demo_speech / "audio" / f"test-00{n}.ogg") for n in range(3)]
    rows = [
        {"id": n, "audio": sound, "text": text}
        for n, (sound, text) in enumerate(zip(sounds, SAID, strict=True))
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = evaluation(SAID[:2], SAID[:2])
    clips = [replace(row, audio_path=sound) for row, sound in zip(made.utterances, sounds[:2], strict=True)]
    found = replace(made, source=str(path), utterances=tuple(clips))
    once, _, _ = _brought_down(found, {clip_of(found.utterances[0]): "turn off"}, settings, "en")
    _, told, _ = _brought_down(once, {clip_of(once.utterances[1]): "the lights"}, settings, "en")
    (link,) = re.findall(r'href="data:[^,]*,([^"]*)"', told)
    assert [json.loads(line) for line in base64.b64decode(link).decode().splitlines()] == [
        {"id": 0, "audio": "test-000.ogg", "text": "turn off"},
        {"id": 1, "audio": "test-001.ogg", "text": "the lights"},
    ]


def test_on_a_space_the_list_is_a_download_that_says_nothing_of_the_server(settings: Settings) -> None:
    made = evaluation(SAID, SAID)
    found = replace(
        made,
        utterances=tuple(
            replace(row, audio_path=f"/srv/secret/{n}.ogg") for n, row in enumerate(made.utterances)
        ),
    )
    after, told, _ = _brought_down(found, {clip_of(found.utterances[0]): "שלום"}, settings, "zh-TW")
    (link,) = re.findall(r'href="data:[^,]*,([^"]*)"', told)
    rows = [json.loads(line) for line in base64.b64decode(link).decode().splitlines()]
    assert [row["sentence"] for row in rows] == ["שלום", "the light", "off"]
    assert rows[0]["audio"] == {"path": "0.ogg"} and "secret" not in told + json.dumps(rows)
    assert after.utterances[0].reference == "שלום" and 'download="corrected.jsonl"' in told
    for stranger in (
        replace(settings, on_spaces=True, allow_training=False),
        replace(settings, on_spaces=True, visitor="somebody"),
    ):
        assert _kept_corrections(stranger, "demo:test") is None
