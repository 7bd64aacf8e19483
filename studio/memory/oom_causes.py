"""What the memory that was not there was wanted for: by the frames of the traceback, or by its size."""

import re

from studio.memory.ladder import estimate_of
from studio.memory.oom_text import OomReport
from studio.memory.plan import Part, Phase, TrainingPlan
from studio.registry.spec import ModelDimensions

_FRAMES: tuple[tuple[Part, str], ...] = (
    (Part.OPTIMIZER_STATES, r"optimizer\.step|_init_group|exp_avg|optim/\w+\.py|load_optimizer|adamw?\.py"),
    (Part.LOGITS_AND_LOSS, r"cross_entropy|log_softmax|proj_out|lm_logits|nll_loss|loss_fct|loss_function"),
    (Part.ACTIVATIONS, r"prediction_step|evaluation_loop|\.generate\(|beam_search|past_key_values"),
    (Part.GRADIENTS, r"\.backward\(|autograd/|_engine_run_backward|accelerator\.backward"),
    (Part.WEIGHTS_QUANTIZED, r"Params4bit|Int8Params|quantize_4bit|int8_vectorwise_quant|quantizer_bnb"),
    (
        Part.WEIGHTS_FROZEN,
        r"from_pretrained|load_state_dict|_load_state_dict|model\.to\(|model\.cuda\(|module\._apply",
    ),
    (
        Part.ACTIVATIONS,
        r"modeling_whisper|scaled_dot_product|activation_fn|self_attn|encoder\(|F\.gelu|fc1|fc2",
    ),
)
"""Most telling first; a backward pass runs through frames of the forward pass when it computes again."""
_MATCH = 0.02
"""PyTorch prints two decimals, and its allocator rounds up."""


def likely_part(
    report: OomReport, plan: TrainingPlan | None, dimensions: ModelDimensions | None
) -> Part | None:
    """The part by the frames before the message, else by a tensor of just that size, else the largest."""
    for part, frames in _FRAMES:
        if re.search(frames, report.trace):
            return part
    if plan is None or dimensions is None:
        return None
    for part, size in _tensors(plan, dimensions):
        if report.asked_bytes and abs(report.asked_bytes - size) <= _MATCH * size:
            return part
    estimate = estimate_of(plan, dimensions)
    if estimate.peak_phase is Phase.EVALUATION:
        return Part.ACTIVATIONS
    return max((part for part in Part if part is not Part.OVERHEAD), key=lambda part: estimate.parts[part])


def _tensors(plan: TrainingPlan, dimensions: ModelDimensions) -> list[tuple[Part, float]]:
    """Large single tensors of a step: scores, hidden states, logits, the gradient of the embedding."""
    d = dimensions
    width = 2 if plan.is_autocast else 4
    hidden = plan.batch_size * plan.positions(d) * d.d_model
    scores = plan.batch_size * d.encoder_attention_heads * plan.positions(d) ** 2
    logits = plan.batch_size * plan.label_length * d.vocab_size
    rows = [
        (Part.ACTIVATIONS, size * bytes_each)
        for size in (scores, hidden, plan.batch_size * plan.positions(d) * d.encoder_ffn_dim)
        for bytes_each in (width, 4)
    ]
    rows += [(Part.LOGITS_AND_LOSS, logits * bytes_each) for bytes_each in (width, 4)]
    if not plan.is_adapter:
        rows.append((Part.GRADIENTS, 4 * d.vocab_size * d.d_model))
    return [(part, float(size)) for part, size in rows]
