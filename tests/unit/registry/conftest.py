"""Small model folders with real files: the right names and shapes, zeros inside."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from studio.registry.parameters import linear_layers
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry

SMALL = ModelDimensions(16, 2, 1, 2, 2, 32, 32, 60, max_source_positions=30, max_target_positions=20)


def whisper_tensors(dimensions: ModelDimensions) -> dict[str, np.ndarray]:
    """The tensors that tell a Whisper's shape."""
    d = dimensions
    shapes = {
        "model.encoder.conv1.weight": (d.d_model, d.num_mel_bins, 3),
        "model.encoder.embed_positions.weight": (d.max_source_positions, d.d_model),
        "model.decoder.embed_tokens.weight": (d.vocab_size, d.d_model),
        "model.decoder.embed_positions.weight": (d.max_target_positions, d.d_model),
    }
    for layer in range(d.encoder_layers):
        shapes[f"model.encoder.layers.{layer}.fc1.weight"] = (d.encoder_ffn_dim, d.d_model)
    for layer in range(d.decoder_layers):
        shapes[f"model.decoder.layers.{layer}.fc1.weight"] = (d.decoder_ffn_dim, d.d_model)
    return {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}


def write_json(path: Path, value: object) -> None:
    """Writes a config."""
    path.write_text(json.dumps(value), encoding="utf-8")


def make_whisper(folder: Path, dimensions: ModelDimensions = SMALL, *, card: object = None) -> Path:
    """A folder that passes for a Whisper."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"model_type": "whisper", **dimensions.__dict__})
    write_json(folder / "preprocessor_config.json", {"feature_size": dimensions.num_mel_bins})
    write_json(folder / "tokenizer.json", {})
    save_file(whisper_tensors(dimensions), folder / "model.safetensors")
    if card is not None:
        write_json(folder / "model.json", card)
    return folder


def make_adapter(
    folder: Path, base: str | None, dimensions: ModelDimensions = SMALL, *, card: object = None
) -> Path:
    """A LoRA of rank 2 on all query projections and fc2."""
    folder.mkdir(parents=True)
    told = {"peft_type": "LORA", "r": 2, "base_model_name_or_path": base}
    write_json(folder / "adapter_config.json", told)
    matrices = {}
    for linear in linear_layers(dimensions):
        if linear.name not in ("q_proj", "fc2"):
            continue
        block = "" if linear.block == "mlp" else f"{linear.block}."
        for layer in range(linear.count):
            name = f"base_model.model.model.{linear.half}.layers.{layer}.{block}{linear.name}"
            matrices[f"{name}.lora_A.weight"] = np.zeros((2, linear.in_features), np.float32)
            matrices[f"{name}.lora_B.weight"] = np.zeros((linear.out_features, 2), np.float32)
    save_file(matrices, folder / "adapter_model.safetensors")
    if card is not None:
        write_json(folder / "model.json", card)
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    """A registry with a demo model, no trained models, and an empty Hugging Face cache."""
    demo = make_whisper(tmp_path / "assets" / "demo-whisper")
    return ModelRegistry(tmp_path / "models", demo=demo, hf_cache=tmp_path / "hub")
