"""The model of a plan on meta tensors: transformers' own Whisper, with PEFT's own adapters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from studio.lazy_imports import peft_library, transformers_library
from studio.memory.plan import TrainingPlan
from studio.memory.trace.cuda import AutocastRegion
from studio.methods import METHODS
from studio.methods.method import AdapterSettings
from studio.registry.spec import ModelDimensions

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_ALPHA_PER_RANK = 2
_TOTAL_STEPS = 1000
"""Of the run; no size depends on them."""


def arithmetic_dtype(plan: TrainingPlan) -> torch.dtype:
    """Type of the matrix products."""
    return DTYPES[plan.arithmetic_dtype]


def build_model(plan: TrainingPlan, dimensions: ModelDimensions) -> Any:
    """The plan's model on the meta device, with what is trained marked; to be given storages by `place`."""
    attention = "eager" if plan.attention == "eager" else "sdpa"
    with torch.device("meta"), _no_initialization():
        model = blank_whisper(dimensions, dropout=0.0, use_cache=False, attn_implementation=attention)
        model.tie_weights()
        if plan.is_adapter:
            model = _with_adapter(model, plan)
        else:
            METHODS[plan.method].mark_trained(model)
    return model


def blank_whisper(dimensions: ModelDimensions, **more: Any) -> Any:
    """A Whisper without values, on the meta device; `more` is of its config."""
    transformers = transformers_library()
    config = transformers.WhisperConfig(
        **dimensions.__dict__,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
        decoder_start_token_id=1,
        **more,
    )
    with torch.device("meta"), _no_initialization():
        return transformers.WhisperForConditionalGeneration(config)


@contextmanager
def _no_initialization() -> Iterator[None]:
    """Values do not matter: initialisation of each layer is passed over."""
    from transformers import initialization

    with initialization.no_init_weights():
        yield


def _with_adapter(model: Any, plan: TrainingPlan) -> Any:
    peft = peft_library()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if plan.quantization != "none":
        from studio.memory.trace.quantized import quantize

        quantize(model, plan.quantization, arithmetic_dtype(plan))
    settings = AdapterSettings(
        rank=plan.lora_r,
        final_rank=plan.lora_r,
        alpha=_ALPHA_PER_RANK * plan.lora_r,
        dropout=plan.lora_dropout,
        target_modules=plan.target_modules,
        total_steps=_TOTAL_STEPS,
    )
    config = METHODS[plan.method].peft_config(settings)
    return peft.get_peft_model(model, config, low_cpu_mem_usage=True)


def place(model: nn.Module, plan: TrainingPlan) -> None:
    """Gives every parameter a storage of its type; on the default device. Keeps ties.

    Adapters are float32, packed weights as they are, and beside packed weights everything is raised to
    float32 (PEFT's `prepare_model_for_kbit_training`).
    """
    base = DTYPES[plan.weights_dtype]
    made: dict[int, nn.Parameter] = {}
    for name, module in model.named_modules():
        for attribute, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in made:
                is_own = "lora_" in f"{name}.{attribute}" or "ranknum" in name
                dtype = torch.float32 if is_own else base
                made[id(parameter)] = nn.Parameter(
                    torch.empty(
                        parameter.shape, dtype=dtype if parameter.is_floating_point() else parameter.dtype
                    ),
                    requires_grad=parameter.requires_grad,
                )
            module._parameters[attribute] = made[id(parameter)]
        for attribute, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[attribute] = torch.empty(buffer.shape, dtype=buffer.dtype)


def whisper_of(model: Any) -> Any:
    """The Whisper itself, inside PEFT's wrapping or not."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def enable_checkpointing(model: Any, plan: TrainingPlan, autocast: AutocastRegion) -> None:
    """Gradient checkpointing as the trainer switches it on; layers computed again are autocasted again."""
    whisper = whisper_of(model)
    whisper.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": plan.use_reentrant})
    encoder, decoder = whisper.get_encoder(), whisper.get_decoder()
    for layer in (*encoder.layers, *decoder.layers):
        layer._gradient_checkpointing_func = _within(layer._gradient_checkpointing_func, autocast)
    if plan.is_adapter:
        require_input_gradients(whisper)


def require_input_gradients(model: Any) -> None:
    """Reentrant checkpoints pass gradients on only to inputs that need some: the frozen base's do not."""

    def require(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
        """Has gradients flow to what is put in."""
        output.requires_grad_(True)

    model.get_encoder().conv2.register_forward_hook(require)
    model.get_decoder().embed_tokens.register_forward_hook(require)


def _within(checkpoint: Any, autocast: AutocastRegion) -> Any:
    def run(forward: Any, *inputs: Any) -> Any:
        """Runs a layer that is computed again in the backward pass."""

        def forward_again(*again: Any) -> Any:
            """The layer as it is computed the second time."""
            with autocast():
                return forward(*again)

        return checkpoint(forward_again, *inputs)

    return run
