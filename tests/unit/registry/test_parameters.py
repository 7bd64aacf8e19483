"""Tensors of a Whisper from its dimensions, against the real model."""

import pytest

from studio.registry.parameters import count_parameters, linear_layers, tensors
from studio.registry.spec import ModelDimensions
from tests.unit.whisper_on_meta import DEMO_LIKE, TINY, make_whisper_on_meta


@pytest.mark.parametrize("dimensions", [TINY, DEMO_LIKE])
def test_table_and_count_are_those_of_the_real_model(dimensions: ModelDimensions) -> None:
    real = list(make_whisper_on_meta(dimensions).parameters())
    table = sorted(group.shape for group in tensors(dimensions) for _ in range(group.count))
    assert table == sorted(tuple(p.shape) for p in real)
    assert count_parameters(dimensions) == sum(p.numel() for p in real)


def test_linear_layers_are_those_of_the_real_model() -> None:
    import torch

    model = make_whisper_on_meta(DEMO_LIKE)
    real = sorted(
        (name.split(".")[-1], module.in_features, module.out_features, module.bias is not None)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and ".layers." in name
    )
    table = sorted(
        (linear.name, linear.in_features, linear.out_features, linear.has_bias)
        for linear in linear_layers(DEMO_LIKE)
        for _ in range(linear.count)
    )
    assert table == real
