"""The learning rate that a run gets when it names none."""

import pytest

from studio.options.training import TrainingConfig
from studio.training.learning_rate import gentler, learning_rate_for


def test_a_rate_that_is_given_is_used() -> None:
    assert learning_rate_for(TrainingConfig(learning_rate=3e-4), 384) == 3e-4


@pytest.mark.parametrize(
    ("method", "d_model", "rate"),
    [
        ("lora", 128, 2e-3),
        ("lora", 384, 3e-4),
        ("adalora", 1280, 1e-3),
        ("full", 384, 3.75e-5),
        ("full", 640, 2.5e-5),
        ("frozen_encoder", 1280, 5e-6),
    ],
)
def test_otherwise_method_and_width_decide(method: str, d_model: int, rate: float) -> None:
    assert learning_rate_for(TrainingConfig(method=method), d_model) == rate


def test_wide_models_and_whole_models_take_smaller_steps() -> None:
    widths = (128, 384, 512, 768, 1024, 1280)
    for method in ("lora", "full"):
        rates = [learning_rate_for(TrainingConfig(method=method), width) for width in widths]
        assert rates == sorted(rates, reverse=True)
    assert learning_rate_for(TrainingConfig(method="full"), 768) < learning_rate_for(TrainingConfig(), 768)


def test_a_gentler_run_has_a_third_of_the_rate_and_rehearses() -> None:
    plain = TrainingConfig(replay_share=0.0)
    assert gentler(plain, 1e-3).learning_rate == 3e-4
    assert gentler(gentler(plain, 1e-3), 3e-4).learning_rate == 1e-4
    assert gentler(plain, 1e-3).replay_share == TrainingConfig().replay_share > 0
    assert gentler(TrainingConfig(replay_share=0.5), None) == TrainingConfig(replay_share=0.5)
