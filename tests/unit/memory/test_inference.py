"""Memory of transcribing, against what others measured on real cards."""

import pytest

from studio.errors import ConfigError
from studio.memory.inference import cross_cache_bytes, estimate_inference, self_cache_bytes
from studio.memory.plan import InferencePlan, Part
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions
from studio.units import MIB

MEASURED = [
    # faster-whisper README, RTX 3070 Ti (CUDA 12.4)
    ("large-v2", "faster-whisper", "fp16", 1, 5, 448, 4525),
    ("large-v2", "faster-whisper", "int8", 1, 5, 448, 2926),
    ("large-v2", "faster-whisper", "fp16", 8, 5, 100, 6090),
    ("large-v2", "faster-whisper", "int8", 8, 5, 100, 4500),
    ("large-v2", "transformers", "fp16", 1, 5, 448, 4960),
    # faster-whisper pull request 1030, RTX 2080 Ti
    ("large-v3", "faster-whisper", "fp16", 1, 5, 448, 4521),
    ("large-v3", "faster-whisper", "int8", 1, 5, 448, 2953),
    ("large-v3-turbo", "faster-whisper", "fp16", 1, 5, 448, 2537),
    ("large-v3-turbo", "faster-whisper", "int8", 1, 5, 448, 1545),
    ("distil-large-v3", "faster-whisper", "fp16", 1, 5, 448, 2409),
    ("distil-large-v3", "faster-whisper", "int8", 1, 5, 448, 1481),
]
"""Model, engine, precision, batch, beams, tokens of a window (as far as a batch of them is told), MiB."""


def dimensions_of(name: str) -> ModelDimensions:
    model = find_released(name)
    assert model is not None
    return model.dimensions


@pytest.mark.parametrize(("name", "engine", "precision", "batch", "beams", "length", "mebibytes"), MEASURED)
def test_published_measurements_are_met_and_never_above_the_range(
    name: str, engine: str, precision: str, batch: int, beams: int, length: int, mebibytes: int
) -> None:
    plan = InferencePlan(engine, precision, batch_size=batch, num_beams=beams, max_length=length)
    estimate = estimate_inference(plan, dimensions_of(name))
    assert estimate.high_bytes > mebibytes * MIB
    assert estimate.device_bytes == pytest.approx(mebibytes * MIB, rel=0.17)


def test_cross_attention_cache_of_large_is_246_megabytes_a_window() -> None:
    assert cross_cache_bytes(dimensions_of("large-v2"), 2) == 245_760_000


def test_the_text_cache_grows_in_proportion_to_the_length() -> None:
    large = dimensions_of("large-v2")
    assert self_cache_bytes(large, 400, 2) == 4 * self_cache_bytes(large, 100, 2)


def test_parts_add_up_and_each_has_its_formula() -> None:
    for engine, precision in (("transformers", "bf16"), ("faster-whisper", "int8")):
        plan = InferencePlan(engine, precision, adapter_rank=16 if engine == "transformers" else 0)
        estimate = estimate_inference(plan, dimensions_of("small"))
        assert sum(estimate.parts.values()) == estimate.device_bytes
        assert set(estimate.formulas) == {part for part in Part if part in estimate.formulas}
        assert all(estimate.formulas.get(part) for part, size in estimate.parts.items() if size)


def test_an_adapter_costs_its_own_weights_only() -> None:
    tiny = dimensions_of("tiny")
    without = estimate_inference(InferencePlan(), tiny)
    with_adapter = estimate_inference(InferencePlan(adapter_rank=32), tiny)
    extra = with_adapter.all_parameters - without.all_parameters
    assert with_adapter.allocated_bytes - without.allocated_bytes == 4 * extra


def test_int8_without_faster_whisper_is_refused() -> None:
    with pytest.raises(ConfigError, match="int8 is of faster-whisper"):
        InferencePlan("transformers", "int8")
    with pytest.raises(ConfigError, match="engine must be one of"):
        InferencePlan("whisper.cpp")
