"""The check of a data set with a model that listens, and its report."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from studio.actions.check_data import LISTENING, TRANSCRIBING, CheckQuestion, check
from studio.errors import ConfigError, ManifestError
from studio.reports.data_report import html_report, report_view
from studio.services import Services
from studio.settings import DEMO_SPEECH, Settings


@pytest.fixture
def services(settings: Settings) -> Services:
    return Services.open(settings, device="cpu")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Real speech: ten good rows, one whose label belongs elsewhere, one whose file is missing."""
    lines = (DEMO_SPEECH / "test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:11]]
    for row in rows:
        row["audio"]["path"] = str(DEMO_SPEECH / row["audio"]["path"])
        del row["sentences"]
    rows[4]["sentence"] = "<script>alert(1)</script> entirely other words, which nobody said"
    rows.append({**rows[0], "audio": {"path": "gone.wav"}})
    path = tmp_path / "my list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_labels_are_ranked_by_what_the_model_hears(services: Services, data: Path) -> None:
    seen = []
    row = json.loads(data.read_text("utf-8").splitlines()[0])
    with data.open("a", encoding="utf-8") as file:  # nothing of a translation is spoken
        file.write(json.dumps({**row, "sentence": "a translation", "task": "translate"}) + "\n")
    question = CheckQuestion(str(data), base_model="demo", transcribe=-1, normalizer="no_punctuation")
    answer = check(question, services, on_progress=lambda *step: seen.append(step))
    assert len(answer.labels) == 11
    rates = [label.error_rate for label in answer.labels]
    assert rates == sorted(rates, reverse=True)
    wrong = next(label for label in answer.labels if label.line == 5)
    assert wrong.error_rate > 0.8 and wrong.heard
    suspicious = [problem.line for problem in answer.report.problems if problem.kind == "suspicious_label"]
    assert 5 in suspicious
    assert seen[-1] == (TRANSCRIBING, 11, 11) and seen[0][0] == LISTENING
    assert any("entirely other words which" in after for _, after in answer.examples)
    json.dumps(answer.to_json(), allow_nan=False)


def test_bad_rows_are_set_aside_in_the_studios_folder(services: Services, data: Path) -> None:
    answer = check(CheckQuestion(str(data)), services)
    assert answer.quarantine is not None and answer.quarantine.parent == services.settings.quarantine
    rows = [json.loads(line) for line in answer.quarantine.read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["kind"]) for row in rows] == [(12, "unusable")]
    assert "gone.wav" in rows[0]["reason"]
    assert (answer.report.rows, answer.report.good_rows) == (12, 11)


@pytest.mark.parametrize("is_named", [True, False])
def test_without_bad_rows_no_list_of_them_is_made_and_an_earlier_one_is_emptied(
    services: Services, data: Path, tmp_path: Path, is_named: bool
) -> None:
    named = tmp_path / "bad.jsonl" if is_named else None
    earlier = check(CheckQuestion(str(data)), services, quarantine=named).quarantine
    assert earlier is not None and earlier.read_text(encoding="utf-8")
    good = [line for line in data.read_text(encoding="utf-8").splitlines(True) if "gone.wav" not in line]
    data.write_text("".join(good), encoding="utf-8")
    assert check(CheckQuestion(str(data)), services, quarantine=named).quarantine is None
    assert earlier.read_text(encoding="utf-8") == ""
    other = tmp_path / "other.jsonl"
    assert check(CheckQuestion(str(data)), services, quarantine=other).quarantine is None
    assert not other.exists()


def test_the_list_of_unusable_rows_replaces_nothing_but_an_earlier_one(
    services: Services, data: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is no list of an earlier check"):
        check(CheckQuestion(str(data)), services, quarantine=notes)
    assert notes.read_text(encoding="utf-8") == "mine"


def test_for_a_visitor_of_a_space_nothing_is_set_aside(services: Services, data: Path) -> None:
    own = replace(services, settings=replace(services.settings, visitor="one"))
    answer = check(CheckQuestion(str(data)), own)
    assert answer.report.good_rows == 11 and answer.quarantine is None
    assert list(services.settings.quarantine.iterdir()) == []


def test_a_sample_is_transcribed_and_a_stop_leaves_it(
    services: Services, data: Path, mute_model: Path
) -> None:
    mute = str(mute_model)
    answer = check(CheckQuestion(str(data), base_model=mute, transcribe=3), services)
    assert len(answer.labels) == 3
    heard = []
    stopped = check(
        CheckQuestion(str(data), base_model=mute, transcribe=-1),
        services,
        on_progress=lambda *step: heard.append(step),
        should_stop=lambda: any(step[0] == TRANSCRIBING for step in heard),
    )
    assert len(stopped.labels) == 8, "a batch"


def test_the_columns_that_are_named_are_checked(services: Services, tmp_path: Path) -> None:
    sound = next(path for path in sorted(DEMO_SPEECH.rglob("*")) if path.suffix in (".flac", ".wav", ".opus"))
    row = {"wav": str(sound), "text": "of no use", "ipa": "checked"}
    path = tmp_path / "columns.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    question = CheckQuestion(str(path), normalizer="basic", audio_column="wav", text_column="ipa")
    assert check(question, services).report.good_rows == 1
    with pytest.raises(ManifestError, match="There is no column 'words' for the text"):
        check(replace(question, text_column="words"), services)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]


def test_the_report_is_one_file_without_script_or_address(services: Services, data: Path) -> None:
    rows = data.read_text("utf-8").splitlines(keepends=True)
    data.write_text("".join([*rows[4:7], rows[-1]]), "utf-8")
    answer = check(CheckQuestion(str(data), base_model="demo", transcribe=-1), services)
    for locale in ("en", "zh-TW"):
        page = html_report(answer.report, answer.labels, answer.examples, locale)
        found = _Tags()
        found.feed(page)
        assert "script" not in found.tags and found.addresses == []
        assert found.tags.count("svg") == 2 and found.tags.count("table") >= 3
        assert "&lt;script&gt;alert(1)" in page
        assert '<meta name="viewport" content="width=device-width' in page
    two = replace(answer.report, languages={"en": 6, "zh": 4}, good_rows=10)
    shown = report_view(two, answer.labels, answer.examples, "zh-CN")
    assert "gone.wav" in shown and re.search(r"英语（60.0\W%）、中文", shown)
