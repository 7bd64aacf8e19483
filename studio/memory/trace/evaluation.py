"""One batch of an evaluation under the tracker: encoding, the loss, and the last word of the longest text.

A text cannot be written word by word here, since which word is the likeliest has no answer on tensors without
values. Memory grows with every word, so that the last one is the highest: its caches are made as long as the
text before it, and one step of the decoder is run on them, as transformers' `generate` does.
"""

from typing import Any

import torch
from torch.nn import functional

from studio.memory.plan import TrainingPlan
from studio.memory.trace.cuda import AutocastRegion
from studio.memory.trace.model import whisper_of
from studio.registry.spec import ModelDimensions

_FRAMES_PER_POSITION = 2
_PROMPT = 4
"""Start, language, task, no timestamps."""


@torch.no_grad()
def evaluate(model: Any, plan: TrainingPlan, dimensions: ModelDimensions, autocast: AutocastRegion) -> None:
    """What `WhisperTrainer.prediction_step` allocates for a full batch."""
    whisper = whisper_of(model)
    whisper.eval()
    d, batch = dimensions, plan.eval_batch_size
    dtype = next(p.dtype for p in whisper.parameters() if p.is_floating_point())
    frames = _FRAMES_PER_POSITION * d.max_source_positions
    is_pure = plan.precision == "pure_bf16"
    given = torch.zeros(
        (batch, d.num_mel_bins, frames), dtype=torch.bfloat16 if is_pure else torch.float32, device="meta"
    )
    features = given.to(dtype)
    labels = torch.zeros(
        (batch, plan.eval_label_length or plan.label_length), dtype=torch.long, device="meta"
    )
    with autocast():
        encoded = whisper.get_encoder()(features).last_hidden_state
        # In chunks the model smooths the labels itself, and has no logits.
        _loss(whisper, encoded, labels, 0.0 if plan.loss_chunk_size else plan.label_smoothing_factor)
        _write_last_word(whisper, encoded, plan, d)


def _loss(whisper: Any, encoded: torch.Tensor, labels: torch.Tensor, smoothing: float) -> None:
    """Of the labels, given the sound; its logits are gone before a text is written."""
    from transformers.modeling_outputs import BaseModelOutput

    outputs = whisper(
        encoder_outputs=BaseModelOutput(last_hidden_state=encoded), labels=labels, use_cache=False
    )
    if smoothing:
        logits = outputs.logits.view(-1, outputs.logits.shape[-1])
        functional.cross_entropy(logits, labels.view(-1), label_smoothing=smoothing)


def _write_last_word(whisper: Any, encoded: torch.Tensor, plan: TrainingPlan, d: ModelDimensions) -> None:
    """A step of `generate` with the caches of all that was written before."""
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    beams = plan.generation_num_beams
    if beams > 1:
        encoded = encoded.repeat_interleave(beams, dim=0)
    rows = plan.eval_batch_size * beams
    cache: Any = EncoderDecoderCache(DynamicCache(), DynamicCache())
    decoder = whisper.get_decoder()
    prompt = torch.zeros((rows, _PROMPT), dtype=torch.long, device="meta")
    decoder(input_ids=prompt, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
    before = min(_PROMPT + plan.generation_max_length, d.max_target_positions) - 1
    for layer in cache.self_attention_cache.layers:
        for name in ("keys", "values"):
            grown = getattr(layer, name)
            setattr(layer, name, grown.new_empty((*grown.shape[:2], before, grown.shape[3])))
            del grown
    if beams > 1:
        _choose_beams(cache, rows)
    word = torch.zeros((rows, 1), dtype=torch.long, device="meta")
    states = decoder(input_ids=word, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
    logits = whisper.proj_out(states.last_hidden_state)
    scores = logits[:, -1, :].to(copy=True, dtype=torch.float32)
    if beams > 1:
        scores = functional.log_softmax(scores, dim=-1)
        scores = scores.clone() + scores.new_empty((rows, 1))
        torch.topk(scores.view(plan.eval_batch_size, -1), 2 * beams)
    else:
        torch.argmax(scores, dim=-1)


def _choose_beams(cache: Any, rows: int) -> None:
    """Every beam goes on from another one: its caches are copied layer by layer."""
    cache.reorder_cache(torch.zeros(rows, dtype=torch.long, device="meta"))
