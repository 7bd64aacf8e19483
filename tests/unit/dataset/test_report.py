import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.dataset.example import Example
from studio.dataset.report import WARNINGS, DatasetReport, write_quarantine
from studio.errors import ManifestError
from tests.reading import check_dataset

from .conftest import sweep

RATE = 16_000


def voice(number: int, seconds: float = 2.0) -> np.ndarray:
    """A clip that differs from every other."""
    noise = np.random.default_rng(number).normal(0, 0.05, int(seconds * RATE))
    return (sweep(RATE, seconds) + noise).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Thirty good clips with as many texts."""
    rows = []
    for number in range(30):
        soundfile.write(tmp_path / f"{number}.wav", voice(number), RATE)
        rows.append({"audio": f"{number}.wav", "text": f"sentence number {number}", "language": "en"})
    write_rows(tmp_path / "train.jsonl", rows)
    return tmp_path


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def add(data: Path, name: str, samples: np.ndarray, text: str, **more: object) -> int:
    """Adds a clip to the list; its line."""
    soundfile.write(data / name, samples, RATE, subtype="FLOAT")
    path = data / "train.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"audio": name, "text": text, "language": "en", **more}) + "\n")
    return len(path.read_text().splitlines())


def kinds(report: DatasetReport) -> list[tuple[int, str]]:
    return [(problem.line, problem.kind) for problem in report.problems]


def test_good_data_has_no_problem_and_is_counted(data: Path) -> None:
    report = check_dataset(data / "train.jsonl")
    assert report.problems == ()
    assert (report.rows, report.good_rows, report.languages) == (30, 30, {"en": 30})
    assert report.hours == pytest.approx(60 / 3600)
    assert sum(report.durations.counts) == sum(report.label_lengths.counts) == 30
    assert len(report.durations.edges) == len(report.durations.counts) + 1
    assert report.is_complete
    json.dumps(report.to_json(), allow_nan=False)


NAN = voice(99)
NAN[5] = np.nan
SPOILT: dict[str, tuple[np.ndarray, str, str]] = {
    "too_short": (voice(90, 0.1), "x", "lasts 0.10 s"),
    "too_long": (voice(91, 31.0), "x " * 200, "lasts 31.00 s"),
    "silent": (np.zeros(2 * RATE, np.float32), "sentence number x", "silent"),
    "unusable": (NAN, "sentence number x", "no numbers"),
    "label_too_long": (voice(92), "much " * 500, "500 tokens"),
    "clipped": (np.clip(20 * voice(93), -1, 1), "sentence number x", "clipped"),
    "duplicate": (voice(7), "sentence number 7", "the same as in line 8"),
    "speaking_rate": (voice(94), "fast " * 100, "characters a second"),
}


def words(example: Example) -> int:
    return len(example.text.split())


@pytest.mark.parametrize("kind", SPOILT)
def test_each_fault_is_found_and_named_by_line(data: Path, kind: str) -> None:
    samples, text, reason = SPOILT[kind]
    if kind == "duplicate":
        samples = soundfile.read(data / "7.wav", dtype="float32")[0]
    line = add(data, "spoilt.wav", samples, text)
    report = check_dataset(data / "train.jsonl", label_length=words, counts_tokens=True)
    found = [problem for problem in report.problems if problem.kind == kind]
    assert [problem.line for problem in found] == [line]
    assert reason in str(found[0].reason)
    assert report.rows == 31
    assert report.good_rows == (31 if kind in WARNINGS else 30)


def test_rows_that_cannot_be_read_are_in_the_report(data: Path) -> None:
    add(data, "gone.wav", voice(50), "x")
    (data / "gone.wav").unlink()
    add(data, "broken.wav", voice(51), "x", duration=2.0)
    (data / "broken.wav").write_text("no sound\n" * 20)
    report = check_dataset(data / "train.jsonl")
    assert kinds(report) == [(31, "unusable"), (32, "unusable")]
    assert (report.rows, report.good_rows) == (32, 30)


@pytest.mark.parametrize("is_packed", [False, True], ids=["files", "parquet"])
def test_clips_that_are_cut_off_are_to_be_checked(data: Path, tmp_path: Path, is_packed: bool) -> None:
    import datasets

    soundfile.write(data / "31.flac", voice(31, 9.0), RATE)
    for name in ("31.flac", "5.wav"):
        content = (data / name).read_bytes()
        (data / name).write_bytes(content[: len(content) // 2])
    write_rows(data / "three.jsonl", [{"audio": f, "text": f} for f in ("31.flac", "5.wav", "6.wav")])
    source = data / "three.jsonl"
    if is_packed:
        rows = [json.loads(line) for line in source.read_text().splitlines()]
        sounds = [{"bytes": (data / row["audio"]).read_bytes(), "path": row["audio"]} for row in rows]
        table = datasets.Dataset.from_dict({"audio": sounds, "text": [row["text"] for row in rows]})
        source = data / "three.parquet"
        table.to_parquet(source)
    report = check_dataset(source, cache_dir=tmp_path / "cache")
    assert [problem.kind for problem in report.problems] == ["incomplete"] * 2
    assert "incomplete" in WARNINGS and (report.rows, report.good_rows) == (3, 3)
    flac, wav = (str(problem.reason) for problem in report.problems)
    assert re.fullmatch(r"The file says 9\.0 s, and holds 4\.\d s: it is cut off or damaged\.", flac)
    assert wav == "The file says 2.0 s, and holds 1.0 s: it is cut off or damaged."


def test_the_same_clip_with_another_text_is_called_so(data: Path) -> None:
    samples = soundfile.read(data / "3.wav", dtype="float32")[0]
    add(data, "again.wav", samples, "something else")
    assert "with another text" in str(check_dataset(data / "train.jsonl").problems[0].reason)


def test_slices_of_one_file_are_no_duplicates(data: Path) -> None:
    soundfile.write(data / "long.wav", voice(60, 6.0), RATE)
    parts = [{"path": "long.wav", "start_time": start, "end_time": start + 2} for start in (0, 2, 4)]
    write_rows(data / "slices.jsonl", [{"audio": part, "text": str(part["start_time"])} for part in parts])
    report = check_dataset(data / "slices.jsonl")
    assert report.problems == ()
    assert report.hours == pytest.approx(6 / 3600)


def test_test_clips_in_the_training_data_are_found(data: Path) -> None:
    write_rows(data / "test.jsonl", [{"audio": "4.wav", "text": "x"}, {"audio": "own.wav", "text": "y"}])
    soundfile.write(data / "own.wav", voice(70), RATE)
    report = check_dataset(data / "train.jsonl", test_data=data / "test.jsonl")
    assert kinds(report) == [(5, "leakage")]
    assert report.rows == 30


def test_mixed_chinese_scripts_name_the_rarer_one(data: Path) -> None:
    rows: list[dict[str, object]] = [
        {"audio": f"{number}.wav", "text": "我们说话" if number != 5 else "我們說話", "language": "zh"}
        for number in range(12)
    ]
    rows.append({"audio": "20.wav", "text": "学校の話", "language": "ja"})
    write_rows(data / "zh.jsonl", rows)
    report = check_dataset(data / "zh.jsonl")
    assert kinds(report) == [(6, "mixed_script")]
    assert "traditional" in str(report.problems[0].reason)


def test_bad_rows_are_quarantined_with_their_reason_and_warnings_are_not(data: Path, tmp_path: Path) -> None:
    line = add(data, "short.wav", voice(80, 0.05), "x")
    add(data, "loud.wav", np.clip(20 * voice(81), -1, 1), "sentence number x")
    quarantine = tmp_path / "away" / "rows.jsonl"
    write_quarantine(check_dataset(data / "train.jsonl").problems, quarantine)
    rows = [json.loads(row) for row in quarantine.read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["kind"]) for row in rows] == [(line, "too_short")]
    assert rows[0]["reason"].startswith("The clip lasts 0.05 s")
    assert rows[0]["audio_path"].endswith("short.wav")


def test_progress_is_told_and_a_stop_leaves_what_was_heard(data: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = check_dataset(
        data / "train.jsonl",
        on_progress=lambda done, total: seen.append((done, total)),
        should_stop=lambda: len(seen) == 10,
    )
    assert seen == [(number, 30) for number in range(1, 11)]
    assert (report.rows, report.good_rows, report.is_complete) == (10, 10, False)


def test_label_lengths_are_in_whole_bins(data: Path) -> None:
    odd = lambda example: 3 + len(example.text) % 2  # noqa: E731
    report = check_dataset(data / "train.jsonl", label_length=odd, counts_tokens=True)
    assert report.label_unit == "tokens"
    assert report.label_lengths.edges == (3, 4, 5)
    assert sum(report.label_lengths.counts) == 30


def test_a_source_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        check_dataset(tmp_path / "gone.jsonl")


def test_real_speech_is_clean(real_speech: Path) -> None:
    folder = real_speech / "aishell1_zh"
    report = check_dataset(folder / "train.jsonl", test_data=folder / "test.jsonl")
    assert (report.good_rows, report.problems, report.languages) == (300, (), {"zh": 300})
