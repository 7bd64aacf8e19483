"""The best plan for a GPU: never one that may not fit, and never a change that was not needed."""

import itertools
from dataclasses import replace
from functools import cache

import pytest

from studio.errors import ConfigError
from studio.memory.fit import FEW_MODULES, FREEDOMS, FitResult, cards_for, fit, for_card, largest_batch_size
from studio.memory.gpus import GPUS, find_gpu, usable_bytes
from studio.memory.plan import TrainingPlan
from studio.memory.training import estimate_training
from studio.options.choices import ALL_LINEAR
from studio.registry.catalog import RELEASED, find_released
from studio.registry.spec import ModelDimensions
from studio.units import GIB

LORA = TrainingPlan(base_dtype="bf16", batch_size=16, eval_batch_size=8, label_length=128)
FULL = TrainingPlan(method="full", batch_size=16, eval_batch_size=8)
WISHES = (
    LORA,
    FULL,
    replace(LORA, method="dora"),
    replace(LORA, precision="fp32", base_dtype="fp32"),
    replace(LORA, batch_size=12, gradient_accumulation_steps=2),
)
EVERYTHING = [
    (model.id, gib, wish)
    for model, gib, wish in itertools.product(RELEASED[::3], (2, 4, 6, 8, 10, 12, 16, 24, 48, 80), WISHES)
]


def dimensions_of(name: str) -> ModelDimensions:
    model = find_released(name)
    assert model is not None
    return model.dimensions


@cache
def every_fit() -> list[tuple[tuple[str, int, TrainingPlan], FitResult]]:
    return [(case, fit(dimensions_of(case[0]), case[1] * GIB, case[2])) for case in EVERYTHING]


def test_no_plan_is_said_to_fit_whose_high_end_does_not() -> None:
    for case, result in every_fit():
        high = estimate_training(result.plan, dimensions_of(case[0])).high_bytes
        assert result.fits == (high <= case[1] * GIB), case
    assert 0 < sum(result.fits for _, result in every_fit()) < len(EVERYTHING)


def test_each_step_learns_from_as_many_clips_as_was_wished() -> None:
    for case, result in every_fit():
        wished, found = (
            plan.batch_size * plan.gradient_accumulation_steps for plan in (case[2], result.plan)
        )
        assert found == wished, case


def test_bits_are_taken_only_after_checkpointing_and_fewer_adapters() -> None:
    in_bits = [(case, found.plan) for case, found in every_fit() if found.plan.quantization != "none"]
    for case, plan in in_bits:
        assert plan.gradient_checkpointing and plan.target_modules == FEW_MODULES, case
    assert in_bits


def test_the_ladder_leads_from_the_wish_to_the_plan_and_its_savings_add_up() -> None:
    for case, result in every_fit():
        saved = sum(rung.saves_bytes for rung in result.rungs)
        assert result.wished.device_bytes - saved == result.estimate.device_bytes, case
        assert result.plan == (result.rungs[-1].plan if result.rungs else case[2]), case
        assert all(rung.saves_bytes >= 0 for rung in result.rungs), case


def test_evaluation_is_told_of_before_what_costs_quality() -> None:
    result = fit(dimensions_of("large-v3"), 4 * GIB, replace(LORA, method="full", base_dtype="fp32"))
    changes = [str(rung.change) for rung in result.rungs]
    cut = next(number for number, change in enumerate(changes) if "in evaluation" in change)
    assert changes[-1].startswith("Frozen weights in") and cut < len(changes) - 1
    assert all(rung.saves_bytes >= 0 for rung in result.rungs)


def test_a_wish_that_fits_stays_as_it_is() -> None:
    result = fit(dimensions_of("tiny"), 24 * GIB, LORA)
    assert result.fits and result.plan == LORA and result.rungs == ()


def test_large_v3_with_lora_fits_on_a_3060_with_checkpointing_and_no_fewer_bits() -> None:
    card = find_gpu("RTX 3060")
    assert card is not None
    result = fit(dimensions_of("large-v3"), usable_bytes(card), LORA)
    assert result.fits and result.plan.gradient_checkpointing
    assert (result.plan.quantization, result.plan.target_modules) == ("none", ALL_LINEAR)
    assert result.estimate.device_bytes < 11 * GIB < result.wished.device_bytes


def test_all_weights_of_large_do_not_fit_in_24_gib_and_the_nearest_is_offered() -> None:
    kept = fit(dimensions_of("large-v3"), 24 * GIB, FULL, keep=("method",))
    assert not kept.fits and kept.plan.method == "full" and kept.largest_batch_size == 0
    free = fit(dimensions_of("large-v3"), 24 * GIB, FULL)
    assert free.fits and free.plan.method in ("frozen_encoder", "lora")


@pytest.mark.parametrize("name", FREEDOMS)
def test_what_is_kept_is_not_changed(name: str) -> None:
    for wish in WISHES:
        plan = fit(dimensions_of("large-v3"), 3 * GIB, wish, keep=(name,)).plan
        assert getattr(plan, name) == getattr(wish, name)


def test_a_batch_whose_gradients_wait_for_no_other_may_take_least() -> None:
    wish = TrainingPlan(method="full", optimizer="sgd", batch_size=4, eval_batch_size=4)
    found = fit(dimensions_of("large-v3"), 17 * GIB, wish, keep=("method",))
    assert found.fits and found.plan.gradient_checkpointing
    assert (found.plan.batch_size, found.plan.gradient_accumulation_steps) == (4, 1)
    least = fit(dimensions_of("large-v3"), 0, wish, keep=("method",)).plan
    assert (least.batch_size, least.eval_batch_size) == (4, 1)


@pytest.mark.parametrize("wish", [replace(LORA, precision="pure_bf16"), replace(FULL, precision="pure_bf16")])
def test_beside_fewer_bits_bf16_is_that_of_autocast(wish: TrainingPlan) -> None:
    result = fit(dimensions_of("large-v3"), 7 * GIB // 2, wish)
    assert result.fits and (result.plan.quantization, result.plan.precision) == ("4bit", "bf16")
    assert result.rungs[-1].plan == result.plan
    kept = fit(dimensions_of("large-v3"), 7 * GIB // 2, wish, keep=("precision",)).plan
    assert (kept.quantization, kept.precision) == ("none", "pure_bf16")


def test_weights_that_gpus_divide_keep_their_bits() -> None:
    wish = replace(LORA, num_gpus=2, sharding="zero3")
    assert fit(dimensions_of("large-v3"), 2 * GIB, wish).plan.quantization == "none"


def test_evaluation_is_cut_down_before_training_is_given_up() -> None:
    few = replace(LORA, batch_size=1, gradient_checkpointing=True)
    wish = replace(few, eval_batch_size=64, generation_num_beams=8)
    result = fit(dimensions_of("large-v3"), 12 * GIB, wish)
    assert result.fits and result.plan == replace(wish, eval_batch_size=result.plan.eval_batch_size)
    assert 1 <= result.plan.eval_batch_size < 64
    assert "in evaluation" in str(result.rungs[-1].change)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    large = dimensions_of("large-v3")
    plan = replace(LORA, gradient_checkpointing=True)
    size = largest_batch_size(plan, large, 12 * GIB)
    assert estimate_training(replace(plan, batch_size=size), large).high_bytes <= 12 * GIB
    assert estimate_training(replace(plan, batch_size=size + 1), large).high_bytes > 12 * GIB
    assert largest_batch_size(plan, large, GIB) == 0
    assert largest_batch_size(plan, dimensions_of("tiny"), 1000 * GIB) == 1024


def test_cards_from_the_smallest_that_runs_it_upwards_all_run_it() -> None:
    cards = cards_for(fit(dimensions_of("large-v3"), 12 * GIB, LORA).elsewhere)
    assert {gpu for gpu, _verdict in cards} == set(GPUS)
    verdicts = {gpu.name: verdict for gpu, verdict in cards}
    assert verdicts["GeForce RTX 2060"] == "does_not_fit" and verdicts["H200"] == "fits"
    sizes = [gpu.memory_bytes for gpu, _verdict in cards]
    assert sizes == sorted(sizes)


def test_a_card_before_ampere_gets_fp16() -> None:
    plan = for_card(LORA, find_gpu("T4"))
    assert (plan.precision, plan.base_dtype) == ("fp16", "fp16")
    assert for_card(FULL, find_gpu("T4")).base_dtype == "fp32"
    held = replace(FULL, base_dtype="bf16")
    for kept in (held, replace(held, precision="pure_bf16")):
        assert for_card(kept, find_gpu("T4")) == kept
    assert for_card(LORA, find_gpu("A10")) == LORA and for_card(LORA, None) == LORA


@pytest.mark.parametrize(
    ("budget", "keep", "sentence"),
    [
        (-1, (), "cannot be the free memory of a GPU"),
        (10**19, (), "cannot be the free memory of a GPU"),
        (GIB, ("colour",), "colour cannot be kept: choose from precision"),
    ],
)
def test_what_cannot_be_asked_is_refused(budget: int, keep: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        fit(dimensions_of("tiny"), budget, keep=keep)


def test_an_answer_for_machines_has_bytes_and_the_ladder() -> None:
    row = fit(dimensions_of("large-v3"), 8 * GIB, LORA).to_json()
    assert row["fits"] is True and row["estimate"]["verdict"] == "fits"
    assert row["rungs"][0]["saves_bytes"] > GIB and row["rungs"][0]["change"].startswith("Batch 16 →")
