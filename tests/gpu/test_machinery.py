"""What measures a card is tried without one: the list, the rows, the rule, the table."""

import json
from dataclasses import replace
from pathlib import Path

from studio.memory.gpus import Gpu
from studio.memory.inference_plan import InferencePlan
from studio.memory.receipts import Receipt
from studio.units import GIB, MIB
from tests.gpu.measuring import training_rows, within_reach
from tests.gpu.plans import ARCHITECTURES, INFERENCE, TRAINING, TrainingCase, committed, predictions
from tests.gpu.report import Machine, Row, broken_promises, markdown, write_report
from tests.gpu.transcribing import faster_whisper_bytes, transformers_bytes
from tests.unit.whisper_on_meta import DEMO_LIKE, TINY

CARD = Gpu("RTX 3060", 12 * GIB, "consumer", "Ampere", free_bytes=11 * GIB, index=0)
SAID = committed(CARD.architecture)
MACHINE = Machine("RTX 3060", 12 * GIB, 11 * GIB, "580.65", {"torch": "2.13.0"}, "2026-01-02")
ROW = Row("small, batch 8", "train", False, 3 * GIB, 4 * GIB, 3 * GIB, 5 * GIB, "fits", 3 * GIB, 4 * GIB)


def measured(case: TrainingCase, share: float = 1.02) -> Receipt:
    """What a card might say whose tensors are `share` of the prediction."""
    question = case.question()
    estimate = question.estimate(has_gpu=True)
    allocated = round(share * estimate.allocated_bytes)
    reserved = round(1.04 * allocated)
    return Receipt(
        created="2026-01-02T03:04:05+00:00",
        base_model=case.model,
        plan=question.plan(has_gpu=True),
        dimensions=question.dimensions,
        card=CARD.name,
        driver="580.65",
        versions={},
        predicted={},
        measured={
            "allocated_bytes": allocated,
            "reserved_bytes": reserved,
            "context_bytes": 400 * MIB,
            "device_bytes": reserved + 400 * MIB,
        },
        is_out_of_memory=share > 3,
    )


def test_every_case_was_predicted_before_and_a_third_is_held_back() -> None:
    names = [case.name for case in (*TRAINING, *INFERENCE)]
    assert list(SAID) == names, "python -m tests.gpu.plans writes the predictions again"
    assert len(set(names)) == len(names)
    for row in SAID.values():
        assert row["low_bytes"] < row["device_bytes"] < row["high_bytes"]
    assert sum(case.is_held_back for case in TRAINING) == len(TRAINING) // 3
    methods = {case.question().config.method for case in TRAINING}
    assert methods == {"full", "lora", "adalora", "dora", "frozen_encoder"}


def test_the_committed_predictions_are_those_of_todays_formulas() -> None:
    for architecture in ARCHITECTURES:
        today = {row["name"]: row for row in predictions(architecture)}
        assert committed(architecture) == today, "python -m tests.gpu.plans writes the predictions again"


def test_what_is_held_back_comes_last_and_is_judged_with_a_correction_it_did_not_teach() -> None:
    rows = list(training_rows(TRAINING, SAID, CARD, measured, "580.65"))
    assert [row.is_held_back for row in rows] == sorted(row.is_held_back for row in rows)
    assert {row.name for row in rows} == {
        case.name for case in TRAINING if within_reach(SAID[case.name], 11 * GIB)
    }
    corrected = [row for row in rows if row.corrected_high_bytes]
    assert corrected and all(row.is_held_back for row in corrected)
    for row in corrected:
        assert (row.corrected_high_bytes or 0) - (
            row.corrected_low_bytes or 0
        ) < row.high_bytes - row.low_bytes
    assert broken_promises(rows) == []


def test_a_card_on_which_more_is_taken_breaks_the_promise() -> None:
    rows = list(training_rows(TRAINING[:3], SAID, CARD, lambda case: measured(case, 2.0), "580.65"))
    assert len(broken_promises(rows)) >= 3 and "were said" in broken_promises(rows)[0]
    lost = list(training_rows(TRAINING[:1], SAID, CARD, lambda case: measured(case, 4), "580.65"))
    assert "said to fit, and memory ran out" in broken_promises(lost)[0]


def test_the_rule_is_broken_by_one_byte_over_the_range_and_by_nothing_less() -> None:
    assert broken_promises([replace(ROW, measured_device_bytes=ROW.high_bytes)]) == []
    assert len(broken_promises([replace(ROW, measured_device_bytes=ROW.high_bytes + 1)])) == 1
    assert broken_promises([replace(ROW, is_out_of_memory=True, verdict="tight")]) == []
    assert len(broken_promises([replace(ROW, corrected_high_bytes=3 * GIB)])) == 1


def test_the_table_names_the_machine_and_tells_every_row(tmp_path: Path) -> None:
    rows = [
        ROW,
        replace(ROW, name="held", is_held_back=True, measured_allocated_bytes=2 * GIB),
        replace(ROW, name="lost", measured_device_bytes=None, measured_allocated_bytes=None),
        replace(ROW, name="gone", is_out_of_memory=True),
    ]
    table, figures = write_report(MACHINE, rows, tmp_path)
    assert table.name == "gpu-rtx-3060.md"
    text = table.read_text(encoding="utf-8")
    assert text == markdown(MACHINE, rows) and "driver 580.65" in text and "torch 2.13.0" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    for said in ("held (held back)", "+50.0 %", "not told", "out of memory", "Broken promises: 1"):
        assert said in text
    assert [row["name"] for row in json.loads(figures.read_text(encoding="utf-8"))["rows"]][1] == "held"


def test_a_blank_model_writes_to_the_last_token(tmp_path: Path) -> None:
    plan = InferencePlan(precision="fp32", batch_size=2, num_beams=2, max_length=12)
    answer = transformers_bytes(plan, replace(DEMO_LIKE, max_source_positions=100), tmp_path)
    assert answer["tokens"] == 12


def test_a_converted_model_is_measured_with_its_own_engine(tmp_path: Path, whisper_tiny: Path) -> None:
    plan = InferencePlan(engine="faster-whisper", batch_size=1, max_length=8)
    answer = faster_whisper_bytes(plan, TINY, whisper_tiny, tmp_path)
    assert set(answer) == {"tokens", "allocated_bytes", "device_bytes"} and answer["allocated_bytes"] is None
