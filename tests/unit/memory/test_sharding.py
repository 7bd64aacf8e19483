"""What several GPUs divide among them."""

from dataclasses import replace

import pytest

from studio.errors import ConfigError
from studio.memory.plan import Part, Phase, TrainingPlan
from studio.memory.sharding import shares
from studio.memory.training import estimate_training
from studio.memory.weights import static_bytes
from studio.options.choices import SHARDINGS
from studio.registry.parameters import count_parameters
from tests.unit.whisper_on_meta import TINY


def test_one_gpu_divides_nothing_whatever_the_sharding() -> None:
    alone = [estimate_training(TrainingPlan(method="full", sharding=name), TINY) for name in SHARDINGS]
    assert len({estimate.device_bytes for estimate in alone}) == 1


def test_ddp_holds_everything_and_buckets_as_large_as_the_gradients() -> None:
    plan = TrainingPlan(method="full", num_gpus=4)
    static = static_bytes(plan, TINY)
    shared = shares(plan, TINY, static)
    assert (shared.weights, shared.gradients, shared.optimizer_states) == (1, 1, 1)
    assert shared.exchange_bytes == static.gradients


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients"), [("zero1", 1, 1), ("zero2", 1, 1 / 8), ("zero3", 1 / 8, 1 / 8)]
)
def test_each_stage_of_zero_divides_more(sharding: str, weights: float, gradients: float) -> None:
    plan = TrainingPlan(method="full", num_gpus=8, sharding=sharding)
    shared = shares(plan, TINY, static_bytes(plan, TINY))
    assert (shared.weights, shared.gradients, shared.optimizer_states) == (weights, gradients, 1 / 8)


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2), ("fp32", 4)])
def test_the_bucket_of_stage_2_is_whole_though_an_adapter_has_little_to_exchange(
    precision: str, width: int
) -> None:
    plan = TrainingPlan(precision=precision, num_gpus=8, sharding="zero2")
    assert shares(plan, TINY, static_bytes(plan, TINY)).exchange_bytes == 500_000_000 * width
    plan = TrainingPlan(precision=precision, num_gpus=8, sharding="zero1")
    assert shares(plan, TINY, static_bytes(plan, TINY)).exchange_bytes < 100_000_000


def test_whoever_divides_weights_gathers_less_than_all_of_them() -> None:
    plan = TrainingPlan(method="full", num_gpus=8, sharding="fsdp")
    static = static_bytes(plan, TINY)
    exchange = shares(plan, TINY, static).exchange_bytes
    # The embedding is outside of the layers, and more than half of a tiny model.
    assert 4 * TINY.vocab_size * TINY.d_model < exchange < 4 * count_parameters(TINY)


def test_an_evaluation_under_fsdp_holds_all_weights_beside_the_share_of_them() -> None:
    plan = TrainingPlan(method="full", num_gpus=8, sharding="fsdp", eval_batch_size=8)
    divided, alone = (estimate_training(each, TINY) for each in (plan, replace(plan, num_gpus=1)))
    static = static_bytes(plan, TINY)
    states = static.optimizer_states + static.weights_trainable + static.weights_frozen
    assert divided.phases[Phase.EVALUATION] == pytest.approx(
        alone.phases[Phase.EVALUATION] - static.optimizer_states + states / 8, abs=4
    )


def test_the_estimate_of_a_gpu_holds_its_share() -> None:
    alone = estimate_training(TrainingPlan(method="full"), TINY)
    shared = estimate_training(TrainingPlan(method="full", num_gpus=4, sharding="zero2"), TINY)
    assert shared.parts[Part.OPTIMIZER_STATES] == pytest.approx(alone.parts[Part.OPTIMIZER_STATES] / 4)
    assert shared.parts[Part.WEIGHTS_TRAINABLE] == alone.parts[Part.WEIGHTS_TRAINABLE]


def test_importances_of_adalora_are_whole_on_each_gpu() -> None:
    plan = TrainingPlan(method="adalora", optimizer="sgd", num_gpus=4, sharding="zero2")
    shared = estimate_training(plan, TINY)
    assert shared.parts[Part.OPTIMIZER_STATES] == 3 * 4 * shared.trainable_parameters
    assert str(shared.formulas[Part.OPTIMIZER_STATES]).endswith("of adalora's own")


def test_packed_weights_are_not_divided() -> None:
    with pytest.raises(ConfigError, match="8bit weights cannot be divided among GPUs"):
        TrainingPlan(quantization="8bit", num_gpus=2, sharding="zero3")
