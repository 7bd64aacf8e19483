"""The table of GPUs, and what fits on them."""

import dataclasses
from types import SimpleNamespace

import pynvml
import pytest

from studio.errors import ConfigError
from studio.memory.gpus import (
    GPUS,
    MORE_GPUS,
    Gpu,
    card,
    cards_of,
    detected_gpus,
    find_gpu,
    read_otherwise,
    usable_bytes,
    verdict,
)
from studio.memory.plan import TrainingPlan
from studio.memory.training import estimate_training
from studio.units import GIB, MIB
from tests.unit.whisper_on_meta import TINY

GTX = "GeForce GTX 1080 Ti"


def test_every_gpu_is_in_the_table_once() -> None:
    assert len({gpu.name for gpu in (*GPUS, *MORE_GPUS)}) == len(GPUS) + len(MORE_GPUS)
    assert {gpu.kind for gpu in GPUS} == {"consumer", "workstation", "datacenter"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("T4", "T4"), ("rtx 4090", "GeForce RTX 4090"), ("4090", "GeForce RTX 4090"), ("H200", "H200")),
        *(
            ("RTX4090", "GeForce RTX 4090"),
            ("rtx-4090", "GeForce RTX 4090"),
            ("2080ti", "GeForce RTX 2080 Ti"),
        ),
        *(
            ("A100", "A100 40 GB"),
            ("A100 80GB", "A100 80 GB"),
            ("a100-40g", "A100 40 GB"),
            ("V100 32GiB", "V100 32 GB"),
        ),
        *(("NVIDIA A100-SXM4-80GB", "A100 80 GB"), ("Tesla T4", "T4"), ("H100 PCIe", "H100 80 GB")),
        *(("A100 80G", "A100 80 GB"), ("A100_80GB PCIe", "A100 80 GB"), ("H100 80GB HBM3", "H100 80 GB")),
        *(("4060 Ti 16G", "GeForce RTX 4060 Ti 16 GB"), ("rtx4060ti16gb", "GeForce RTX 4060 Ti 16 GB")),
        *(("RTX 3060 12GB", "GeForce RTX 3060"), ("RTX 4090 24GB", "GeForce RTX 4090"), ("T4 16GB", "T4")),
        *(("RTX 3080 10GB", "GeForce RTX 3080 10 GB"), ("3080 12GB", "GeForce RTX 3080 12 GB")),
        *(("NVIDIA A10G", "A10G"), ("3060 Ti", "GeForce RTX 3060 Ti"), ("3090 Ti", "GeForce RTX 3090 Ti")),
        *(("RTX 4080 SUPER", "GeForce RTX 4080 Super"), ("4070Ti Super", "GeForce RTX 4070 Ti Super")),
        *(
            ("RTX 4070 Ti", "GeForce RTX 4070 Ti"),
            ("AMD Instinct MI300X OAM", "MI300X"),
            ("5080", "GeForce RTX 5080"),
        ),
        *(("RTX PRO 6000", "RTX PRO 6000 Blackwell"), ("RTX 6000 Ada Generation", "RTX 6000 Ada")),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
        *(("H100 NVL", "H100 NVL"), ("NVIDIA H100 NVL 94GB", "H100 NVL"), ("L40 48GB", "L40")),
        *(("A6000 48 GB", "RTX A6000"), ("H200 141GB", "H200")),
        *(("A10 24GB", "A10"), ("L40S-48GB", "L40S"), ("RTX 3080 16GB", None), ("A100 60GB", None)),
        *(("4060 Ti", "GeForce RTX 4060 Ti 8 GB"), ("RTX 4060", "GeForce RTX 4060"), ("A10", "A10")),
        *(("4090 laptop", "GeForce RTX 4090 Laptop"), ("RTX 3070 Mobile", "GeForce RTX 3070 Laptop")),
        ("NVIDIA GeForce RTX 4080 Laptop GPU", "GeForce RTX 4080 Laptop"),
        *(
            ("Colab T4", "T4"),
            ("rtx 4090 24gb gddr6x", "GeForce RTX 4090"),
            ("ＲＴＸ ４０９０", "GeForce RTX 4090"),
        ),
        *(("GTX 1080", "GeForce GTX 1080"), ("3070 Ti", "GeForce RTX 3070 Ti"), ("Tesla P40", "P40")),
        *(("GH200", "GH200"), ("H20", "H20"), ("H200 NVL", "H200 NVL"), ("RTX 4090D", "GeForce RTX 4090 D")),
        *(("Titan RTX", "TITAN RTX"), ("Ti", None), ("Ada", None), ("6000", None), ("8000", None)),
        *(("Voodoo 2", None), (" ", None), ("80GB", None), ("90", None), ("Blackwell", None)),
    ],
)
def test_a_gpu_is_found_by_the_name_people_use(name: str, found: str | None) -> None:
    gpu = find_gpu(name)
    assert (gpu.name if gpu else None) == found


def test_a_name_without_its_memory_is_taken_for_the_smaller_card_and_said() -> None:
    assert read_otherwise("a100") == "The GPU a100 is taken for A100 40 GB (there is also A100 80 GB)."
    for name in ("H100", "A100 80GB", "A100-80G", "4060 Ti 16G", "RTX 4090", "24GiB", ""):
        assert read_otherwise(name) == ""


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("RTX 3080 16GB", "GeForce RTX 3080 has 10 / 12 GiB"), ("a100-60g", "A100 has 40 / 80 GiB")],
)
def test_a_size_that_no_such_card_has_is_refused_with_those_that_there_are(name: str, sizes: str) -> None:
    with pytest.raises(ConfigError, match=f"There is no GPU '{name}' in the table: {sizes}. Give that, or"):
        card(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [("0", "'0' is no memory of a GPU"), (" 0 GiB", "is no memory"), ("24576", "write 24576MiB if that is")],
)
def test_a_size_that_no_card_can_have_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        card(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(("2x A100", "name one, A100 40 GB, .* num_processes 2"), ("A100 x4", "num_processes 4")),
        *(("2×4090", "GeForce RTX 4090"), ("2 x 24GiB", "name one, 24 GiB")),
        *(("3090x2", "GeForce RTX 3090, .* num_processes 2"), ("Kaggle T4 x2", "T4, .* num_processes 2")),
    ],
)
def test_several_cards_are_refused_with_how_to_say_it(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        card(text)
    with pytest.raises(ConfigError, match="There is no GPU"):
        card("2x Voodoo")


@pytest.mark.parametrize(
    ("text", "first"),
    [("Gigabyte RTX 4090", "GeForce RTX 4090"), ("RTX A6000 Ada", "RTX 6000 Ada"), ("GB200", "B200")],
)
def test_a_name_that_nobody_knows_is_answered_with_what_comes_nearest(text: str, first: str) -> None:
    with pytest.raises(ConfigError, match=f"or a name: {first},"):
        card(text)


def test_a_size_is_taken_in_its_unit_and_a_bare_one_in_gib() -> None:
    for text in ("24", "24GiB", "24576MiB", "24576 mib", "24G", "24 g", "24 GiB VRAM", "24G GPU"):
        found = card(text)
        assert found is not None and found.memory_bytes == 24 * GIB
    one = card("1 TB")
    assert one is not None and one.name == "931.32 GiB"


def test_every_row_answers_to_its_own_name() -> None:
    assert [find_gpu(gpu.name) for gpu in (*GPUS, *MORE_GPUS)] == [*GPUS, *MORE_GPUS]


def test_only_ampere_and_later_compute_in_bf16() -> None:
    t4, a10 = find_gpu("T4"), find_gpu("A10")
    assert t4 is not None and not t4.has_bf16
    assert a10 is not None and a10.has_bf16


def test_a_card_with_a_screen_has_less_to_give_and_a_busy_one_only_what_is_free() -> None:
    gpu = Gpu("GeForce RTX 3060", 12 * GIB, "consumer", "Ampere")
    assert usable_bytes(gpu) < gpu.memory_bytes
    assert usable_bytes(gpu) < usable_bytes(dataclasses.replace(gpu, kind="datacenter")) < gpu.memory_bytes
    given = card("12GiB")
    assert given is not None and usable_bytes(given) == 12 * GIB
    assert usable_bytes(dataclasses.replace(gpu, free_bytes=3 * GIB)) == 3 * GIB


@pytest.mark.parametrize(
    ("name", "total_gib"),
    [
        *(("T4", 14.74), ("V100 16 GB", 15.77), ("L4", 22.05), ("A10G", 22.06), ("A100 40 GB", 39.39)),
        *(("A100 80 GB", 79.15), ("L40S", 44.39), ("H100 80 GB", 79.18), ("H200", 139.72)),
    ],
)
def test_no_more_of_a_card_can_be_used_than_cuda_says_that_it_has(name: str, total_gib: float) -> None:
    """The total capacity in messages of PyTorch: the driver keeps the rest."""
    gpu = find_gpu(name)
    assert gpu is not None and 0.98 * total_gib < usable_bytes(gpu) / GIB <= total_gib


def test_nothing_fits_unless_the_high_end_of_its_range_does() -> None:
    estimate = estimate_training(TrainingPlan(), TINY)
    assert estimate.low_bytes < estimate.device_bytes < estimate.high_bytes
    assert verdict(estimate, estimate.high_bytes) == "fits"
    assert verdict(estimate, estimate.high_bytes - 1) == "tight"
    assert verdict(estimate, estimate.device_bytes) == "tight"
    assert verdict(estimate, estimate.device_bytes - 1) == "does_not_fit"


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that knows two cards, the first of which does not tell its memory."""

    def memory(card: int) -> SimpleNamespace:
        if card == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(total=24 * GIB, free=20 * GIB)

    for name, answer in (
        ("nvmlInit", lambda: None),
        ("nvmlShutdown", lambda: None),
        ("nvmlDeviceGetCount", lambda: 2),
        ("nvmlDeviceGetHandleByIndex", lambda index: index),
        ("nvmlDeviceGetUUID", lambda card: ("GPU-1f2e-aa", "GPU-9c3d-bb")[card]),
        ("nvmlDeviceGetName", lambda card: ("NVIDIA GB10", "NVIDIA GeForce RTX 3090")[card]),
        ("nvmlDeviceGetMemoryInfo", memory),
        ("nvmlDeviceGetCudaComputeCapability", lambda card: (8, 6)),
    ):
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


def test_a_card_that_does_not_tell_its_memory_hides_no_other(two_cards: None) -> None:
    assert [(gpu.name, gpu.index) for gpu in detected_gpus()] == [("GeForce RTX 3090", 1)]


@pytest.mark.parametrize(
    ("named", "cards"),
    [
        ("1,0", [1, 0]),
        ("1", [1]),
        ("GPU-9c3d, 0", [1, 0]),
        ("0,7,1", [0]),  # as CUDA reads it
        ("", []),
        ("-1", []),
        ("MIG-4711", [0, 1]),
    ],
)
def test_cards_are_those_that_cuda_may_use(
    two_cards: None, monkeypatch: pytest.MonkeyPatch, named: str, cards: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert list(cards_of(pynvml)) == cards
    assert [gpu.index for gpu in detected_gpus()] == [card for card in cards if card == 1]


def test_the_machine_is_asked_without_failing() -> None:
    for gpu in detected_gpus():
        assert gpu.free_bytes is not None
        assert 0 <= gpu.free_bytes <= gpu.memory_bytes
        assert gpu.memory_bytes > 100 * MIB
