"""The trainers of short-audio mode: batches of like lengths, some padded to 30 seconds, in pieces."""

import time
from dataclasses import replace
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from studio.training.data.collator import ENCODED_CLIPS, ENCODER_STATES, TEACHER_STATES
from studio.training.schedule import Schedule
from studio.training.short_audio.audio_context import ClipsByLength, Paces, ShortAudio, padded, seconds_of
from studio.training.short_audio.distillation import distillation_loss
from studio.training.short_audio.encoder_states import EncoderStates
from studio.training.trainer import TrainerParts, WhisperTrainer
from studio.whisper.loss import IGNORED


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


class ShortAudioTrainer(WhisperTrainer):
    """Trains on batches as short as they are; the collator is to give them so."""

    def __init__(self, parts: TrainerParts, short: ShortAudio) -> None:
        data = replace(parts.data, evaluation=tuple(sorted(parts.data.evaluation, key=seconds_of)))
        super().__init__(replace(parts, data=data))
        self._short = short
        self._paces = Paces()
        parts.callback.speedup = lambda: self._paces.speedup
        self._steps_per_epoch = Schedule.of(parts.config, len(data.train)).steps_per_epoch

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        dataset: Any = train_dataset or self.train_dataset
        return ClipsByLength(
            dataset.clips,
            self._short.alike,
            self._config.seed,
            lambda: self.state.global_step // self._steps_per_epoch,
        )

    def _learn(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any, number: int) -> Any:
        """One micro-batch; one that is to be padded to 30 seconds goes through in pieces."""
        is_padded = self._short.is_padded(number)
        pieces = [inputs]
        began, clips = time.monotonic(), len(inputs["labels"])
        if is_padded:
            pieces = [piece for piece, _share in self._short.pieces(self._prepare_inputs(inputs))]
        total: Any = 0.0
        for piece in pieces:
            total = total + super()._learn(model, piece, num_items_in_batch, number)
        # Each loss has been looked at: whatever was asked of a GPU is done.
        self._paces.note(time.monotonic() - began, clips, is_padded=is_padded)
        return total

    def _rehearse(self, model: Any, inputs: dict[str, Any]) -> None:
        began = time.monotonic()
        super()._rehearse(model, inputs)
        self._paces.note_window(time.monotonic() - began)

    def prediction_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Reads as the model will be used; the base, before the first step, as the base is."""
        if self.state.global_step == 0 and not self._short.was_short:
            inputs = {**inputs, "input_features": padded(inputs["input_features"])}
        return super().prediction_step(model, inputs, *args, **kwargs)


class DistillingTrainer(ShortAudioTrainer):
    """Brings the states of a model that reads clips as they are near those of its teacher; the collator is to
    give these.
    """

    def _batch_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        from transformers.models.whisper.modeling_whisper import shift_tokens_right

        del model, return_outputs  # the decoder's model has the same weights, and is asked for its states
        whisper, labels = self._decoder.model, inputs["labels"]
        config = whisper.config
        given = shift_tokens_right(labels, config.pad_token_id, config.decoder_start_token_id)
        with self.accelerator.autocast():
            states = whisper.model(
                inputs["input_features"], decoder_input_ids=given, use_cache=False
            ).last_hidden_state
        chunk_size = self._config.loss_chunk_size
        return distillation_loss(
            states, inputs[TEACHER_STATES], whisper.proj_out.weight, labels != IGNORED, chunk_size
        )


def make_trainer(
    parts: TrainerParts, short: ShortAudio | None, encoder: EncoderStates | None
) -> WhisperTrainer:
    """The trainer of a run, in short-audio mode or not; with an `encoder` whose states are kept."""
    if encoder is not None:
        return FrozenEncoderTrainer(parts, encoder)
    if short is None:
        return WhisperTrainer(parts)
    return (DistillingTrainer if parts.config.distill else ShortAudioTrainer)(parts, short)
