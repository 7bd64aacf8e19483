"""Beams that share what they hear write what beams with copies of it write."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, GenerationMixin, WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from studio.options.training import TrainingConfig
from studio.training.adapters import prepare_method
from studio.whisper.shared_sound import can_share, shared_sound

BEAMS, WINDOWS, PROMPT = 4, 3, (1, 2, 3)


@pytest.fixture
def model(micro_model: Path) -> Any:
    """With an adapter, whose matrices are not zero, on the layers that read the sound."""
    torch.manual_seed(5)
    plain = WhisperForConditionalGeneration.from_pretrained(micro_model, attn_implementation="sdpa")
    config = TrainingConfig(method="lora", target_modules=("k_proj", "v_proj"))
    tuned: Any = prepare_method(plain, config, 1)
    for name, weights in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.5)
    return tuned.get_base_model().eval()


@pytest.fixture
def encoded(model: Any) -> torch.Tensor:
    """Hidden states of windows that sound otherwise."""
    torch.manual_seed(7)
    return torch.randn(WINDOWS, model.config.max_source_positions, model.config.d_model)


def search(model: Any, encoded: torch.Tensor, **more: Any) -> list[list[int]]:
    model.generation_config = GenerationConfig()
    config = GenerationConfig(
        max_length=24, num_beams=BEAMS, eos_token_id=0, pad_token_id=0, decoder_start_token_id=1
    )
    found: torch.Tensor = GenerationMixin.generate(
        model,
        encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
        decoder_input_ids=torch.tensor([PROMPT] * len(encoded)),
        generation_config=config,
        **more,
    )
    return found.tolist()


def test_the_texts_are_the_same_for_one_window_and_for_several(model: Any, encoded: torch.Tensor) -> None:
    for windows in (encoded[:1], encoded):
        plain = search(model, windows)
        with shared_sound(model, windows) as shared:
            assert search(model, windows, past_key_values=shared) == plain
        assert len({tuple(row) for row in plain}) == len(windows), "each window has a text of its own"


def test_the_sound_is_kept_once_and_never_copied(model: Any, encoded: torch.Tensor) -> None:
    with shared_sound(model, encoded) as shared:
        first = [layer.keys.data_ptr() for layer in shared.cross_attention_cache.layers]
        search(model, encoded, past_key_values=shared)
        layers = shared.cross_attention_cache.layers
        assert [layer.keys.data_ptr() for layer in layers] == first
        assert {len(layer.keys) for layer in layers} == {WINDOWS}
        assert {len(layer.keys) for layer in shared.self_attention_cache.layers} == {WINDOWS * BEAMS}


def test_a_model_is_as_before_whatever_happens(model: Any, encoded: torch.Tensor) -> None:
    with pytest.raises(ZeroDivisionError), shared_sound(model, encoded):
        raise ZeroDivisionError
    assert model.config._attn_implementation == "sdpa"


def test_one_beam_and_other_attention_share_nothing(model: Any, micro_model: Path) -> None:
    assert can_share(model, 2) and not can_share(model, 1)
    eager = WhisperForConditionalGeneration.from_pretrained(micro_model, attn_implementation="eager")
    assert not can_share(eager, 2)
