"""What tests of the engine share: a loader that counts, sample recordings, adapters made here."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.transcription.engine import Progress, Transcript
from studio.transcription.loaded_base import LoadedBase, load_base

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

    @cached_property
    def sound(self) -> NDArray[np.float32]:
        """Its samples."""
        return read_audio(self.path)


def assert_times_are_sound(transcript: Transcript) -> None:
    """Segments and words follow one another inside the recording, words inside their segment."""
    times = [0.0]
    for segment in transcript.segments:
        times.append(segment.start_seconds)
        for word in segment.words:
            times += [word.start_seconds, word.end_seconds]
        times.append(segment.end_seconds)
    times.append(transcript.duration_seconds)
    assert times == sorted(times)


def assert_is_written_down(found: Transcript, said: Sample, timestamps: str) -> None:
    """Text, segments and words are those of the recording, where they are in it."""
    assert (found.text, found.language, found.model) == (said.text, "en", "demo")
    assert_times_are_sound(found)
    if timestamps == "none":
        assert [(s.start_seconds, s.end_seconds) for s in found.segments] == [(0.0, found.duration_seconds)]
        return
    for segment, known in zip(found.segments, said.segments, strict=True):
        assert abs(segment.start_seconds - known["start"]) < 0.5
    words = [word for segment in found.segments for word in segment.words]
    if timestamps == "word":
        assert [word.text for word in words] == said.text.split()
        assert all(0.0 < (word.probability or 0.0) <= 1.0 for word in words)


def assert_is_whole(found: Transcript, told: list[Progress]) -> None:
    """The recording was heard to its end, and progress told up to it."""
    assert_times_are_sound(found)
    assert found.segments[-1].end_seconds > found.duration_seconds - 10
    done = [progress.done_seconds for progress in told]
    assert done == sorted(done)
    assert done[-1] == told[-1].total_seconds == found.duration_seconds


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
