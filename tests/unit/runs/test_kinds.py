"""What somebody edited, cut off or exchanged in a run's folder: that run says less, all others are there."""

import copy
import json
import math
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from studio.cli.main import main
from studio.registry.store import ModelRegistry
from studio.runs.kinds import RESULT, fitting
from studio.runs.manager import JobManager
from studio.settings import DEMO_MODEL, Settings
from tests.golden.conftest import HOMES

VALUES: tuple[Any, ...] = (None, "text", -1, 1e308, True, [], {}, [[]], {"a": {}}, "9" * 400, 10**30)
TEXTS = ("", "{", "[", "null", "3", '"x"', "[" * 100_000, "[]", "{}", "\ufeff{}", "\udcff")
RUN_FILES = ("config.json", "run.json", "result.json", "process.json", "queued.json", "events.jsonl")
SPOILINGS = 8
"""Of each file: drawn from some thousands."""


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value[:2]):
            yield (*above, name)
            yield from places(part, (*above, name))


def with_value(whole: Any, place: tuple[Any, ...], value: Any) -> str:
    changed = copy.deepcopy(whole)
    part = changed
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    return json.dumps(changed)


def spoilings(text: str, *, is_lines: bool) -> list[str]:
    wholes = [json.loads(line) for line in text.splitlines()] if is_lines else [json.loads(text)]
    lines = [json.dumps(whole) for whole in wholes]
    return [
        *TEXTS,
        *(
            "\n".join([*lines[:at], with_value(whole, place, value), *lines[at + 1 :]]) + "\n"
            for at, whole in enumerate(wholes)
            for place in places(whole)
            for value in VALUES
        ),
    ]


@pytest.mark.parametrize("name", [*RUN_FILES, "model.json", "adapter_config.json"])
def test_one_spoiled_file_hides_nothing_else(settings: Settings, name: str) -> None:
    (old,) = HOMES.iterdir()
    shutil.copytree(old, settings.home, dirs_exist_ok=True)
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    for file in sorted(path for path in settings.home.glob(f"*/*/{name}")):
        before = file.read_text("utf-8")
        drawn = random.Random(5).sample(spoilings(before, is_lines=name.endswith("jsonl")), SPOILINGS)
        for text in (*TEXTS[:2], *drawn):
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
            jobs = JobManager(settings, registry)
            runs = jobs.runs()
            assert len(runs) == 3 and len(list(settings.models.iterdir())) == 2
            assert {spec.path for spec in registry.all()} >= {*settings.models.iterdir()}
            asked = [["runs", "list"], ["models", "list"]]
            asked += [["runs", "status", file.parent.name]] if "runs" in file.parts else []
            assert [main(words, lambda: settings) for words in asked] == [0] * len(asked)
        file.write_text(before, "utf-8")


def test_a_finished_run_of_a_newer_studio_stays_finished_and_is_not_taken_for_one_of_today(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (old,) = HOMES.iterdir()
    shutil.copytree(old, settings.home, dirs_exist_ok=True)
    for name in ("finished", "interrupted"):
        (run,) = (settings.home / "runs").glob(f"{name}*")
        config = json.loads((run / "config.json").read_text("utf-8"))
        newer = {**config, "schema_version": 99, "louder": 3, "lora_r": 5}
        (run / "config.json").write_text(json.dumps(newer), "utf-8")
    jobs = JobManager(settings, ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None))
    shown = {status.state.value: status for status in jobs.runs()}
    finished = shown["finished"]
    assert finished.config.lora_r == 5 and "louder is not known here" in str(finished.warnings[-1])
    assert finished.error is None and "louder is not known here" in str(shown["failed"].error)
    assert main(["runs", "resume", shown["failed"].run_id], lambda: settings) == 1
    assert "A newer studio wrote these settings" in "".join(capsys.readouterr())


def test_parts_of_another_kind_are_left_out_and_what_is_new_stays() -> None:
    point = {"step": 3, "epoch": 1.0, "wer": 0.5, "cer": 0.2, "loss": math.inf}
    given = {
        "state": "finished",
        "step": "many",
        "later": {"anything": [1]},
        "metrics": {"metric": "wer", "base": {**point, "wer": "low"}, "final": point},
        "capabilities": {"checks": [{"check": "silence"}, 7], "lost": ["silence", None]},
    }
    assert fitting(given, RESULT) == {
        "state": "finished",
        "later": {"anything": [1]},
        "metrics": {"metric": "wer", "final": point},
        "capabilities": {"checks": [], "lost": ["silence"]},
    }
    assert fitting([given], RESULT) is None
