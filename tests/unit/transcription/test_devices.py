"""Where a model computes, with accelerators that this machine may not have."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import ctranslate2
import pytest
import torch
import xxhash

from studio.doctor.trying import _torch
from studio.errors import ConfigError
from studio.options.training import TrainingConfig
from studio.training.adapters import choose_precision
from studio.transcription.devices import (
    DEVICES,
    accelerator,
    ctranslate2_device,
    has_cublas,
    is_out_of_memory,
    torch_device,
    usual_dtype,
    without_cublas,
)


@dataclass
class Named:
    """What torch says of an accelerator."""

    type: str


def has(monkeypatch: pytest.MonkeyPatch, kind: str, count: int = 1) -> None:
    """A machine with so many accelerators of a kind."""
    found = Named(kind) if kind else None
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: found)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_auto_is_the_accelerator_that_torch_names(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    has(monkeypatch, kind, 2)
    assert [torch_device(name) for name in ("auto", "cpu", kind)] == [kind, "cpu", kind]
    assert [torch_device(f"{kind}:{number}") for number in (0, 1, 2)] == [f"{kind}:{n}" for n in (0, 1, 0)]
    other = next(name for name in DEVICES[2:] if name != kind)
    with pytest.raises(ConfigError, match=f"The device {other} was asked for, and it is not here"):
        torch_device(other)


@pytest.mark.parametrize("kind", ["", "meta"])
def test_without_one_that_the_studio_knows_it_is_the_processor(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    has(monkeypatch, kind)
    assert accelerator() == "" and torch_device("auto") == "cpu" == torch_device("auto:3")
    with pytest.raises(ConfigError, match="cuda was asked for"):
        torch_device("cuda")


def test_ctranslate2_takes_the_processor_for_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "mps")
    assert ctranslate2_device("mps") == ctranslate2_device("cpu") == ("cpu", 0)
    with pytest.raises(ConfigError, match="xpu was asked for, and it is not here"):
        ctranslate2_device("xpu")
    with pytest.raises(ConfigError, match="device must be one of auto, cpu, cuda, mps, xpu, got 'tpu'"):
        ctranslate2_device("tpu")


@pytest.fixture
def beside_a_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with a GPU that CTranslate2 sees, and without any cuBLAS."""
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 1)
    has_cublas.cache_clear()
    yield
    has_cublas.cache_clear()


def test_a_card_without_cublas_is_left_alone_and_the_user_is_told(beside_a_card: None) -> None:
    assert ctranslate2_device("auto") == ("cpu", 0)
    (note,) = without_cublas("auto")
    assert "computed on the processor" in str(note) and "pip install nvidia-cublas-cu12" in str(note)
    assert without_cublas("cpu") == ()
    with pytest.raises(
        ConfigError, match=r"libcublas\.so\.12 is not here: run pip install nvidia-cublas-cu12"
    ):
        ctranslate2_device("cuda")


def test_cublas_of_the_package_is_found_where_the_system_does_not_look(
    beside_a_card: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "nvidia" / "cublas" / "lib"
    place.mkdir(parents=True)
    shutil.copyfile(xxhash._xxhash.__file__, place / "libcublas.so.12")  # any library that can be loaded
    monkeypatch.syspath_prepend(tmp_path)
    assert ctranslate2_device("auto") == ctranslate2_device("cuda") == ("cuda", 0)
    assert without_cublas("auto") == ()
    with pytest.raises(ConfigError, match="cuda was asked for, and it is not here"):
        ctranslate2_device("cuda:1")


def test_accelerators_compute_in_16_bits() -> None:
    assert usual_dtype("cpu") == torch.float32
    assert usual_dtype("mps") == torch.float16
    assert usual_dtype("xpu:1") == torch.bfloat16


@pytest.mark.parametrize(("capability", "has_bf16"), [((7, 5), False), ((8, 0), True)])  # T4, A100
def test_cards_before_ampere_compute_in_fp16_though_torch_makes_bf16_tensors_there(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], has_bf16: bool
) -> None:
    properties = SimpleNamespace(major=capability[0], minor=capability[1])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert usual_dtype("cuda") == (torch.bfloat16 if has_bf16 else torch.float16)
    assert choose_precision(TrainingConfig(), has_gpu=True).name == ("bf16" if has_bf16 else "fp16")
    assert _torch()["has_bf16"] is has_bf16


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("CUDA failed with error out of memory"), True),  # CTranslate2
        (RuntimeError("shape mismatch"), False),
    ],
)
def test_memory_that_ran_out_is_known_by_its_words(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory
