"""Where a model computes: on the accelerator that torch names (CUDA and ROCm, MPS, XPU), or the processor.

CTranslate2 knows CUDA alone; on the others it takes the processor.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from studio.errors import ConfigError, RunError
from studio.messages import Message
from studio.options.checks import check_choice

CPU, CUDA = "cpu", "cuda"
"""ROCm calls itself CUDA."""
DEVICES = ("auto", CPU, CUDA, "mps", "xpu")
_IS_WINDOWS = sys.platform == "win32"
_CUBLAS, _PLACE = ("cublas64_12.dll", "bin") if _IS_WINDOWS else ("libcublas.so.12", "lib")
"""That of CUDA 12, with which CTranslate2 is built (torch brings that of CUDA 13), and its folder in NVIDIA's
package."""
_NO_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory"),
    *("bad_alloc", "could not create a primitive"),  # C++ and oneDNN
)


def accelerator() -> str:
    """The kind of accelerator that torch finds here; empty if there is none."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    return found.type if found is not None and found.type in DEVICES else ""


def has_accelerator() -> bool:
    """Whether torch finds one."""
    return bool(accelerator())


def torch_device(name: str) -> str:
    """What torch calls `auto`, `cpu` or an accelerator, with or without the number of a card: `cuda:1`.

    Raises:
        ConfigError: if there is no such device, here or at all.
    """
    import torch

    kind, number = _kind(name)
    found = accelerator()
    if kind not in ("auto", CPU, found):
        raise _missing(kind)
    if kind == CPU or not found:
        return CPU
    return found if number is None else f"{found}:{number % torch.accelerator.device_count()}"


def ctranslate2_device(name: str) -> tuple[str, int]:
    """What CTranslate2 calls it, and the number of the card; `auto` is the processor where cuBLAS is missing.

    Raises:
        ConfigError: if there is no such device, here or at all, or no cuBLAS for it.
    """
    import ctranslate2

    kind, number = _kind(name)
    if kind not in ("auto", CPU, CUDA) and kind != accelerator():
        raise _missing(kind)
    count = ctranslate2.get_cuda_device_count()
    if kind == CUDA and count <= (number or 0):
        raise _missing(kind)
    if kind == CUDA and not has_cublas():
        raise ConfigError(
            "On a GPU, faster-whisper computes with cuBLAS of CUDA 12, and {library} is not here: run "
            "pip install nvidia-cublas-cu12, or choose the device cpu.",
            library=_CUBLAS,
        )
    return (CUDA, number or 0) if kind in ("auto", CUDA) and count and has_cublas() else (CPU, 0)


def without_cublas(name: str) -> tuple[Message, ...]:
    """What somebody is told whose recordings CTranslate2 hears on the processor beside a GPU."""
    import ctranslate2

    if _kind(name)[0] != "auto" or not ctranslate2.get_cuda_device_count() or has_cublas():
        return ()
    return (
        Message(
            "faster-whisper computed on the processor: for the GPU it needs cuBLAS of CUDA 12. Run "
            "pip install nvidia-cublas-cu12."
        ),
    )


@cache
def has_cublas() -> bool:
    """Whether CTranslate2 will find cuBLAS, which it looks for when it first computes: the system's, or that
    of the package nvidia-cublas-cu12, which is loaded here since the system does not know where it lies."""
    found = find_spec("nvidia")
    packages = (found and found.submodule_search_locations) or ()
    for library in (_CUBLAS, *(str(Path(package, "cublas", _PLACE, _CUBLAS)) for package in packages)):
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return True
    return False


def usual_dtype(device: str) -> Any:
    """The type that weights have on a device of torch, unless told: 16 bits on accelerators."""
    import torch

    kind = device.partition(":")[0]
    if kind == CPU:
        return torch.float32
    has_bf16 = kind == "xpu" or (kind == CUDA and torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.bfloat16 if has_bf16 else torch.float16


def free_memory() -> None:
    """Hands an accelerator's memory back that nobody needs any more."""
    import torch

    if has_accelerator():
        torch.accelerator.empty_cache()


def _kind(name: str) -> tuple[str, int | None]:
    kind, _, number = name.partition(":")
    check_choice("device", kind, DEVICES)
    return kind, int(number) if number.isdecimal() else None


def _missing(kind: str) -> ConfigError:
    return ConfigError("The device {name} was asked for, and it is not here: choose auto or cpu.", name=kind)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the accelerator or off it."""
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in _NO_MEMORY)


@contextmanager
def memory_for_a_model() -> Iterator[None]:
    """A block in which files come into memory. Raises RunError where that does not hold them."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):  # of one that is called broken, the reason is looked at
            raise
        raise RunError(
            "There is not enough memory for this model: choose a smaller one, or weights in 8 or 4 bits, "
            "or end other programs that use it."
        ) from error
