"""The trainer of a frozen encoder whose states are kept: each clip goes through it once."""

from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from studio.training.collator import ENCODED_CLIPS, ENCODER_STATES
from studio.training.encoder_states import EncoderStates
from studio.training.trainer import TrainerParts, WhisperTrainer


class FrozenEncoderTrainer(WhisperTrainer):
    """Encodes without gradients, keeps the states, and takes those that the collator has found."""

    def __init__(self, parts: TrainerParts, states: EncoderStates) -> None:
        super().__init__(parts)
        self._states = states

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        clips = inputs.pop(ENCODED_CLIPS)
        prepared = super()._prepare_inputs(inputs)
        found = prepared.pop(ENCODER_STATES, None)
        if found is None:
            with torch.no_grad(), self.accelerator.autocast():
                found = self._encoded(prepared)
            self._states.keep(clips, found)
            del prepared["input_features"]
        prepared["encoder_outputs"] = BaseModelOutput(last_hidden_state=found)
        return prepared

    def _encoded(self, inputs: dict[str, Any]) -> Any:
        known = inputs.get("encoder_outputs")
        return super()._encoded(inputs) if known is None else known.last_hidden_state
