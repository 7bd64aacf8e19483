"""The table of GPUs, and what fits on them."""

import dataclasses

import pytest

from studio.memory.gpus import GPUS, Gpu, detected_gpus, find_gpu, usable_bytes, verdict
from studio.memory.plan import TrainingPlan
from studio.memory.training import estimate_training
from studio.units import GIB, MIB
from tests.unit.whisper_on_meta import TINY


def test_every_gpu_is_in_the_table_once() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS)
    assert {gpu.kind for gpu in GPUS} == {"consumer", "workstation", "datacenter"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("T4", "T4"), ("rtx 4090", "GeForce RTX 4090"), ("4090", "GeForce RTX 4090"), ("H200", "H200")),
        *(("Voodoo 2", None), (" ", None)),
    ],
)
def test_a_gpu_is_found_by_the_name_people_use(name: str, found: str | None) -> None:
    gpu = find_gpu(name)
    assert (gpu.name if gpu else None) == found


def test_only_ampere_and_later_compute_in_bf16() -> None:
    t4, a10 = find_gpu("T4"), find_gpu("A10")
    assert t4 is not None and not t4.has_bf16
    assert a10 is not None and a10.has_bf16


def test_a_card_with_a_screen_has_less_to_give_and_a_busy_one_only_what_is_free() -> None:
    card = Gpu("GeForce RTX 3060", 12 * GIB, "consumer", "Ampere")
    assert usable_bytes(card) < card.memory_bytes
    assert usable_bytes(dataclasses.replace(card, kind="datacenter")) == card.memory_bytes
    assert usable_bytes(dataclasses.replace(card, free_bytes=3 * GIB)) == 3 * GIB


def test_nothing_fits_unless_the_high_end_of_its_range_does() -> None:
    estimate = estimate_training(TrainingPlan(), TINY)
    assert estimate.low_bytes < estimate.device_bytes < estimate.high_bytes
    assert verdict(estimate, estimate.high_bytes) == "fits"
    assert verdict(estimate, estimate.high_bytes - 1) == "tight"
    assert verdict(estimate, estimate.device_bytes) == "tight"
    assert verdict(estimate, estimate.device_bytes - 1) == "does_not_fit"


def test_the_machine_is_asked_without_failing() -> None:
    for gpu in detected_gpus():
        assert gpu.free_bytes is not None
        assert 0 <= gpu.free_bytes <= gpu.memory_bytes
        assert gpu.memory_bytes > 100 * MIB
