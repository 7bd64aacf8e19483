"""What tuning is known to break, measured on real models: the demo model, and one that has lost something."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from studio.dataset.example import read_clips
from studio.evaluation import capabilities, non_speech
from studio.evaluation.capabilities import (
    CHECKS,
    Capability,
    CapabilityReport,
    KeptReadings,
    _compared,
    check_capabilities,
    verdict_of,
)
from studio.evaluation.metrics import interval_of
from studio.evaluation.non_speech import recordings
from studio.files import read_json, write_json
from studio.transcription.model_cache import ModelCache
from tests.reading import clips_in_other_languages, read_manifest


@pytest.fixture(autouse=True)
def short_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three or four clips are joined, which tells the same sooner than a minute of them."""
    monkeypatch.setattr(capabilities, "_LONG_SECONDS", 9.0)


@pytest.fixture(scope="module")
def heard_by_base(tmp_path_factory: pytest.TempPathFactory) -> KeptReadings:
    """What the demo model reads, for all reports that hear the same in short recordings."""
    return KeptReadings(tmp_path_factory.mktemp("readings") / "readings.json", "demo")


def deaf_to_english(model: Path, folder: Path) -> Path:
    """A copy to which English is the least likely of all languages."""
    shutil.copytree(model, folder)
    english = read_json(folder / "generation_config.json")["lang_to_id"]["<|en|>"]
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if "embed_tokens" in name or "proj_out" in name:
            tensor[english] *= -1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "model.json", {"schema_version": 1, "kind": "base", "base_model": "demo"})
    return folder


def test_a_model_that_mishears_the_language_is_found_out_and_its_base_is_not(
    engines: ModelCache, demo_model: Path, demo_speech: Path, heard_by_base: KeptReadings, tmp_path: Path
) -> None:
    broken = deaf_to_english(demo_model, tmp_path / "broken")
    examples = read_manifest(str(demo_speech / "validation.jsonl")).examples[:4]
    others = clips_in_other_languages("", ("zh",), 40)
    told: list[tuple[int, int]] = []

    def note(*done_of: int) -> None:
        told.append((done_of[0], done_of[1]))

    asked = (engines, str(broken), "demo", examples, others)
    report = check_capabilities(*asked, kept=heard_by_base, on_progress=note)
    assert told == sorted(told) and told[0] == (0, 100)
    assert len([done for done, _ in told if 0 < done < 45]) > 1, "of the first check, too"
    rows = {row.check: row for row in report.checks}
    assert tuple(rows) == CHECKS and report.unchecked == ()
    assert (rows["language"].base, rows["language"].tuned) == (1.0, 0.0)
    assert report.lost == ("language",), "told that it is English, it still hears the words"
    assert rows["other_languages"].base > 0.4 < rows["other_languages"].tuned
    assert rows["other_languages"].clips > 2
    assert rows["silence"].base >= 0.5 and rows["timestamps"].base == 1.0
    assert rows["silence"].clips == len(recordings()) and report.non_speech is not None
    base, tuned = report.non_speech
    assert report.to_json()["non_speech"]["base"]["words_per_hour"] == base.words_per_hour
    assert base.seconds == tuned.seconds == 180 and (base.words_per_hour == 0) == (rows["silence"].base == 1)
    assert all(0 <= share <= 1 for row in report.checks for share in (row.base, row.tuned))
    assert report.to_json()["lost"] == ["language"] and report.to_json()["unchecked"] == []


@pytest.mark.parametrize("name", ["English", "en-US", "EN", "<|en|>"])
def test_a_language_counts_as_heard_however_its_list_spells_it(
    engines: ModelCache, demo_speech: Path, name: str
) -> None:
    example = replace(read_manifest(str(demo_speech / "validation.jsonl")).examples[0], language=name)
    with engines.lease("demo") as engine:
        assert capabilities._language(engine, list(read_clips([example]))) == [(0, 0, 1)]


def test_in_a_long_recording_the_script_of_chinese_is_no_error(
    engines: ModelCache, micro_model: Path, demo_speech: Path, tmp_path: Path
) -> None:
    (clip,) = read_clips(read_manifest(str(demo_speech / "validation.jsonl")).examples[:1])
    recordings = capabilities._recordings([(replace(clip[0], language="zh", text="我们说话"), clip[1])])
    kept = KeptReadings(tmp_path / "readings.json", "one")
    written = "我們說話" * len(recordings[0].texts)
    kept.read(recordings[0].samples, "zh", lambda: written, lambda: False)
    with engines.lease(str(micro_model)) as engine:
        parts = capabilities._long_form(engine, recordings, kept, lambda: False, lambda share: None)
    assert {part[1:] for part in parts} == {(0, 4)}


def test_a_long_recording_of_something_else_that_is_lost_is_found_out(
    engines: ModelCache, mute_model: Path, heard_by_base: KeptReadings
) -> None:
    others = clips_in_other_languages("", ("zh",), 40)
    report = check_capabilities(engines, str(mute_model), "demo", (), others, kept=heard_by_base)
    (row,) = (row for row in report.checks if row.check == "other_languages")
    assert row.base > 0.4 and row.tuned < 0.1 and "other_languages" in report.lost
    assert report.unchecked == ("long_form", "timestamps", "language"), "there was nothing to listen to"


def test_what_the_base_reads_is_kept_for_the_next_run(
    engines: ModelCache, mute_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = clips_in_other_languages("", ("zh",), 40)[:6]
    silence = recordings()[:1]
    monkeypatch.setattr(non_speech, "recordings", lambda: silence)

    def base_reads(revision: str) -> float:
        kept = KeptReadings(tmp_path / "cache" / "readings.json", revision)
        report = check_capabilities(engines, str(mute_model), "demo", (), others, kept=kept)
        return next(row.base for row in report.checks if row.check == "other_languages")

    right = base_reads("one")
    rows = read_json(tmp_path / "cache" / "readings.json")
    assert len(rows) == 1 + len(silence) and right > 0.5
    (tmp_path / "cache" / "readings.json").write_text(json.dumps(dict.fromkeys(rows, "")), "utf-8")
    assert base_reads("one") == 0.0, "it was not read again"
    assert base_reads("two") == right, "another model reads for itself"


def test_when_time_is_over_what_was_not_checked_is_called_so(engines: ModelCache, demo_speech: Path) -> None:
    asked = iter([False] * 3)
    examples = read_manifest(str(demo_speech / "validation.jsonl")).examples[:4]
    report = check_capabilities(engines, "demo", "demo", examples, should_stop=lambda: next(asked, True))
    assert report.checks == () and report.unchecked == CHECKS
    assert report.to_json()["non_speech"] is None and report.why_unchecked == {}, "it was stopped"
    late = check_capabilities(engines, "demo", "demo", examples, is_late=lambda: True)
    why = {**dict.fromkeys(CHECKS, "time"), "other_languages": "nothing"}
    assert late.checks == () and late.to_json()["why_unchecked"] == why


def test_of_a_long_recording_that_was_read_in_part_that_part_counts(
    engines: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "_LONG_SECONDS", 40.0)
    others = clips_in_other_languages("", ("zh",), 40)
    done = [0]
    report = check_capabilities(
        *(engines, "demo", "demo", (), others),
        is_late=lambda: done[-1] > 45 + 25 / 2,  # the model has heard a window
        on_progress=lambda hundredths, _: done.append(hundredths),
    )
    (row,) = report.checks
    assert row.check == "other_languages" and 5 < row.clips < 15
    assert (row.low, row.high) == (0.0, 0.0) and row.base == row.tuned > 0.4, "the same sentences of both"
    assert report.why_unchecked["silence"] == "time"


def test_how_long_recordings_are_to_be_read_is_found_out_however_slow_the_machine_is(
    engines: ModelCache, mute_model: Path, demo_speech: Path
) -> None:
    examples = read_manifest(str(demo_speech / "validation.jsonl")).examples[:8]
    mute = str(mute_model)
    report = check_capabilities(engines, mute, mute, examples, is_late=lambda: True, clip_errors=0.1)
    assert [row.check for row in report.checks] == ["long_form"]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.20, -0.03, "worse"),
        (-0.20, 0.01, "unclear"),
        (-0.04, 0.06, "kept"),
        (-0.015, -0.001, "kept"),
        (0.01, 0.30, "better"),
        (-0.40, 0.90, "unclear"),
        (0.0, 0.0, "kept"),
    ],
)
def test_the_interval_says_what_can_be_told(low: float, high: float, verdict: str) -> None:
    found = Capability("language", 0.9, 0.9 + (low + high) / 2, 8, low, high)
    assert (found.verdict, found.is_kept) == (verdict, verdict != "worse")
    assert verdict_of({"is_kept": found.is_kept}) in ("kept", "worse")
    assert verdict_of(CapabilityReport("tuned", "base", (found,)).to_json()["checks"][0]) == verdict


def test_where_the_base_could_do_nothing_nothing_was_kept() -> None:
    for tuned, verdict in ((0.0, "neither"), (0.1, "kept")):
        found = Capability("long_form", 0.0, tuned, 8, 0.0, tuned)
        assert (found.verdict, found.is_kept) == (verdict, True)
    assert Capability("long_form", 0.0, 0.0, 2, 0.0, 0.0).verdict == "unclear"
    for low, high in ((0.05, 1.0), (-1.0, -0.05)):  # twice as many errors as words, and thrice
        assert Capability("long_form", 0.0, 0.0, 20, low, high).verdict == "neither"
    assert Capability("long_form", 0.0, 0.016, 20, 0.27, 1.0).verdict == "neither", "a word in 60"


@pytest.mark.parametrize(("check", "known"), [("language", False), ("silence", True)])
@pytest.mark.parametrize("clips", [1, 2, 3, 4])
@pytest.mark.parametrize("change", [-1.0, -0.05, 0.0, 0.05])
def test_of_a_clip_or_two_nothing_can_be_told(check: str, known: bool, clips: int, change: float) -> None:
    found = Capability(check, 0.9, 0.9 + change, clips, change, change)
    is_told = known or (change == -1.0 and clips > 2)
    assert (found.verdict == "unclear") is not is_told


def test_more_errors_than_words_count_as_no_word_right() -> None:
    found = _compared("long_form", base=[(14, 10), (9, 10), (12, 10)], tuned=[(1, 10), (2, 10), (0, 10)])
    assert (found.base, found.tuned) == (0.0, pytest.approx(0.9))
    assert 0.5 < found.low <= found.high == 1.0, "no more can be gained"
    same = _compared("silence", base=[(0, 1)] * 4, tuned=[(0, 1)] * 4)
    assert str((same.low, same.high)) == "(0.0, 0.0)"


@pytest.mark.parametrize(("lost", "verdict"), [(0, "kept"), (1, "unclear"), (2, "unclear"), (3, "worse")])
def test_of_eight_clips_one_or_two_are_chance(lost: int, verdict: str) -> None:
    base, tuned = [(0, 1)] * 8, [(1, 1)] * lost + [(0, 1)] * (8 - lost)
    _, low, high = interval_of(base, tuned)
    assert Capability("timestamps", 1.0, 1 - lost / 8, 8, -high, -low).verdict == verdict


def test_what_a_base_reads_for_the_first_time_is_on_top_of_the_time_there_is(tmp_path: Path) -> None:
    sound = np.zeros(100, np.float32)
    kept, nowhere = KeptReadings(tmp_path / "readings.json", "one"), KeptReadings(None, "one")

    def write() -> str:
        began = time.monotonic()
        while (seconds := time.monotonic() - began) < 0.002:
            pass
        assert kept.first_seconds >= seconds, "the check's own clock stands still"
        return "whole"

    kept.read(sound, "en", write, lambda: False)
    spent = kept.first_seconds
    kept.read(sound, "en", write, lambda: False)
    nowhere.read(sound, "en", lambda: "whole", lambda: False)
    assert kept.first_seconds == spent > 0
    assert nowhere.first_seconds == 0, "what is not kept would take its time again in each run"


def test_what_was_cut_short_is_not_kept(tmp_path: Path) -> None:
    sound = np.zeros(100, np.float32)
    kept = KeptReadings(tmp_path / "readings.json", "one")
    assert kept.read(sound, "en", lambda: "half", lambda: True) == "half"
    assert kept.read(sound, "en", lambda: "whole", lambda: False) == "whole"
    again = KeptReadings(tmp_path / "readings.json", "one")
    assert again.read(sound, "en", lambda: "not asked", lambda: False) == "whole"
