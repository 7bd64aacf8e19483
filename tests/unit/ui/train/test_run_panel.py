"""The panel of the chosen run: what is sent to a page, and what it shows when answers cross."""

from dataclasses import fields
from itertools import permutations
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from studio.files import write_json
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.settings import Settings
from studio.training.events import EventLog
from studio.training.run_dir import RunDir
from studio.ui.train.run_panel import Answers, RunPanel, render

RUNS = ("long", "short")
NAMES = [field.name for field in fields(RunPanel)][:-3]


class Page:
    """What a page shows of the answers that have come to it."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.shown: dict[str, Any] = {}

    def take(self, answer: list[Any]) -> set[str]:
        """Names of the components that the answer has values for."""
        selected, self.seen, *values = answer
        named = zip(NAMES[2:], values, strict=True)
        changed = {name: value for name, value in named if value != gr.skip()}
        self.shown |= changed | {"selected": selected}
        return set(changed)


@pytest.fixture
def jobs(tmp_path: Path) -> JobManager:
    """A run that has learned for a while, and one that failed at once."""
    settings = Settings.from_env({"STUDIO_HOME": str(tmp_path)})
    for name, day in zip(RUNS, (2, 3), strict=True):
        run = RunDir(settings.runs / name)
        run.path.mkdir(parents=True)
        write_json(run.config, config_to_dict(TrainingConfig(base_model="demo", run_name=name)))
        write_json(run.record, {"schema_version": 1, "created": f"2026-01-0{day}T03:04:05+00:00"})
        write_json(run.result, {"state": "failed", "error": f"It was {name}."})
        run.log.write_text(f"log of {name}\n", encoding="utf-8")
    EventLog(RunDir(settings.runs / "long").events).write("step", step=3, loss=2.5, max_steps=9)
    return JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))


def test_what_a_page_shows_already_is_not_sent_again(jobs: JobManager) -> None:
    page, answers = Page(), Answers()
    assert page.take(render(jobs, "long", page.seen, answers, "en")) == set(NAMES[2:])
    assert not page.take(render(jobs, "long", page.seen, answers, "en"))
    assert "history" in page.take(render(jobs, "short", page.seen, answers, "en"))


@pytest.mark.parametrize("chosen", RUNS)
@pytest.mark.parametrize("come", [(0, 1), (1, 0)])
@pytest.mark.parametrize("asked", list(permutations(RUNS)))
def test_whichever_of_two_answers_comes_last_the_next_makes_the_page_whole(
    jobs: JobManager, asked: tuple[str, str], come: tuple[int, int], chosen: str
) -> None:
    page, answers, whole = Page(), Answers(), Page()
    page.take(render(jobs, "long", page.seen, answers, "en"))
    seen = page.seen
    crossing = [render(jobs, run, seen, answers, "en") for run in asked]
    for number in come:
        page.take(crossing[number])
    page.take(render(jobs, chosen, page.seen, answers, "en"))
    whole.take(render(jobs, chosen, {}, Answers(), "en"))
    assert page.shown == whole.shown
