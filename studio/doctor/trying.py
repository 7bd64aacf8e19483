"""`python -m studio.doctor.trying`: tries what may hang or crash, thing after thing, a line of JSON each.

A driver or a codec that kills takes only this process with it: what it had found before stands in its output,
and what it was at is the last name there. The GPU memory that torch takes for its context is free again when
it ends.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from studio.errors import first_line
from studio.process_exit import leave

GPUS, AUDIO, TORCH, BITSANDBYTES, CTRANSLATE2 = "gpus", "audio", "torch", "bitsandbytes", "ctranslate2"
OK, MISSING = "ok", "missing"


def main() -> None:
    """Says what it is about to try, then what came of it."""
    tries: dict[str, Callable[[], dict[str, Any]]] = {
        GPUS: _gpus,
        AUDIO: _audio,
        TORCH: _torch,
        BITSANDBYTES: _bitsandbytes,
        CTRANSLATE2: _ctranslate2,
    }
    for name, attempt in tries.items():
        print(json.dumps({"trying": name}), flush=True)
        print(json.dumps(attempt()), flush=True)
    print(json.dumps({"trying": ""}), flush=True)


def _gpus() -> dict[str, Any]:
    from studio.doctor.gpu import gpu_states

    return {"gpus": [asdict(state) for state in gpu_states()]}


def _audio() -> dict[str, Any]:
    """A FLAC by soundfile, an OGG by av."""
    from studio.dataset.audio import read_audio
    from studio.errors import AudioError
    from studio.settings import DEMO_SPEECH

    try:
        for name in ("kitchen-light.flac", "long.ogg"):
            read_audio(DEMO_SPEECH / "samples" / name)
    except (AudioError, ImportError, OSError) as error:
        return {"audio": str(first_line(error))}
    return {"audio": OK}


def _torch() -> dict[str, Any]:
    try:
        import torch

        sees_gpu = torch.cuda.is_available()
        has_bf16 = sees_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        return {"sees_gpu": sees_gpu, "torch_cuda": torch.version.cuda or "", "has_bf16": has_bf16}
    except (ImportError, OSError, RuntimeError) as error:
        return {"problem": first_line(error)}


def _bitsandbytes() -> dict[str, Any]:
    """One product with weights in 4 and in 8 bits, on the GPU; nothing without one."""
    try:
        import torch

        if not torch.cuda.is_available():
            return {}
        import bitsandbytes.nn as typed_layers

        layers: Any = typed_layers
        rows = torch.ones(4, 64, device="cuda", dtype=torch.float16)
        for layer in (layers.Linear4bit(64, 64), layers.Linear8bitLt(64, 64, has_fp16_weights=False)):
            layer.half().to("cuda")(rows).sum().item()
        return {"bitsandbytes": OK}
    except (ImportError, OSError, RuntimeError, AttributeError, ValueError) as error:
        return {"bitsandbytes": first_line(error)}


def _ctranslate2() -> dict[str, Any]:
    """Whether faster-whisper finds what it computes with on an NVIDIA GPU; nothing without one."""
    try:
        import ctranslate2

        from studio.transcription.devices import has_cublas

        if not ctranslate2.get_cuda_device_count():
            return {}
        return {"ctranslate2": OK if has_cublas() else MISSING}
    except (ImportError, OSError, RuntimeError) as error:
        return {"ctranslate2": first_line(error)}


if __name__ == "__main__":
    main()
    leave()
