"""What short audio and the loss in chunks save is the difference of two estimates."""

from dataclasses import replace

import pytest

from studio.memory.plan import TrainingPlan
from studio.memory.savings import CHUNK, SECONDS, Saving, savings
from studio.memory.training import estimate_training
from studio.whisper.audio_context import POSITIONS, positions_of
from tests.unit.whisper_on_meta import TINY

PLAN = TrainingPlan(base_dtype="bf16", batch_size=16)
CHUNKED = replace(PLAN, loss_chunk_size=CHUNK)
SHORT = replace(PLAN, audio_positions=positions_of(SECONDS), has_padded_batches=True)


def device_bytes(plan: TrainingPlan) -> int:
    return estimate_training(plan, TINY).device_bytes


def rows(plan: TrainingPlan) -> dict[str, Saving]:
    return {row.key: row for row in savings(plan, TINY)}


def test_with_and_without_differ_by_what_is_said_to_be_saved() -> None:
    off = rows(PLAN)
    assert off["loss_chunk_size"].saves_bytes == device_bytes(PLAN) - device_bytes(CHUNKED) > 0
    assert off["short_audio"].saves_bytes == device_bytes(PLAN) - device_bytes(SHORT) > 0
    assert rows(CHUNKED)["loss_chunk_size"].saves_bytes == off["loss_chunk_size"].saves_bytes
    assert rows(SHORT)["short_audio"].saves_bytes == off["short_audio"].saves_bytes
    assert SHORT.audio_positions < POSITIONS


def test_the_sentence_tells_whether_it_is_so_or_would_be() -> None:
    assert "would save" in str(rows(PLAN)["loss_chunk_size"].sentence)
    assert "saves" in str(rows(CHUNKED)["loss_chunk_size"].sentence)
    assert "no clip were longer than 10 s" in str(rows(PLAN)["short_audio"].sentence)
    assert str(rows(SHORT)["short_audio"].sentence).startswith(
        "Short-audio mode, with no clip longer than 10 s, saves"
    )


@pytest.mark.parametrize("plan", [PLAN, CHUNKED, SHORT])
def test_where_evaluation_is_the_highest_nothing_is_promised(plan: TrainingPlan) -> None:
    evaluated = replace(plan, batch_size=1, eval_batch_size=64, loss_chunk_size=CHUNK)
    short = rows(evaluated)["short_audio"]
    assert short.saves_bytes == 0 and "nothing" in str(short.sentence)
