"""Several models on one recording."""

import json
from pathlib import Path

import pytest

from studio.errors import ConfigError
from studio.evaluation.side_by_side import hear_side_by_side, marked, side_by_side
from studio.transcription.engine import Segment, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache


def heard(model: str, text: str) -> Transcript:
    return Transcript(text, (Segment(0.0, 1.0, text),), "en", 1.0, model, "transformers")


def test_with_a_reference_each_model_has_its_rates_and_its_differences() -> None:
    found = side_by_side(
        [heard("a", "please turn on the lamp"), heard("b", "turn on the light")], "turn on the light"
    )
    first, second = found.hearings
    assert first.wer == 0.5 and second.wer == 0.0 and second.cer == 0.0
    assert marked(first.pieces) == "{+please+} turn on the [-light-] {+lamp+}"
    assert marked(second.pieces) == "turn on the light"


def test_without_a_reference_the_others_are_compared_with_the_first() -> None:
    found = side_by_side([heard("a", "turn on"), heard("b", "turn off")], "  ")
    assert found.hearings[1].wer is None and marked(found.hearings[1].pieces) == "turn [-on-] {+off+}"


@pytest.mark.parametrize(
    ("reference", "text", "shown"),
    [
        ("打开厨房的灯", "打开房的灯", "打开 [-厨-] 房的灯"),
        ("שלום עולם", "שלום לך עולם", "שלום {+לך+} עולם"),
        ("hi 👨‍👩‍👧", "hi 👍🏽", "hi [-👨‍👩‍👧-] {+👍🏽+}"),
    ],
)
def test_every_script_is_aligned_whole(reference: str, text: str, shown: str) -> None:
    assert marked(side_by_side([heard("a", text)], reference).hearings[0].pieces) == shown


def test_a_model_given_twice_or_none_is_refused(engines: ModelCache) -> None:
    for models in ([], ["demo", "demo"]):
        with pytest.raises(ConfigError):
            hear_side_by_side(engines, models, Path("a.wav"), TranscribeOptions())


def test_the_demo_model_is_judged_on_a_sample(engines: ModelCache, demo_speech: Path) -> None:
    path = demo_speech / "samples" / "kitchen-light.flac"
    steps: list[float] = []
    found = hear_side_by_side(
        engines,
        ["demo"],
        path,
        TranscribeOptions(language="en"),
        "turn on the kitchen light set a timer for ten minutes",
        on_progress=lambda step: steps.append(step.done_seconds / step.total_seconds),
    )
    assert found.hearings[0].wer is not None and found.hearings[0].wer <= 0.2 and steps[-1] == 1.0
    row = json.loads(json.dumps(found.to_json()))["models"][0]
    assert row["id"] == "demo" and row["alignment"][0]["kind"] == "equal"


@pytest.mark.parametrize(
    ("reference", "metric"), [("打开厨房的灯", "cer"), ("turn on the light", "wer"), ("", "wer")]
)
def test_the_metric_that_counts_is_that_of_the_reference(reference: str, metric: str) -> None:
    assert side_by_side([heard("a", "turn on"), heard("b", "打开")], reference).metric == metric
