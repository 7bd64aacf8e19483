"""A home that an earlier version made: what is in it is listed, heard with, and gone on with."""

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunStudio
from tests.golden.conftest import Golden, masked, shape


@pytest.fixture
def ask(run_studio: RunStudio, old_home: Path) -> Any:
    def asked(*words: str | Path) -> Any:
        done = run_studio(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return asked


def test_its_runs_and_models_are_those_that_it_had(ask: Any, old_home: Path, golden: Golden) -> None:
    golden("home_runs", masked(ask("runs", "list"), old_home))
    own = [model for model in ask("models", "list")["models"] if model["title"].startswith("finished")]
    golden("home_models", masked(own, old_home))
    cards = [masked(ask("models", "show", model["id"]), old_home) for model in own]
    golden("home_cards", cards)


@pytest.mark.parametrize("model", ["finished", "finished-ct2-int8"])
def test_its_models_hear(ask: Any, demo_speech: Path, model: str) -> None:
    (row,) = ask("transcribe", demo_speech / "samples" / "kitchen-light.flac", "--model", model)
    assert "kitchen" in row["text"]


def test_its_interrupted_run_is_gone_on_with_and_leaves_what_runs_left(
    ask: Any, run_studio: RunStudio, old_home: Path, golden: Golden
) -> None:
    (queued,) = (path.name for path in (old_home / "runs").glob("queued-*"))
    (interrupted,) = (old_home / "runs").glob("interrupted-*")
    told = (interrupted / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    # Begun on a machine that is not told of: that another goes on with it would be worth a warning.
    told = [line for line in told if '"kind": "machine"' not in line]
    (interrupted / "events.jsonl").write_text("".join(told), "utf-8")
    assert run_studio("runs", "stop", queued).returncode == 0
    done = ask("runs", "resume", interrupted.name)
    assert (done["state"], done["step"]) == ("finished", 8)
    events = [json.loads(line) for line in (interrupted / "events.jsonl").read_text("utf-8").splitlines()]
    steps = [event["step"] for event in events if event["kind"] == "step"]
    assert steps.count(8) == 1 and min(steps[steps.index(5) :]) == 5, "from the checkpoint on"
    model = old_home / "models" / done["model"]
    files = [path for folder in (interrupted, model) for path in folder.rglob("*") if path.is_file()]
    golden(
        "run",
        masked(
            {
                "files": sorted(str(path.relative_to(old_home)) for path in files),
                "answer": shape(done),
                "events": {event["kind"]: shape(event) for event in sorted(events, key=itemgetter("kind"))},
                "result": shape(json.loads((interrupted / "result.json").read_text("utf-8"))),
                "card": json.loads((model / "model.json").read_text("utf-8")),
            },
            old_home,
        ),
    )
