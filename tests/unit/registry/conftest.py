"""Small model folders with real files: the right names and shapes, zeros inside."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from studio.registry.parameters import linear_layers
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry

SMALL = ModelDimensions(
    d_model=16,
    encoder_layers=2,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=32,
    decoder_ffn_dim=32,
    vocab_size=60,
    max_source_positions=30,
    max_target_positions=20,
)

MakeFolder = Callable[..., Path]


def whisper_tensors(dimensions: ModelDimensions) -> dict[str, np.ndarray]:
    """The tensors that tell a Whisper's shape."""
    d = dimensions
    shapes = {
        "model.encoder.conv1.weight": (d.d_model, d.num_mel_bins, 3),
        "model.encoder.embed_positions.weight": (d.max_source_positions, d.d_model),
        "model.decoder.embed_tokens.weight": (d.vocab_size, d.d_model),
        "model.decoder.embed_positions.weight": (d.max_target_positions, d.d_model),
    }
    for half, layers, ffn in (
        ("encoder", d.encoder_layers, d.encoder_ffn_dim),
        ("decoder", d.decoder_layers, d.decoder_ffn_dim),
    ):
        for layer in range(layers):
            shapes[f"model.{half}.layers.{layer}.fc1.weight"] = (ffn, d.d_model)
    return {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}


def write_json(path: Path, value: object) -> None:
    """Writes a config."""
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def make_whisper() -> MakeFolder:
    """`make_whisper(folder, dimensions, card=…)`: a folder that passes for a Whisper."""

    def make(
        folder: Path, dimensions: ModelDimensions = SMALL, *, card: Mapping[str, Any] | None = None
    ) -> Path:
        folder.mkdir(parents=True)
        write_json(folder / "config.json", {"model_type": "whisper", **dimensions.__dict__})
        write_json(folder / "preprocessor_config.json", {"feature_size": dimensions.num_mel_bins})
        write_json(folder / "tokenizer.json", {})
        save_file(whisper_tensors(dimensions), folder / "model.safetensors")
        if card is not None:
            write_json(folder / "model.json", card)
        return folder

    return make


@pytest.fixture
def make_adapter() -> MakeFolder:
    """`make_adapter(folder, base, dimensions, card=…)`: a LoRA of rank 2 on all query projections and fc2."""

    def make(
        folder: Path,
        base: str | None,
        dimensions: ModelDimensions = SMALL,
        *,
        card: Mapping[str, Any] | None = None,
    ) -> Path:
        folder.mkdir(parents=True)
        write_json(
            folder / "adapter_config.json", {"peft_type": "LORA", "r": 2, "base_model_name_or_path": base}
        )
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

    return make


@pytest.fixture
def registry(tmp_path: Path, make_whisper: MakeFolder) -> ModelRegistry:
    """A registry with a demo model, no trained models, and an empty Hugging Face cache."""
    demo = make_whisper(tmp_path / "assets" / "demo-whisper")
    return ModelRegistry(tmp_path / "models", demo=demo, hf_cache=tmp_path / "hub")
