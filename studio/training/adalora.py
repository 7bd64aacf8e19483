"""Checkpoints of AdaLoRA: what it needs beside PEFT's own to go on exactly where it was."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from studio.files import read_json, write_json

_STATE = "adalora.safetensors"
_RANKS = "adalora.json"


def save_adalora(model: Any, folder: Path) -> None:
    """Writes the weights at full rank, the importance of each, and the ranks.

    PEFT's own checkpoint has the weights cut to the ranks of the moment, which the optimizer's do not fit.
    """
    allocator, inner = model.base_model.rankallocator, model.base_model.model
    tensors = {f"weight.{name}": p.detach() for name, p in inner.named_parameters() if "lora_" in name}
    for kind in ("ipt", "exp_avg_ipt", "exp_avg_unc"):
        tensors |= {f"{kind}.{name}": tensor for name, tensor in getattr(allocator, kind).items()}
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / _STATE)
    write_json(folder / _RANKS, model.peft_config["default"].rank_pattern)


def load_adalora(model: Any, folder: Path) -> None:
    """Puts back what `save_adalora` saved."""
    allocator = model.base_model.rankallocator
    parameters = dict(model.base_model.model.named_parameters())
    allocator.reset_ipt()
    for full_name, tensor in load_file(folder / _STATE).items():
        kind, _, name = full_name.partition(".")
        parameter = parameters[name]
        if kind == "weight":
            with torch.no_grad():
                parameter.copy_(tensor)
        else:
            getattr(allocator, kind)[name] = tensor.to(parameter.device)
    model.peft_config["default"].rank_pattern = read_json(folder / _RANKS)
