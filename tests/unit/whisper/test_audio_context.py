"""The encoder takes features shorter than 30 s, and the model is the same afterwards."""

from pathlib import Path

import pytest
import torch
from transformers import WhisperForConditionalGeneration

from studio.options.training import TrainingConfig
from studio.training.adapters import prepare_method
from studio.whisper.audio_context import (
    POSITIONS,
    allow_short_audio,
    audio_context,
    positions_for,
    positions_of,
)


@pytest.mark.parametrize(
    ("frames", "positions"), [(0, 32), (44, 32), (45, 64), (470, 256), (2972, 1500), (3000, 1500)]
)
def test_a_window_is_a_little_longer_than_its_sound(frames: int, positions: int) -> None:
    assert positions_for(frames) == positions == positions_of(frames / 100)


def test_full_windows_are_read_as_ever(micro_model: Path) -> None:
    model = WhisperForConditionalGeneration.from_pretrained(micro_model).eval()
    features = torch.randn(1, 80, 3000)
    with torch.no_grad():
        before = model.get_encoder()(features).last_hidden_state
        allow_short_audio(model)
        after = model.get_encoder()(features).last_hidden_state
    assert torch.equal(before, after)


def test_short_windows_are_the_beginning_of_the_model_and_nothing_of_it_changes(
    micro_model: Path, tmp_path: Path
) -> None:
    model = WhisperForConditionalGeneration.from_pretrained(micro_model).eval()
    encoder = model.get_encoder()
    features = torch.randn(2, 80, 400)
    with pytest.raises(ValueError, match="3000"):
        encoder(features)
    with torch.no_grad(), audio_context(encoder, 200):
        states = encoder(features).last_hidden_state
    assert states.shape == (2, 200, 64)
    # The same by hand: convolutions, the first 200 positions, layers, norm.
    with torch.no_grad():
        hidden = torch.nn.functional.gelu(encoder.conv1(features))
        hidden = torch.nn.functional.gelu(encoder.conv2(hidden)).permute(0, 2, 1)
        hidden = hidden + encoder.embed_positions.weight[:200]
        for layer in encoder.layers:
            hidden = layer(hidden, None)
        wanted = encoder.layer_norm(hidden)
    torch.testing.assert_close(states, wanted)
    model.save_pretrained(tmp_path)
    again = WhisperForConditionalGeneration.from_pretrained(tmp_path)
    assert again.config.max_source_positions == POSITIONS
    assert again.get_encoder().embed_positions.weight.shape == (POSITIONS, 64)


@pytest.mark.parametrize("is_autocast", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["lora", "dora", "full"])
def test_every_method_learns_from_short_windows(
    method: str, checkpointing: bool, is_autocast: bool, micro_model: Path
) -> None:
    config = TrainingConfig(method=method, lora_r=4, gradient_checkpointing=checkpointing)
    model = WhisperForConditionalGeneration.from_pretrained(micro_model)
    allow_short_audio(model)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    wrapped = prepare_method(model, config, 10).train()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
        loss = wrapped(input_features=torch.randn(2, 80, 128), labels=torch.randint(0, 200, (2, 5))).loss
    loss.backward()
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    assert trained and all(p.grad is not None for p in trained)
