"""The base model of a run and what of it is trained: precision, quantisation, and the method's weights."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from studio.errors import ConfigError, ModelBrokenError, in_brief
from studio.lazy_imports import peft_library, transformers_library
from studio.memory.trace.model import DTYPES, require_input_gradients
from studio.messages import Message
from studio.methods.method import AdapterSettings
from studio.options.training import TrainingConfig
from studio.training.plan import base_dtype_of, initial_rank, precision_of
from studio.transcription.devices import is_out_of_memory
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.loaded_base import quantized


@dataclass(frozen=True)
class Precision:
    """How the training step calculates."""

    name: str
    """`fp32`, `fp16`, `bf16` (both under autocast) or `pure_bf16`."""
    note: Message | None = None
    """Why it is not what was asked for; None if it is."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the arithmetic."""
        return DTYPES[self.name.removeprefix("pure_")]


def choose_precision(config: TrainingConfig, has_gpu: bool) -> Precision:
    """What the machine can do; on a CPU half precision only where weights are to be held in it."""
    has_bf16 = not has_gpu or torch.cuda.is_bf16_supported(including_emulation=False)
    name = precision_of(config, has_gpu, has_bf16=has_bf16)
    if not has_gpu and name == "fp32" and config.precision in ("fp16", "bf16"):
        return Precision(name, _needs_gpu(config.precision))
    if not has_gpu and name == "fp32" and config.base_dtype == "fp16":
        return Precision(name, Message("An fp16 base needs a GPU: this run holds it in fp32."))
    if name == "bf16" and not has_bf16 and config.base_dtype != "bf16":
        return Precision("fp16", Message("This GPU cannot calculate in bf16: this run calculates in fp16."))
    return Precision(name)


def _needs_gpu(precision: str) -> Message:
    return Message("{precision} needs a GPU: this run calculates in fp32.", precision=precision)


@dataclass(frozen=True)
class Base:
    """A base model and what belongs to it."""

    decoder: TransformersModel
    """Holds the `WhisperForConditionalGeneration`."""
    generation_config: Any
    """As it came with the model; the model itself has an empty one, so that the decoder alone decides."""


def load_model(path: Path, config: TrainingConfig, precision: Precision) -> Any:
    """The `WhisperForConditionalGeneration` in a folder. Unless told otherwise, frozen weights are kept in
    half precision on a GPU; weights that are trained, and all on a CPU, in float32, whatever the file has.

    Raises:
        ModelBrokenError: if the folder cannot be loaded.
    """
    transformers = transformers_library()
    has_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {"dtype": DTYPES[base_dtype_of(config, precision.name, has_gpu)]}
    if config.attn_implementation != "auto":
        options["attn_implementation"] = config.attn_implementation
    if config.quantization != "none":
        options["quantization_config"] = quantized(config.quantization, precision.dtype)
        options["device_map"] = {"": torch.cuda.current_device() if has_gpu else "cpu"}
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            path, use_safetensors=True, local_files_only=True, **options
        )
    except _LOADING_ERRORS as error:
        raise _broken(path, error) from error
    # Whisper's forward takes any keyword, but leaves the division by accumulated steps to the trainer.
    model.accepts_loss_kwargs = False
    return model


def load_training_base(path: Path, config: TrainingConfig, precision: Precision) -> Base:
    """Loads the base model with its tokenizer and feature extractor; see `load_model`.

    Raises:
        ModelBrokenError: if the folder cannot be loaded.
    """
    model = load_model(path, config, precision)
    generation_config = model.generation_config
    try:
        return Base(TransformersModel.of(model, path), generation_config)
    except _LOADING_ERRORS as error:
        raise _broken(path, error) from error


_LOADING_ERRORS = (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError)


def _broken(path: Path, error: Exception) -> ModelBrokenError:
    """The error as a sentence; memory that ran out stays what it is.

    Raises:
        Exception: the error itself, if it is about memory.
    """
    if is_out_of_memory(error):
        raise error
    return ModelBrokenError(
        "The model in {folder} cannot be loaded ({reason}): copy or download it again.",
        folder=path,
        reason=in_brief(error),
    )


def check_attention(config: TrainingConfig) -> None:
    """Refuses a kernel that is not here.

    Raises:
        ConfigError: if it is flash attention without its package or without a GPU.
    """
    is_here = find_spec("flash_attn") is not None and torch.cuda.is_available()
    if config.attn_implementation == "flash_attention_2" and not is_here:
        raise ConfigError(
            "flash_attention_2 needs a GPU and the package flash-attn, which is not here: choose sdpa.",
            name="attn_implementation",
        )


def prepare_method(model: Any, config: TrainingConfig, max_steps: int, start: Path | None = None) -> Any:
    """Makes exactly the intended weights trainable; for adapters, gives back the base wrapped by PEFT.

    `max_steps` are the run's optimizer steps, which AdaLoRA plans its ranks by; `start` is the folder of an
    adapter whose weights are the first ones.
    """
    method = config.training_method
    if not method.is_adapter:
        method.mark_trained(model)
        return model
    peft = peft_library()
    if config.quantization != "none":
        # Casts what is not quantised to float32; checkpointing is switched on by the trainer, if at all.
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if config.quantization == "4bit":
        _never_pack(model)
    if config.quantization == "8bit" and method.reads_base_weights:
        _keep_scales(model)
    if config.gradient_checkpointing:
        require_input_gradients(model)
    torch.manual_seed(config.seed)
    if start is not None:
        kept = peft.PeftConfig.from_pretrained(start)
        kept.lora_dropout = config.lora_dropout
        return _without_card(peft.PeftModel.from_pretrained(model, start, is_trainable=True, config=kept))
    settings = AdapterSettings(
        rank=initial_rank(config),
        final_rank=config.lora_r,
        alpha=config.lora_alpha,
        dropout=config.lora_dropout,
        target_modules=config.target_modules,
        total_steps=max_steps,
    )
    adapted = peft.get_peft_model(model, method.peft_config(settings))
    method.keep_fixed(adapted)
    return _without_card(adapted)


def _without_card(adapted: Any) -> Any:
    """PEFT would write a card into each checkpoint, which takes longer than its weights; nobody reads it."""
    adapted.create_or_update_model_card = lambda _folder: None
    return adapted


def _keep_scales(model: Any) -> None:
    """On a CPU, PEFT's DoRA takes each 8-bit weight for its norm and leaves it without its scales."""

    def put_back(layer: Any, _inputs: Any) -> None:
        if layer.weight.CB is not None and layer.weight.SCB is None:
            layer.weight.SCB = layer.state.SCB

    for module in model.modules():
        if type(module).__name__ == "Linear8bitLt":
            module.register_forward_pre_hook(put_back)


def _never_pack(model: Any) -> None:
    """On a CPU with bf16 instructions, an evaluation lays 4-bit weights out so that they cannot be trained
    beside any more: bitsandbytes' product for that layout has no gradient.
    """
    for module in model.modules():
        if type(module).__name__ == "Linear4bit":
            module.support_avx512bf16_for_cpu = False


def count_parameters(model: Any) -> tuple[int, int]:
    """Trainable and all parameters; a packed 4-bit weight counts with its real size."""
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = 0
    for parameter in model.parameters():
        packed = getattr(parameter, "quant_state", None)
        total += parameter.numel() if packed is None else int(torch.Size(packed.shape).numel())
    return trainable, total
