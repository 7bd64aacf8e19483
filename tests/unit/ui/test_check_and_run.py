"""The check of a data set and a run leave the same rows out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from studio.actions.check_data import CheckAnswer, CheckQuestion, check
from studio.dataset.report import WARNINGS
from studio.errors import ManifestError
from studio.options.training import TrainingConfig
from studio.services import Services
from studio.settings import Settings
from studio.training.adapters import Base, choose_precision, load_training_base
from studio.training.data.preparation import prepare
from studio.training.events import EventLog
from studio.training.stop import StopSignal
from studio.ui.train.run_panel import Answers
from studio.ui.train.runs import _starter
from tests.micro import SAMPLING_RATE, make_tones
from tests.reading import read_source

TONE = (0.3 * np.sin(np.arange(40 * SAMPLING_RATE) / 3)).astype(np.float32)
SOUNDS = {
    "voice": TONE[: int(1.5 * SAMPLING_RATE)],
    "long": TONE,
    "silent": np.zeros(SAMPLING_RATE, np.float32),
    "unscaled": 20_000 * TONE[:SAMPLING_RATE],
    "no_number": np.where(np.arange(SAMPLING_RATE) == 5, np.nan, TONE[:SAMPLING_RATE]),
}
GOOD, BAD = True, False
Row = dict[str, Any]
LISTS: dict[str, tuple[list[tuple[Row, bool]], Row]] = {
    "lengths in milliseconds": ([({"duration": 1500}, GOOD)], {}),
    "a length far from the file's": ([({"duration": 0.02}, GOOD), ({"duration": 405}, GOOD)], {}),
    "a length within other bounds": (
        [({"duration": 1.5}, GOOD), ({"duration": 8}, GOOD)],
        {"max_audio_len": 2.0},
    ),
    "places in milliseconds": (
        [({"begin_time": 0, "end_time": 1500}, BAD), ({"begin_time": 1500, "end_time": 3000}, BAD)],
        {},
    ),
    "an end behind the file's": ([({"end_time": 405}, BAD), ({"end_time": 1.52}, GOOD)], {}),
    "a long clip that is called short": ([({"audio": "long", "duration": 3}, BAD)], {}),
    "a slice of a long one": ([({"audio": "long", "start_time": 3, "duration": 3}, GOOD)], {}),
    "silence with a text and without": (
        [({"audio": "silent"}, BAD), ({"audio": "silent", "text": "<|nospeech|>"}, GOOD)],
        {},
    ),
    "no sound": ([({"audio": name, "duration": 1}, BAD) for name in ("broken", "unscaled", "no_number")], {}),
    "no sound and no language": ([({"audio": "broken", "duration": 1, "language": None}, BAD)], {}),
    "languages": (
        [
            ({"language": name}, name != "nan-tw" and name != "xx")
            for name in ("nan-tw", "xx", "en_us", "French")
        ]
        + [({"language": "Mandarin Chinese"}, GOOD), ({"language": "cmn_hans_cn"}, GOOD)],
        {},
    ),
    "languages that do not count": ([({"language": "nan-tw"}, GOOD)], {"language": "en"}),
    "labels": (
        [
            ({"text": "x" * 443}, GOOD),
            ({"text": "x" * 444}, BAD),
            ({"text": "x" * 440, "sentences": [{"start": 0, "end": 1, "text": "x" * 441}]}, GOOD),
            ({"text": "x" * 440, "sentences": [{"start": 0, "end": 1, "text": "x" * 446}]}, BAD),
        ],
        {},
    ),
}


@pytest.fixture(scope="module")
def base(micro_model: Path) -> Base:
    config = TrainingConfig(base_model=str(micro_model))
    return load_training_base(micro_model, config, choose_precision(config, has_gpu=False))


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    return make_tones(tmp_path / "tests", count=4)


def listed(folder: Path, rows: list[Row]) -> Path:
    """A list of four good rows and these, which are of `voice` unless they say something else."""
    path = make_tones(folder, count=4)
    for name, samples in SOUNDS.items():
        soundfile.write(folder / f"{name}.wav", samples, SAMPLING_RATE, subtype="FLOAT")
    (folder / "broken.wav").write_text("no sound " * 100)
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            row = {"audio": "voice", "text": "tone", "language": "en", **row}
            file.write(json.dumps({**row, "audio": f"{row['audio']}.wav"}) + "\n")
    return path


def checked(settings: Settings, path: Path, model: str, options: Row) -> CheckAnswer:
    question = CheckQuestion(str(path), base_model=model, **options)
    return check(question, Services.open(settings, device="cpu"))


def unusable(answer: CheckAnswer) -> list[int]:
    return [problem.line for problem in answer.report.problems if problem.kind not in WARNINGS]


@pytest.mark.parametrize("name", LISTS)
def test_check_and_run_leave_the_same_rows_out(
    name: str, settings: Settings, base: Base, micro_model: Path, tests: Path, tmp_path: Path
) -> None:
    rows, options = LISTS[name]
    path = listed(tmp_path / "list", [row for row, _ in rows])
    config = TrainingConfig(
        base_model=str(micro_model), train_data=str(path), test_data=str(tests), **options
    )
    data, _ = prepare(
        config, settings, read_source(config), base, EventLog(None), StopSignal(tmp_path / "stop")
    )
    wanted = [line for line, (_, is_good) in enumerate(rows, start=5) if not is_good]
    assert sorted(problem.line for problem in data.problems) == wanted
    assert unusable(checked(settings, path, str(micro_model), options)) == wanted
    lengths = [clip.example.duration_seconds for clip in data.train]
    assert all(length is not None and length <= 3.0 for length in lengths), "as long as they are"


def test_the_page_refuses_a_list_of_which_no_clip_can_be_used_before_there_is_a_run(
    settings: Settings, tmp_path: Path
) -> None:
    manifest = make_tones(tmp_path, count=2, language="ga-IE")
    with Services.open(settings) as services:
        with pytest.raises(ManifestError, match="Or set language"):
            _starter(services, {})({}, Answers(), None, train_data=str(manifest))
        assert not services.jobs.runs()


def test_rows_that_cannot_be_used_are_not_kept_back_for_evaluation(tmp_path: Path) -> None:
    bad = [{"audio": "broken", "duration": 1}, {"audio": "silent"}, {"language": "xx"}, {"duration": 405}]
    path = listed(tmp_path, bad)
    for seed in range(8):
        source = read_source(TrainingConfig(train_data=str(path), seed=seed))
        assert [problem.line for problem in source.problems] == [5, 6, 7]
        assert (len(source.train_examples), len(source.eval_examples)) == (4, 1)


def test_of_many_rows_only_the_headers_are_read(
    settings: Settings, base: Base, micro_model: Path, tmp_path: Path
) -> None:
    path = listed(tmp_path, [{"audio": "long", "duration": 3}, {"duration": 405}, {"language": "xx"}])
    rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*rows, *[rows[0]] * 2000]), encoding="utf-8")
    config = TrainingConfig(base_model=str(micro_model), train_data=str(path))
    source = read_source(config)
    assert [problem.line for problem in source.problems] == [7]
    data, _ = prepare(config, settings, source, base, EventLog(None), StopSignal(tmp_path / "stop"))
    assert [problem.line for problem in data.problems] == [7, 5]


def test_without_a_model_labels_that_may_be_too_long_are_counted(settings: Settings, tmp_path: Path) -> None:
    path = listed(tmp_path, [{"text": "x" * 400}, {"text": "x" * 500}, {"language": "xx"}])
    answer = checked(settings, path, "", {})
    assert (answer.report.uncounted, unusable(answer)) == (1, [7])


def test_labels_in_no_known_language_are_not_heard(
    settings: Settings, micro_model: Path, tmp_path: Path
) -> None:
    path = listed(tmp_path, [{"language": "nan-tw"}])
    answer = checked(settings, path, "demo", {"transcribe": -1})
    assert len(answer.labels) == 4 and unusable(answer) == [5]
