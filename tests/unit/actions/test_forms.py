"""Which form to deploy: real forms on real clips, what cannot be played here, and what is kept of it."""

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.actions.forms import compare_forms, forms_of
from studio.cli.models import forms_text
from studio.errors import ConfigError
from studio.evaluation.compare import EvaluationRequest
from studio.files import write_json
from studio.lazy_imports import transformers_library
from studio.options.choices import ENGINES
from studio.reports.forms_views import form_rows, forms_table, recommendation
from studio.services import Services
from studio.settings import Settings
from studio.transcription.engine import TranscribeOptions
from tests.micro import make_tones

HOMES = Path(__file__).parents[2] / "golden" / "homes"
MINE = EvaluationRequest(["mine"], "demo", TranscribeOptions(language="en", timestamps="none"), max_samples=5)


@pytest.fixture
def services(settings: Settings) -> Iterator[Services]:
    """A studio with an export of its own, so that none need be made."""
    services = Services.open(settings, device="cpu")
    (home,) = HOMES.iterdir()
    shutil.copytree(home / "models" / "finished-ct2-int8", services.registry.models / "mine")
    yield services
    services.close()


def test_forms_hear_the_same_clips_and_what_one_cannot_do_is_its_row(
    services: Services, known_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers_library()
    for library in ("torch", "transformers"):
        (tmp_path / f"{library}.py").write_text("raise ImportError('seconds to load, for nothing')", "ascii")
    monkeypatch.syspath_prepend(tmp_path)  # which the process of a form has, too
    told: list[tuple[str, float]] = []
    asked = replace(MINE, data=str(known_clips)), ("faster-whisper:int8", "faster-whisper:int8_float16")
    found = compare_forms(
        services, *asked, on_step=lambda doing, share: told.append((str(doing), share))
    ).to_json()
    first, other = found["rows"]
    assert (found["clips"], found["recommended"]) == (5, "faster-whisper:int8")
    assert 0 <= first["cer"] < 0.5 and (first["low"], first["high"]) == (0, 0)
    assert first["real_time_factor"] > 0 and first["memory_bytes"] > 2**20 and first["size_bytes"] > 2**20
    assert other["wer"] is None and "cannot compute in int8_float16" in other["problem"]["text"]
    assert ("faster-whisper:int8_float16: transcribing 5 clips …", 0.5) in told
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert services.registry.get("mine").card["forms"] == found
    shown = forms_text(found)
    assert "faster-whisper with five beams, the others with one" in shown
    assert "int8_float16: faster-whisper cannot compute" in shown and "is the fastest form" in shown
    table = str(forms_table(found, "zh-TW"))
    assert "的各種格式" in table and "5 個束" in table
    assert "推薦" in table and "faster-whisper 無法" in table


def test_every_precision_that_an_engine_names_is_a_form(services: Services) -> None:
    assert [form.name for form in forms_of(services, "demo")] == [
        f"{engine}:{kind}" for engine, kinds in ENGINES.items() for kind in kinds
    ]


def test_the_export_that_a_comparison_makes_is_named_and_not_kept_in_the_card(services: Services) -> None:
    (home,) = HOMES.iterdir()
    shutil.rmtree(services.registry.models / "mine")
    shutil.copytree(home / "models" / "finished", services.registry.models / "finished")
    asked = replace(MINE, models=["finished"], max_samples=1)
    found = compare_forms(services, asked, ["faster-whisper:int8"])
    assert services.registry.get(found.made).path == services.registry.models / found.made
    assert f"{found.made} was made for faster-whisper and stays" in str(found.what_stays)
    assert services.registry.get("finished").card["forms"]["made"] == ""


def test_who_cancels_before_the_first_form_has_no_figures_and_keeps_none(services: Services) -> None:
    found = compare_forms(services, MINE, ["faster-whisper"], should_stop=lambda: True)
    assert (found.rows, found.clips, found.recommended) == ((), 0, "")
    assert "forms" not in services.registry.get("mine").card
    assert forms_table(found.to_json(), "en") is None


def test_what_is_no_form_of_the_model_is_answered_with_those_there_are(services: Services) -> None:
    with pytest.raises(ConfigError, match=r"no form 'onnx' of this model: choose one of faster-whisper"):
        compare_forms(services, MINE, ["onnx"])
    folder = services.registry.models / "foreign"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"1")
    write_json(folder / "model.json", {"kind": "foreign", "format": "ggml", "weights": "a.bin"})
    with pytest.raises(ConfigError, match=r"foreign is for another program \(ggml\)"):
        compare_forms(services, replace(MINE, models=["foreign"]))


@pytest.mark.parametrize(
    "value",
    ["<b>", 7, math.nan, None, [[]], [{"name": "<b>", "wer": "x", "problem": {"template": "{text:>99}"}}]],
)
def test_a_card_that_somebody_has_written_shows_what_can_be_read_of_it(value: Any) -> None:
    for found in (value, {"rows": value}, {"rows": [{"name": value, "wer": value, "problem": value}]}):
        assert "<b>" not in str(forms_table(found, "zh-CN"))
        of_it = {"rows": [{"wer": value}, value], "metric": value, "clips": value}
        assert "<b>" not in str(recommendation(of_it))
        assert all(len(cells) == 7 and "  " not in str(problem) for cells, problem in form_rows(found))
    assert recommendation({"recommended": value, "metric": value}) is None or value


def test_of_few_clips_no_form_is_recommended_and_that_is_said() -> None:
    rows = [{"name": "faster-whisper:int8", "wer": 0.5, "cer": 0.2, "low": 0.0, "high": 0.0}]
    assert "片段太少" in str(forms_table({"rows": rows, "clips": 4}, "zh-CN"))
    assert "Too few clips" in forms_text({"rows": rows, "clips": 4})
    assert "Too few clips" not in forms_text({"rows": rows, "clips": 5})
    wrong = {"rows": [{**rows[0], "wer": 1.3}], "metric": "wer", "clips": 12, "recommended": ""}
    assert "these clips do not suit the model" in forms_text(wrong)
    assert "note-good" not in str(forms_table(wrong, "en")) and "不适合" in str(forms_table(wrong, "zh-CN"))


@pytest.mark.parametrize(
    ("task", "text", "metric"), [("transcribe", "打开灯", "cer"), ("translate", "on", "wer")]
)
def test_forms_are_judged_by_what_their_clips_are_written_in(
    services: Services, tmp_path: Path, task: str, text: str, metric: str
) -> None:
    """A list that names no language, or one whose speech is translated."""
    data = str(make_tones(tmp_path, count=1, text=text, language="zh" if task == "translate" else None))
    options = TranscribeOptions(task=task, timestamps="none")
    found = compare_forms(services, EvaluationRequest(["mine"], data, options), should_stop=lambda: True)
    assert found.metric == metric
