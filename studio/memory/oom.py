"""Why a run was out of memory: from an error or a log to what was short, who held it, and what would fit."""

import re
from dataclasses import dataclass, replace
from typing import Any

from studio.memory.fit import FitResult, fit, result_of
from studio.memory.gpus import LARGEST_MEMORY_GIB
from studio.memory.ladder import estimate_of
from studio.memory.oom_text import OomKind, OomReport, read_report
from studio.memory.plan import Part, Phase, TrainingPlan
from studio.messages import Message
from studio.registry.spec import ModelDimensions
from studio.units import GIB, format_bytes

_FRAMES: tuple[tuple[Part, str], ...] = (
    (Part.OPTIMIZER_STATES, r"optimizer\.step|_init_group|exp_avg|optim/\w+\.py|load_optimizer|adamw?\.py"),
    (Part.LOGITS_AND_LOSS, r"cross_entropy|log_softmax|proj_out|lm_logits|nll_loss|loss_fct|loss_function"),
    (Part.ACTIVATIONS, r"prediction_step|evaluation_loop|\.generate\(|beam_search|past_key_values"),
    (Part.GRADIENTS, r"\.backward\(|_engine_run_backward|accelerator\.backward"),
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


_CONTEXT_BYTES = GIB // 2
"""What a process holds beside what PyTorch counts, where the message does not tell."""


@dataclass(frozen=True)
class OomDiagnosis:
    """What a message means, and what helps."""

    report: OomReport
    sentences: tuple[Message, ...]
    """What happened, then what to do; one sentence if nothing was recognised."""
    others_bytes: int | None
    """What other processes hold on the GPU; None if the message does not tell."""
    part: Part | None
    """What the memory was likely wanted for."""
    repaired: FitResult | None
    """A plan that takes less; None without a plan to repair, or where GPU memory was not what was short."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`: figures in bytes, sentences in English."""
        report = self.report
        return {
            "schema_version": 1,
            "kind": str(report.kind),
            "asked_bytes": report.asked_bytes,
            "free_bytes": report.free_bytes,
            "total_bytes": report.total_bytes,
            "allocated_bytes": report.allocated_bytes,
            "reserved_bytes": report.reserved_bytes,
            "process_bytes": report.process_bytes,
            "others_bytes": self.others_bytes,
            "processes": [{"pid": row.pid, "held_bytes": row.held_bytes} for row in report.holders],
            "gpu_index": report.gpu_index,
            "gpus": list(report.gpus),
            "part": str(self.part) if self.part else None,
            "sentences": [str(sentence) for sentence in self.sentences],
            "repaired": self.repaired.to_json() if self.repaired else None,
        }


def explain(
    text: str, plan: TrainingPlan | None = None, dimensions: ModelDimensions | None = None
) -> OomDiagnosis:
    """What an error or a log says about memory; `plan` and `dimensions` are those of the run, if known."""
    report = read_report(text)
    others = _others(report)
    is_gpu = report.kind.is_of_gpu and not report.is_transcribing
    part = likely_part(report, plan, dimensions) if is_gpu else None
    repaired = None
    if plan is not None and dimensions is not None and is_gpu:
        repaired = _repaired(report, others or 0, plan, dimensions)
    is_divided = plan is not None and plan.sharding in ("zero3", "fsdp")
    doubts = _doubts(report, repaired)
    said = (
        *_sentences(report, others, part, is_divided),
        *doubts,
        *_advice(report, others, repaired, is_another=bool(doubts)),
    )
    return OomDiagnosis(report, said, others, part, repaired)


def _others(report: OomReport) -> int | None:
    """Bytes that neither this process holds nor anybody."""
    if report.holders:
        return sum(row.held_bytes for row in report.holders)
    if report.total_bytes is None or report.free_bytes is None:
        return None
    ours = report.process_bytes
    if ours is None:
        if report.reserved_bytes is None and report.allocated_bytes is None:
            return None
        ours = (report.reserved_bytes or report.allocated_bytes or 0) + _CONTEXT_BYTES
    rest = report.total_bytes - report.free_bytes - ours
    # Driver and rounding take a few hundred MiB that belong to nobody.
    return rest if rest > _CONTEXT_BYTES else 0


def _repaired(report: OomReport, others: int, plan: TrainingPlan, dimensions: ModelDimensions) -> FitResult:
    """The best plan for what this process could have had, and in any case one that takes less."""
    limits = []
    if report.total_bytes is not None:
        limits.append(max(0, report.total_bytes - others))
    if report.allowed_bytes is not None:
        limits.append(report.allowed_bytes)
    if _in_evaluation(report):  # what is trained with stays as it is
        room, size = min(limits, default=LARGEST_MEMORY_GIB * GIB), plan.eval_batch_size // 2
        while size:
            found = result_of(plan, replace(plan, eval_batch_size=size), dimensions, room)
            if found.fits:
                return found
            size //= 2
    below = estimate_of(plan, dimensions).low_bytes - 1
    return fit(dimensions, max(0, min([below, *limits])), plan)


def _in_evaluation(report: OomReport) -> bool:
    """Whether the frames are those of an evaluation between two epochs."""
    return re.search(r"\b(?:prediction_step|evaluation_loop)\b", report.trace) is not None


def _sentences(report: OomReport, others: int | None, part: Part | None, is_divided: bool) -> list[Message]:
    """`is_divided`: whether the run shares its weights out among its GPUs."""
    if report.kind is not OomKind.GPU:
        return [_OTHER_KINDS[report.kind]] if report.is_certain else [_LIKELY]
    wanted = _EVALUATION if _in_evaluation(report) else _WANTED[part] if part else None
    return [_happened(report), *_who(report, others, is_divided), *([wanted] if wanted else [])]


def _happened(report: OomReport) -> Message:
    if report.asked_bytes is None:
        return Message("A GPU ran out of memory; the message gives no figures.")
    asked = format_bytes(report.asked_bytes)
    if report.free_bytes is None or report.total_bytes is None:
        return Message("{asked} of GPU memory were asked for, and there was no room for them.", asked=asked)
    return Message(
        "{asked} were asked for on GPU {index}; {free} of its {total} were free.",
        asked=asked,
        index=report.gpu_index if report.gpu_index is not None else 0,
        free=format_bytes(report.free_bytes),
        total=format_bytes(report.total_bytes),
    )


def _who(report: OomReport, others: int | None, is_divided: bool) -> list[Message]:
    said = []
    if report.allocated_bytes is not None:
        allocated = format_bytes(report.allocated_bytes)
        if report.reserved_bytes is None:
            said.append(Message("This process held {allocated} of tensors.", allocated=allocated))
        else:
            said.append(
                Message(
                    "This process held {allocated} of tensors, and {kept} that its allocator had reserved.",
                    allocated=allocated,
                    kept=format_bytes(report.reserved_bytes - report.allocated_bytes),
                )
            )
    if report.allowed_bytes is not None:
        said.append(
            Message(
                "A limit of {allowed} had been set for this process.",
                allowed=format_bytes(report.allowed_bytes),
            )
        )
    if others:
        said.append(_others_sentence(report, others))
    if len(report.gpus) > 1 and not is_divided:
        said.append(
            Message(
                "GPUs {gpus} all ran out: each holds a copy of the model, so that more GPUs of this size do "
                "not help.",
                gpus=", ".join(map(str, report.gpus)),
            )
        )
    return said


def _others_sentence(report: OomReport, others: int) -> Message:
    if report.holders:
        return Message(
            "Other processes held {others}: {processes}.",
            others=format_bytes(others),
            processes=", ".join(f"{row.pid} ({format_bytes(row.held_bytes)})" for row in report.holders),
        )
    return Message(
        "About {others} were held by something else: another process, or a screen.",
        others=format_bytes(others),
    )


def _doubts(report: OomReport, repaired: FitResult | None) -> list[Message]:
    """A plan that takes less than the tensors that were there is not that of the run."""
    held, plan = report.allocated_bytes, repaired.wished if repaired else None
    if held is None or plan is None or plan.high_bytes >= held:
        return []
    return [
        Message(
            "With these settings a run takes about {size}, and this process held more: check that model, "
            "method and batch size are those of the run.",
            size=format_bytes(plan.device_bytes),
        )
    ]


def _advice(
    report: OomReport, others: int | None, repaired: FitResult | None, *, is_another: bool
) -> list[Message]:
    """`is_another`: the run that ran out is another one than that which nothing smaller was found for."""
    said = []
    if others and others > GIB:
        said.append(
            Message("End the other processes first, if they are yours: {tool} names them.", tool=report.tool)
        )
    free = report.free_bytes
    is_limited = report.allowed_bytes is not None
    if report.asked_bytes and free is not None and free > report.asked_bytes and not is_limited:
        said.append(
            Message(
                "More was free than requested, but not in one piece: a smaller batch needs smaller pieces."
            )
        )
    elif report.allocator_setting and _has_much_kept(report):
        said.append(
            Message(
                "Much reserved memory was fragmented: set {variable} to expandable_segments:True before "
                "starting.",
                variable=report.allocator_setting,
            )
        )
    if repaired is None:
        if report.kind.is_of_gpu:
            said.append(_TRANSCRIBING if report.is_transcribing else _GENERAL)
    elif repaired.fits:
        size = format_bytes(repaired.estimate.device_bytes)
        said.append(
            Message("A run that fits takes about {size}: what has to be changed is below.", size=size)
        )
    elif not is_another:
        said.append(
            Message(
                "However this model is trained, it does not fit there ({size} at least): take a smaller "
                "model or "
                "a larger GPU.",
                size=format_bytes(repaired.estimate.low_bytes),
            )
        )
    return said


def _has_much_kept(report: OomReport) -> bool:
    if report.reserved_bytes is None or report.allocated_bytes is None or report.asked_bytes is None:
        return False
    return report.reserved_bytes - report.allocated_bytes > max(report.asked_bytes, GIB // 2)


_GENERAL = Message(
    "In this order: gradient checkpointing, a smaller batch with gradient accumulation, a smaller batch in "
    "evaluation, LoRA instead of all weights, 4 bits, a smaller model."
)
_EVALUATION = Message("It happened in evaluation, whose batch is its own: per_device_eval_batch_size.")
_TRANSCRIBING = Message(
    "It happened while transcribing. In this order: end what else is on the GPU, fewer windows at once, "
    "compute type int8_float16, a smaller beam, a smaller model."
)
_WANTED = {
    **dict.fromkeys(
        (Part.WEIGHTS_TRAINABLE, Part.WEIGHTS_FROZEN),
        Message("It happened while the model was being loaded: the weights alone are too much."),
    ),
    Part.WEIGHTS_QUANTIZED: Message("It happened while weights were being quantized."),
    Part.WEIGHT_CASTS: Message("It was most likely for copies of the weights in half precision."),
    Part.GRADIENTS: Message("It was most likely for gradients, in the backward pass."),
    Part.OPTIMIZER_STATES: Message(
        "It was most likely for the optimizer's states, which are made in its first step."
    ),
    Part.ACTIVATIONS: Message("It was most likely for activations, which grow with the batch."),
    Part.LOGITS_AND_LOSS: Message(
        "It was most likely for logits and loss, which grow with batch and text length."
    ),
    Part.TEMPORARIES: Message("It was most likely for temporary buffers of a layer."),
    Part.OVERHEAD: Message("It was most likely for a workspace of CUDA's libraries."),
}
_LIKELY = Message(
    "A library of the GPU (cuBLAS, cuDNN, Level Zero) failed, most likely for want of GPU memory."
)
_OTHER_KINDS = {
    OomKind.LIBRARY: Message(
        "cuBLAS or cuDNN found no GPU memory for its workspace: this, too, is out of memory."
    ),
    OomKind.BITSANDBYTES: Message(
        "bitsandbytes found no GPU memory for quantized weights or for its optimizer."
    ),
    OomKind.BITSANDBYTES_SETUP: Message(
        "This is not about memory: bitsandbytes cannot use the GPU. Run python -m studio doctor, or "
        "train without 8 and 4 bits: gradient checkpointing saves more."
    ),
    OomKind.CPU: Message(
        "The machine's own memory ran out, not the GPU's: end other programs, read audio with fewer "
        "processes (dataloader_num_workers 0), or take a smaller batch if you train on the CPU."
    ),
    OomKind.SHARED: Message(
        "Data loader workers found no shared memory: set dataloader_num_workers to 0, or "
        "start the container with --shm-size=8g or --ipc=host."
    ),
    OomKind.KILLED: Message(
        "The system ended the process, most likely because the machine's own memory (not the GPU's) was "
        "full: end other programs, set dataloader_num_workers to 0, or give the container or the job "
        "more memory (docker --memory, Slurm --mem)."
    ),
    OomKind.TIME: Message(
        "This is not about memory: the scheduler ended the job, whose time was over or whose place was "
        "wanted. Ask for more time (--time), or resume the run."
    ),
    OomKind.INDEX: Message(
        "This is not about memory: a check on the GPU failed, most likely because an index was out of "
        "range. Check that tokenizer, vocabulary and labels are those of the model."
    ),
    OomKind.VERSIONS: Message(
        "This is not about memory: two versions of cuDNN are mixed. Install PyTorch again, and take "
        "other cuDNN libraries out of LD_LIBRARY_PATH."
    ),
    OomKind.UNKNOWN: Message(
        "Nothing here says that memory ran out: paste the last lines of the log, from the line with "
        "Traceback on."
    ),
}
