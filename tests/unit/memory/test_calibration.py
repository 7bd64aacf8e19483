"""Receipts correct estimates for their own card, and for nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.memory.calibration import calibrate, calibration_for
from studio.memory.fit import fit
from studio.memory.gpus import Gpu
from studio.memory.overhead import step_figures
from studio.memory.plan import Part, TrainingPlan
from studio.memory.receipts import Receipt, keep_receipt, read_receipts
from studio.memory.training import estimate_training
from studio.registry.catalog import find_released
from studio.units import GIB, MIB

SMALL = find_released("small")
assert SMALL is not None
DIMENSIONS = SMALL.dimensions
HERE = Gpu("RTX 3060", 12 * GIB, "consumer", "Ampere", free_bytes=11 * GIB, index=0)
DRIVER = "580.65"


def receipt(plan: TrainingPlan, error: float = 0.0, slack: float = 0.05, **values: Any) -> Receipt:
    """A measurement whose tensors are off by `error`, whose allocator kept `slack`, context 400 MiB."""
    figures = step_figures(estimate_training(plan, DIMENSIONS))
    allocated = round(figures["allocated_bytes"] * (1 + error))
    reserved = round(allocated * (1 + slack))
    context = values.pop("context_bytes", 400 * MIB)
    given: dict[str, Any] = {
        "created": "2026-01-02T03:04:05+00:00",
        "base_model": "small",
        "plan": plan,
        "dimensions": DIMENSIONS,
        "card": HERE.name,
        "driver": DRIVER,
        "versions": {},
        "predicted": figures,
        "measured": {
            "allocated_bytes": allocated,
            "reserved_bytes": reserved,
            "context_bytes": context,
            "device_bytes": reserved + (context or 0) if context else None,
        },
        **values,
    }
    return Receipt(**given)


PLANS = [
    TrainingPlan(batch_size=4),
    TrainingPlan(batch_size=8, label_length=128),
    TrainingPlan(method="full", batch_size=2),
    TrainingPlan(batch_size=16, gradient_checkpointing=True),
    TrainingPlan(quantization="8bit", gradient_checkpointing=True, use_reentrant=True),
    TrainingPlan(attention="eager", batch_size=2),
]


def corrected(plan: TrainingPlan, receipts: list[Receipt], gpu: Gpu = HERE, driver: str = DRIVER) -> Any:
    known = calibration_for(gpu, receipts, driver)
    estimate = estimate_training(plan, DIMENSIONS)
    return known.correct(estimate, plan, DIMENSIONS)


def test_slack_and_context_become_those_of_the_card_and_the_range_shrinks_with_each_receipt() -> None:
    plan = TrainingPlan(batch_size=12)
    widths = []
    for count in (0, 1, 3, 10):
        estimate = corrected(plan, [receipt(PLANS[0], slack=0.05)] * count)
        widths.append(estimate.high_bytes - estimate.low_bytes)
        assert estimate.measurements == count
        assert sum(estimate.parts.values()) == estimate.device_bytes
        assert estimate.low_bytes <= estimate.device_bytes <= estimate.high_bytes
    assert widths == sorted(widths, reverse=True) and widths[-1] < widths[0] / 3
    assert estimate.reserved_bytes == pytest.approx(1.05 * estimate.allocated_bytes)
    assert estimate.device_bytes - estimate.reserved_bytes == 400 * MIB
    assert "measured 10 times" in str(estimate.formulas[Part.OVERHEAD])


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("error", [-0.3, -0.02, 0.0, 0.04, 0.5])
def test_no_range_is_narrower_than_what_was_measured(plan: TrainingPlan, error: float) -> None:
    receipts = [receipt(each, 0.01, slack=0.02) for each in PLANS] + [receipt(plan, error, slack=0.4)]
    estimate = corrected(plan, receipts)
    for each in receipts:
        if each.plan == plan:
            assert estimate.low_bytes <= (each.measured["device_bytes"] or 0) <= estimate.high_bytes
    assert estimate.low_bytes <= estimate.device_bytes <= estimate.high_bytes


def test_what_was_measured_of_one_plan_widens_the_range_of_its_like() -> None:
    estimate = corrected(TrainingPlan(batch_size=6), [receipt(PLANS[0], error=0.2, slack=0.3)])
    assert estimate.high_bytes >= round(1.2 * 1.3 * estimate.allocated_bytes) + 400 * MIB - 1


def test_the_very_plan_that_was_measured_is_told_as_measured_unless_evaluation_is_higher() -> None:
    plan = PLANS[1]
    measured = receipt(plan, error=-0.03)
    told = corrected(plan, [measured])
    assert measured.measured == {
        **measured.measured,
        **{name: getattr(told, name) for name in ("allocated_bytes", "reserved_bytes", "device_bytes")},
    }
    assert sum(told.parts.values()) == told.device_bytes
    assert "CUDA 400 MiB" in str(told.formulas[Part.OVERHEAD])
    evaluated = replace(plan, batch_size=1, eval_batch_size=64, label_length=448)
    once = receipt(replace(evaluated, eval_batch_size=0))
    uncorrected = estimate_training(evaluated, DIMENSIONS)
    assert uncorrected.peak_phase == "evaluation"
    assert corrected(evaluated, [once]).device_bytes > (once.measured["device_bytes"] or 0)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"card": "RTX 3090"}, False),
        ({"driver": "570.10"}, False),
        ({"driver": "580.99"}, True),
        ({"is_out_of_memory": True}, False),
        ({"measured": {"tensor_bytes": 5 * GIB}, "card": "cpu", "driver": ""}, False),
    ],
)
def test_only_what_was_measured_on_this_card_with_a_driver_like_this_counts(
    changes: dict[str, Any], counts: bool
) -> None:
    known = calibration_for(HERE, [replace(receipt(PLANS[0]), **changes)], DRIVER)
    assert bool(known.receipts) == counts


def test_a_card_of_the_table_stays_uncorrected() -> None:
    known = calibration_for(replace(HERE, index=None, free_bytes=None), [receipt(PLANS[0])], DRIVER)
    assert known.receipts == ()


def test_plans_of_another_kind_and_several_gpus_stay_uncorrected() -> None:
    receipts = [receipt(PLANS[0])]
    for plan in (PLANS[3], PLANS[4], PLANS[5], TrainingPlan(num_gpus=2)):
        assert corrected(plan, receipts) == estimate_training(plan, DIMENSIONS)


def test_a_context_that_the_driver_hides_is_the_usual_one() -> None:
    estimate = corrected(PLANS[1], [receipt(PLANS[0], context_bytes=None)])
    usual = estimate_training(PLANS[1], DIMENSIONS)
    assert estimate.device_bytes - estimate.reserved_bytes == usual.device_bytes - usual.reserved_bytes
    same = corrected(PLANS[0], [receipt(PLANS[0], context_bytes=None)])
    assert same.device_bytes - same.reserved_bytes == usual.device_bytes - usual.reserved_bytes


def test_receipts_are_kept_whole_and_broken_files_passed_over(tmp_path: Path) -> None:
    first, second = receipt(PLANS[4]), receipt(PLANS[2])
    later = replace(second, created="2026-01-02T03:04:06+00:00")
    files = [keep_receipt(tmp_path, each) for each in (second, later, first)]
    assert len(set(files)) == 3
    odd = files[0].read_text(encoding="utf-8").replace('"full"', '"prefix"')
    for number, broken in enumerate(('{"schema_version": 1', '{"schema_version": 99}', "[]", odd)):
        (tmp_path / f"broken-{number}.json").write_text(broken, encoding="utf-8")
    kept = read_receipts(tmp_path)
    assert len(kept) == 3 and kept[-1] == later and {first.plan, second.plan} == {r.plan for r in kept[:2]}
    elsewhere = calibrate(replace(HERE, index=None), tmp_path)
    assert elsewhere is not None and elsewhere.receipts == () and calibrate(None, tmp_path) is None
    assert read_receipts(tmp_path / "none") == ()


def test_a_search_for_what_fits_uses_what_was_measured_on_the_card() -> None:
    wish = TrainingPlan(base_dtype="bf16", batch_size=16)
    receipts = [receipt(replace(wish, batch_size=4)) for _ in range(8)]
    known = calibration_for(HERE, receipts, DRIVER)
    usual = estimate_training(wish, DIMENSIONS)
    own = known.correct(usual, wish, DIMENSIONS)
    assert own.high_bytes < usual.high_bytes
    between = (own.high_bytes + usual.high_bytes) // 2
    assert fit(DIMENSIONS, between, wish).plan != wish
    found = fit(DIMENSIONS, between, wish, known=known)
    assert found.plan == wish and found.fits and found.estimate == own
    other = replace(HERE, index=None, architecture="")
    assert found.elsewhere(other) == usual and found.largest_batch_size >= wish.batch_size


def test_what_is_measured_is_a_step_and_not_what_resuming_or_evaluating_takes() -> None:
    evaluated = estimate_training(TrainingPlan(batch_size=1, eval_batch_size=64), DIMENSIONS)
    alone = step_figures(evaluated)
    assert evaluated.peak_phase == "evaluation" and alone["allocated_bytes"] < evaluated.allocated_bytes
    assert alone["tensor_bytes"] == max(
        evaluated.phases[phase] for phase in ("forward", "backward", "optimizer_step")
    )
    assert alone["low_bytes"] < alone["device_bytes"] < alone["high_bytes"] < evaluated.high_bytes
    trained = estimate_training(TrainingPlan(batch_size=8), DIMENSIONS)
    assert step_figures(trained) == {
        "tensor_bytes": max(trained.phases.values()),
        **{name: getattr(trained, name) for name in step_figures(trained) if name != "tensor_bytes"},
    }
