"""What counts is what is written: characters of a script without spaces, English where a model translates."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.dataset.example import Example
from studio.evaluation import capabilities
from studio.evaluation.capabilities import KeptReadings, check_capabilities
from studio.evaluation.reading_short import measure_short
from studio.evaluation.result import Evaluation
from studio.files import read_json
from studio.transcription.engine import TranscribeOptions
from studio.transcription.transcriber import Transcriber
from studio.transcription.window_model import Written
from tests.micro import make_tones
from tests.reading import evaluate, read_manifest
from tests.unit.evaluation.test_explorer import evaluation
from tests.unit.transcription.scripted_model import TOKENS, Lent, ScriptedModel, at

CHINESE = "今天天气很好我们出去走"


class Writer(ScriptedModel):
    """Writes the same of every window."""

    longest_seconds = 600.0

    def __init__(self, text: str) -> None:
        super().__init__(lambda *_: Written([at(0), 0, at(1)], -0.1))
        self._text = text

    def decoded(self, tokens: Sequence[int]) -> str:
        return self._text

    @property
    def tasks(self) -> set[str]:
        """What it was asked for."""
        return {name for name, token in TOKENS.tasks.items() if any(token in row for row in self.prompts)}


class Cache:
    """Lends them by their names."""

    def __init__(self, **models: Writer) -> None:
        self._models = models

    @contextmanager
    def lease(self, name: str, *_: object) -> Iterator[Transcriber]:
        yield Transcriber(Lent(self._models[name]), name)


@pytest.fixture(autouse=True)
def short_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "_LONG_SECONDS", 4.0)
    monkeypatch.setattr(capabilities, "hear_non_speech", lambda *_: ["", ""])


def clips(folder: Path, **row: Any) -> list[Example]:
    return list(read_manifest(make_tones(folder, count=6, **row)).examples)


@pytest.mark.parametrize("language", ["zh", None])
def test_of_chinese_characters_count_whether_or_not_its_list_names_the_language(
    language: str | None, tmp_path: Path
) -> None:
    engines: Any = Cache(base=Writer(CHINESE), tuned=Writer("某" + CHINESE[1:]))
    said = clips(tmp_path, text=CHINESE, language=language)
    report = measure_short(engines, [("base", "full"), ("tuned", "full")], "base", said, "auto")
    assert report.metric == "cer" and report.readings[1].error == pytest.approx(1 / len(CHINESE))
    engines = Cache(base=Writer(CHINESE * 3), tuned=Writer(("某" + CHINESE[1:]) * 3))
    row = check_capabilities(engines, "tuned", "base", said).checks[0]
    assert row.check == "long_form" and row.base == 1.0 and row.tuned == pytest.approx(1 - 1 / len(CHINESE))


def test_a_model_that_translates_is_asked_for_translations_and_judged_by_words(tmp_path: Path) -> None:
    base, tuned = Writer("see you"), Writer("see them")
    engines: Any = Cache(base=base, tuned=tuned)
    said = clips(tmp_path, text="see you", language="zh", task="translate")
    report = measure_short(engines, [("base", "full"), ("tuned", "full")], "base", said, "auto")
    assert (report.metric, report.readings[1].error) == ("wer", 0.5)
    kept = KeptReadings(tmp_path / "readings.json", "base")
    check_capabilities(engines, "tuned", "base", said, kept=kept)
    assert base.tasks == tuned.tasks == {"translate"}
    check_capabilities(engines, "tuned", "base", [replace(clip, task=None) for clip in said], kept=kept)
    assert base.tasks == {"transcribe", "translate"}, "what it translated is not what it transcribes"
    assert len(read_json(tmp_path / "readings.json")) == 2


def test_clips_of_both_tasks_are_each_asked_for_theirs(tmp_path: Path) -> None:
    model = Writer("see you")
    said = clips(tmp_path, text="see you", language="zh", task="translate")
    said[::2] = [replace(clip, task=None) for clip in said[::2]]
    engines: Any = Cache(mine=model)
    report = measure_short(engines, [("mine", "full")], "mine", said, "auto")
    assert model.tasks == {"transcribe", "translate"} and report.clips == 6
    assert model.batches == [1, 3, 3]


def test_an_evaluation_of_translations_counts_words_and_says_so_when_it_is_opened_again() -> None:
    made = evaluation(["see you"], ["see you"])
    spoken = replace(made, utterances=tuple(replace(row, language="zh") for row in made.utterances))
    assert spoken.metric == "cer"
    translated = replace(spoken, task="translate")
    assert translated.metric == Evaluation.from_json(translated.to_json()).metric == "wer"
    older = translated.to_json()
    del older["task"]
    assert Evaluation.from_json(older).task == "transcribe"


def test_an_evaluation_keeps_its_task(engines: Any, tmp_path: Path) -> None:
    data = str(make_tones(tmp_path, count=1, language="zh"))
    options = TranscribeOptions(task="translate", timestamps="none", max_new_tokens=4)
    found = evaluate(engines, ["demo"], data, options=options)
    assert (found.task, found.metric, found.to_json()["task"]) == ("translate", "wer", "translate")
