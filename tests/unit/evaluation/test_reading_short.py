"""What it is said to cost to read a model otherwise than it was trained."""

from pathlib import Path

import pytest

from studio.evaluation.reading_short import cost_of, measure_short, ways_of
from studio.transcription.model_cache import ModelCache
from tests.reading import read_manifest


def card(audio_context: str, *, full: float, short: float, error: bool = True) -> dict[str, object]:
    rows = [
        {"is_base": is_base, "audio_context": context}
        | ({"disagreement": 9.0, "error": rate} if error else {"disagreement": rate, "error": None})
        for is_base, context, rate in ((True, "full", 0.5), (False, "full", full), (False, "short", short))
    ]
    report = {"metric": "cer", "clips": 8, "readings": rows}
    return {"audio_context": audio_context, "short_audio": report}


def test_a_model_read_as_it_was_trained_costs_nothing() -> None:
    assert cost_of({}, "auto") is None and cost_of({}, "full") is None
    assert cost_of({"audio_context": "short"}, "short") is None


@pytest.mark.parametrize("error", [True, False])
def test_the_measured_cost_of_reading_it_the_other_way_is_told(error: bool) -> None:
    padded = str(cost_of(card("full", full=0.194, short=1.6, error=error), "short"))
    assert "CER 19.4% became 160.0% on 8 clips" in padded
    short = str(cost_of(card("short", full=0.196, short=0.189, error=error), "full"))
    assert "CER 18.9% became 19.6%" in short


def test_without_a_measurement_the_way_it_was_trained_is_named() -> None:
    assert "trained on 30 seconds" in str(cost_of({}, "short"))
    assert "trained on the audio's own length" in str(cost_of({"audio_context": "short"}, "full"))


def test_a_model_is_measured_as_it_should_and_should_not_be_read(
    engines: ModelCache, demo_speech: Path
) -> None:
    clips = read_manifest(str(demo_speech / "validation.jsonl")).examples[:2]
    report = measure_short(engines, ways_of("demo", "demo", "full"), "other", clips, "auto")
    full, short = report.readings
    assert (full.audio_context, short.audio_context) == ("full", "short")
    assert (report.clips, report.metric) == (2, "wer")
    assert full.disagreement == 0 and full.error is not None and not full.is_base
    assert short.seconds > 0 and short.error is not None
