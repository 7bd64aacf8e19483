"""Memory of transcribing, against what others measured on real cards."""

import re
from dataclasses import dataclass, replace

import pytest

from studio.errors import ConfigError
from studio.memory.inference import (
    BATCHED_TEXT_TOKENS,
    cross_cache_bytes,
    estimate_inference,
    self_cache_bytes,
)
from studio.memory.inference_plan import InferencePlan
from studio.memory.plan import MemoryEstimate, Part
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions
from studio.units import GIB, MIB
from tests.studio_process import ROOT


@dataclass(frozen=True)
class Figure:
    """A measurement that somebody published."""

    model: str
    engine: str
    precision: str
    batch_size: int
    num_beams: int
    measured_mib: int
    card: str

    @property
    def estimate(self) -> MemoryEstimate:
        """What the calculator says of it."""
        sizes = {"batch_size": self.batch_size, "num_beams": self.num_beams}
        plan = InferencePlan(self.engine, self.precision, shares_sound=False, **sizes)
        return estimate_inference(plan, dimensions_of(self.model))

    @property
    def predicted_mib(self) -> int:
        return round(self.estimate.device_bytes / MIB)

    @property
    def error(self) -> float:
        """Share by which the estimate is above what was measured."""
        return self.estimate.device_bytes / MIB / self.measured_mib - 1

    def __str__(self) -> str:
        return f"{self.model} {self.engine} {self.precision} batch {self.batch_size} {self.card}"


PUBLISHED = [
    # README of faster-whisper, CUDA 12.4
    Figure("large-v2", "faster-whisper", "fp16", 1, 5, 4525, "RTX 3070 Ti"),
    Figure("large-v2", "faster-whisper", "int8", 1, 5, 2926, "RTX 3070 Ti"),
    Figure("large-v2", "faster-whisper", "fp16", 8, 5, 6090, "RTX 3070 Ti"),
    Figure("large-v2", "faster-whisper", "int8", 8, 5, 4500, "RTX 3070 Ti"),
    Figure("large-v2", "transformers", "fp16", 1, 5, 4960, "RTX 3070 Ti"),
    # pull request 1030 of faster-whisper
    Figure("large-v3", "faster-whisper", "fp16", 1, 5, 4521, "RTX 2080 Ti"),
    Figure("large-v3", "faster-whisper", "int8", 1, 5, 2953, "RTX 2080 Ti"),
    Figure("large-v3-turbo", "faster-whisper", "fp16", 1, 5, 2537, "RTX 2080 Ti"),
    Figure("large-v3-turbo", "faster-whisper", "int8", 1, 5, 1545, "RTX 2080 Ti"),
    Figure("distil-large-v3", "faster-whisper", "fp16", 1, 5, 2409, "RTX 2080 Ti"),
    Figure("distil-large-v3", "faster-whisper", "int8", 1, 5, 1481, "RTX 2080 Ti"),
    # an older README of faster-whisper, CUDA 11.7
    Figure("large-v2", "faster-whisper", "fp16", 1, 5, 4755, "V100S"),
    Figure("large-v2", "faster-whisper", "int8", 1, 5, 3091, "V100S"),
    # issue 1257 of faster-whisper: "about 19 GB", card not told
    Figure("large-v3-turbo", "faster-whisper", "fp16", 80, 1, 18120, "not told"),
]
MISSED = [
    # issue 82 of insanely-fast-whisper: "about 20 GB"; neither which large model nor how long the texts are
    Figure("large-v3", "transformers", "fp16", 35, 1, 19073, "RTX 4090")
]
MEBIBYTES_A_ROW = re.compile(r"^\| (\S+) \| (\S+) (\S+) \| (\d+) / (\d+) \| (\d+) \| (\d+) \| (.+?) \|", re.M)


def dimensions_of(name: str) -> ModelDimensions:
    model = find_released(name)
    assert model is not None
    return model.dimensions


@pytest.mark.parametrize("figure", PUBLISHED, ids=str)
def test_each_published_figure_is_met_within_ten_percent_and_never_above_the_range(figure: Figure) -> None:
    assert abs(figure.error) <= 0.10, f"{figure}: {figure.predicted_mib} MiB, {figure.error:+.1%}"
    assert figure.estimate.high_bytes > figure.measured_mib * MIB


def test_the_readme_shows_every_figure_as_it_is_and_the_one_that_is_missed() -> None:
    text = (ROOT / "tests" / "benchmarks" / "reports" / "README.md").read_text(encoding="utf-8")
    shown = {
        (*row[:5], row[7] == "V100S"): (int(row[5]), int(row[6])) for row in MEBIBYTES_A_ROW.findall(text)
    }
    for figure in PUBLISHED + MISSED:
        key = (figure.model, figure.engine, figure.precision, str(figure.batch_size), str(figure.num_beams))
        assert shown[(*key, figure.card == "V100S")] == (figure.measured_mib, figure.predicted_mib), figure


@pytest.mark.parametrize("figure", MISSED, ids=str)
def test_what_is_missed_is_not_forgotten(figure: Figure) -> None:
    """Should this begin to pass, the row belongs to the others."""
    assert abs(figure.error) > 0.10


def test_windows_of_a_batch_may_all_be_full_of_text_at_the_high_end() -> None:
    plan = InferencePlan("faster-whisper", batch_size=8, num_beams=5)
    large = dimensions_of("large-v2")
    estimate = estimate_inference(plan, large)
    full = 8 * 5 * self_cache_bytes(large, 448 - BATCHED_TEXT_TOKENS, 2)
    assert estimate.high_bytes - estimate.device_bytes > full


def test_caches_of_large_are_246_megabytes_a_window_and_as_long_as_the_text() -> None:
    large = dimensions_of("large-v2")
    assert cross_cache_bytes(large, 2) == 245_760_000
    assert self_cache_bytes(large, 400, 2) == 4 * self_cache_bytes(large, 100, 2)


def test_beams_of_a_window_share_what_they_hear() -> None:
    large, five = dimensions_of("large-v2"), InferencePlan(batch_size=8, num_beams=5)
    copied = estimate_inference(replace(five, shares_sound=False), large)
    spared = copied.allocated_bytes - estimate_inference(five, large).allocated_bytes
    assert spared == 8 * 4 * cross_cache_bytes(large, 2) > 7 * GIB
    one = InferencePlan(batch_size=8)
    assert estimate_inference(one, large) == estimate_inference(replace(one, shares_sound=False), large)


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


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"engine": "transformers", "precision": "int8"}, "int8 is of faster-whisper"),
        ({"engine": "whisper.cpp"}, "engine must be one of"),
        ({"engine": "faster-whisper", "quantization": "8bit"}, "give precision int8_float16"),
    ],
)
def test_what_an_engine_does_not_have_is_refused(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        InferencePlan(**values)


def test_bits_shrink_the_linear_layers_only_and_say_so() -> None:
    large = dimensions_of("large-v3")
    plain, eight, four = (
        estimate_inference(InferencePlan(quantization=bits), large) for bits in ("none", "8bit", "4bit")
    )
    assert plain.device_bytes > eight.device_bytes > four.device_bytes
    assert plain.parts[Part.WEIGHTS_QUANTIZED] == 0
    for got, share in ((eight, 1 / 2), (four, 1 / 4)):
        linear = plain.parts[Part.WEIGHTS_FROZEN] - got.parts[Part.WEIGHTS_FROZEN]
        assert got.parts[Part.WEIGHTS_QUANTIZED] == pytest.approx(share * linear, rel=0.06)
        assert sum(got.parts.values()) == got.device_bytes
    assert "1,468,006,400 parameters of linear layers in 8bit" in str(eight.formulas[Part.WEIGHTS_QUANTIZED])


def test_int8_float16_is_int8_on_a_gpu() -> None:
    plans = [InferencePlan("faster-whisper", name) for name in ("int8", "int8_float16")]
    first, second = (estimate_inference(plan, dimensions_of("large-v3")).device_bytes for plan in plans)
    assert first == second
