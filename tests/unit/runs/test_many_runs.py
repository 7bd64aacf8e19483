"""Many runs, some of them broken: what is read does not grow with what is not shown."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from studio.cli import runs as runs_command
from studio.cli.runs import MOST_LISTED
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.settings import DEMO_MODEL, Settings
from tests.golden.conftest import HOMES

RUNS, BROKEN, SHOWN = 500, 20, 25
"""Every so many is broken, and so many are listed."""


def test_a_list_opens_only_files_of_the_runs_that_it_shows_and_those_hardly_again(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (old,) = HOMES.iterdir()
    (run,) = old.glob("runs/finished-*")
    for number in range(RUNS):
        folder = settings.runs / f"run-20260101-{number:06}"
        folder.mkdir(parents=True)
        for name in ("config.json", "run.json", "result.json"):
            shutil.copyfile(run / name, folder / name)
            if number % BROKEN == 0:
                (folder / name).write_text("{", encoding="ascii")
            os.utime(folder / name, (1e9, 1e9))
        os.utime(folder, (1e9, 1e9))
    opened: list[str] | None = None

    def asked(event: str, given: tuple[Any, ...]) -> None:
        if opened is not None and event == "open" and str(given[0]).startswith(str(settings.runs)):
            opened.append(str(given[0]))

    sys.addaudithook(asked)
    jobs = JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))
    opened = []
    first = jobs.runs(SHOWN)
    once, opened = opened, []
    again = jobs.runs(SHOWN)
    twice, opened = opened, None
    jobs.close()
    assert runs_command.run(["list"], settings) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + MOST_LISTED
    assert f"{RUNS - MOST_LISTED} older runs: --all lists them." in printed.err
    assert [status.run_id for status in first] == [status.run_id for status in again]
    assert jobs.count() == RUNS and len(first) == SHOWN
    assert {Path(name).parent.name for name in once} <= {status.run_id for status in first}
    assert len(once) <= 8 * SHOWN and len(twice) <= len(once) // 10


def test_a_run_names_its_model_as_it_is_called_now_and_a_folder_that_is_gone_hides_no_run(
    settings: Settings,
) -> None:
    (old,) = HOMES.iterdir()
    (run,) = old.glob("runs/finished-*")
    shutil.copytree(run, settings.runs / run.name)
    shutil.copytree(old / "models" / "finished", settings.models / "otherwise")
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    jobs = JobManager(settings, registry)
    for name in ("otherwise", "anew", "once-more"):
        if not registry.has(name):
            registry.rename(registry.called_now("otherwise"), name)
        os.utime(settings.models, (1e9 + len(name), 1e9 + len(name)))  # long ago: what was read is kept
        assert [[status.model_id for status in jobs.runs()] for _ in range(2)] == [[name], [name]]
    shutil.rmtree(settings.models)
    assert [status.model_id for status in jobs.runs()] == ["finished"]
    jobs.close()


def test_a_run_names_what_it_started_from_as_that_is_called_now(settings: Settings) -> None:
    (old,) = HOMES.iterdir()
    (run,) = old.glob("runs/finished-*")
    shutil.copytree(run, settings.runs / run.name)
    shutil.copytree(old / "models" / "finished", settings.models / "mine")
    written = json.loads((run / "config.json").read_text(encoding="utf-8"))
    written |= {"base_model": "mine", "adapter": "x" * 5000}
    (settings.runs / run.name / "config.json").write_text(json.dumps(written), encoding="utf-8")
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    jobs = JobManager(settings, registry)
    for name in ("mine", "ours"):
        if name != "mine":
            registry.rename("mine", name)
        os.utime(settings.models, (1e9 + len(name), 1e9 + len(name)))
        for status in (*jobs.runs(), *jobs.runs(), jobs.status(run.name)):
            assert (status.config.base_model, status.config.adapter) == (name, "x" * 5000)
    jobs.close()


def test_a_folder_whose_name_is_no_text_hides_nothing(settings: Settings) -> None:
    for place in (settings.models, settings.runs):
        for name in (b"\xff\xfe", b"shown"):
            (place / os.fsdecode(name)).mkdir(parents=True)
    registry = ModelRegistry(settings.models, demo=None, hf_cache=None)
    jobs = JobManager(settings, registry)
    own = [spec.id for spec in registry.all() if spec.path is not None]
    assert own == [status.run_id for status in jobs.runs()] == ["shown"]
    jobs.close()


def test_a_list_of_models_looks_at_each_folder_once(settings: Settings) -> None:
    (old,) = HOMES.iterdir()
    for number in range(5):
        shutil.copytree(old / "models" / "finished", settings.models / f"model-{number}")
    looked: list[str] | None = None

    def asked(event: str, given: tuple[Any, ...]) -> None:
        if looked is not None and event == "os.scandir" and f"{given[0]}".startswith(f"{settings.models}/"):
            looked.append(f"{given[0]}")

    sys.addaudithook(asked)
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    registry.all()
    looked = []
    found = registry.all()
    once, looked = looked, None
    assert len(once) == len(set(once)) == 5 and not any(spec.problem for spec in found)
