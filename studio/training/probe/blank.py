"""A model of given dimensions without values, so that any model can be loaded without a download."""

import json
from pathlib import Path
from typing import Any

from studio.registry.spec import ModelDimensions

_HALF_BYTES = 2
_TIED = "proj_out.weight"
_VALUE = 0.01
_PACKED = 0x99
"""Two small values of NF4."""


def write_blank_model(folder: Path, dimensions: ModelDimensions) -> None:
    """Writes `config.json` and weights that are all zero.

    The file of the weights is a hole behind its header: where the file system knows sparse files, it takes a
    few kilobytes of the disk whatever the model's size.
    """
    from studio.memory.trace.model import blank_whisper

    model = blank_whisper(dimensions)
    model.config.architectures = ["WhisperForConditionalGeneration"]
    shapes = {name: list(t.shape) for name, t in model.state_dict().items() if name != _TIED}
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    _write_zeros(folder / "model.safetensors", shapes)


def _write_zeros(path: Path, shapes: dict[str, list[int]]) -> None:
    """A safetensors file: length of the header in 8 bytes, the header, the values."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        size = _HALF_BYTES
        for length in shape:
            size *= length
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.truncate(8 + len(text) + end)


def fill_weights(model: Any) -> None:
    """Makes every weight other than zero: DoRA divides by their norms.

    Packed weights of bitsandbytes get scales other than zero, which their unpacked values are multiples of.
    """
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            state = getattr(parameter, "quant_state", None)
            if state is not None:
                parameter.fill_(_PACKED)
                for scales in (state.absmax, state.offset):
                    if scales is not None:
                        scales.fill_(1)
            elif getattr(parameter, "SCB", None) is not None:
                parameter.fill_(1)
                parameter.SCB.fill_(1)
            else:
                parameter.fill_(_VALUE)
