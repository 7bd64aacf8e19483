"""What tests of the engine share: a loader that counts, sample recordings, adapters made here."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.inference.hugging_face import LoadedBase, load_base

ONE_WINDOW_AFTER_ANOTHER: tuple[dict[str, Any], ...] = (
    {"batch_size": 1},
    {"condition_on_prev_tokens": True},
    {"initial_prompt": "At home"},
    {"vad": False},
)
"""Options with which the windows of a recording are not decoded together."""


@dataclass
class CountingLoader:
    """Loads bases and remembers which."""

    folders: list[Path] = field(default_factory=list)

    def __call__(self, folder: Path, *_kind: str) -> LoadedBase:
        self.folders.append(folder)
        return load_base(folder, device="cpu")


@dataclass(frozen=True)
class Sample:
    """A recording of the demo speech and what is said in it."""

    path: Path
    text: str
    language: str | None
    segments: list[dict[str, Any]]


def save_adapter(base: Path, folder: Path, *, seed: int, strength: float = 1.0) -> Path:
    """A LoRA adapter with random weights; it changes what the model writes if `strength` is large."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import WhisperForConditionalGeneration

    torch.manual_seed(seed)
    model = WhisperForConditionalGeneration.from_pretrained(base, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted = get_peft_model(model, config)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.mul_(strength)
    adapted.save_pretrained(folder)
    card = {"id": folder.name, "kind": "adapter", "base_model": "demo", "created": "2026-01-01T00:00:00Z"}
    (folder / "model.json").write_text(json.dumps(card), encoding="utf-8")
    return folder
