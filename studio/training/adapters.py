"""The methods: which weights are trained, in which precision, on which base.

LoRA, DoRA and AdaLoRA on a base that may be quantised; full fine-tuning; decoder alone (frozen encoder).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from studio.errors import ModelBrokenError
from studio.files import read_json, write_json
from studio.inference.decoding import Decoder
from studio.inference.hugging_face import ENGLISH_VOCABULARY
from studio.inference.special_tokens import SpecialTokens
from studio.training.config import TrainingConfig
from studio.training.plan import initial_rank

ADALORA_STATE = "adalora.safetensors"
ADALORA_RANKS = "adalora.json"


@dataclass(frozen=True)
class Precision:
    """How the training step calculates."""

    name: str
    """`fp32`, `fp16` or `bf16`."""
    note: str = ""
    """Why it is not what was asked for; empty if it is."""

    @property
    def dtype(self) -> torch.dtype:
        """Of frozen weights on a GPU, and of the arithmetic."""
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[self.name]


def choose_precision(asked: str, has_gpu: bool) -> Precision:
    """What the machine can do: half precision is for GPUs."""
    if not has_gpu:
        if asked in ("fp16", "bf16"):
            return Precision("fp32", f"{asked} needs a GPU: this run calculates in fp32.")
        return Precision("fp32")
    has_bf16 = torch.cuda.is_bf16_supported()
    if asked == "auto":
        return Precision("bf16" if has_bf16 else "fp16")
    if asked == "bf16" and not has_bf16:
        return Precision("fp16", "This GPU cannot calculate in bf16: this run calculates in fp16.")
    return Precision(asked)


@dataclass(frozen=True)
class Base:
    """A base model and what belongs to it."""

    decoder: Decoder
    """Holds the `WhisperForConditionalGeneration`."""
    generation_config: Any
    """As it came with the model; the model itself has an empty one, so that the decoder alone decides."""


def load_base(path: Path, config: TrainingConfig, precision: Precision) -> Base:
    """Loads the base model. Frozen weights are kept in half precision on a GPU; weights that are trained,
    and all on a CPU, in float32, whatever the file has.

    Raises:
        ModelBrokenError: if the folder cannot be loaded.
    """
    import transformers as typed_transformers

    transformers: Any = typed_transformers
    has_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {"dtype": torch.float32}
    if config.is_adapter and has_gpu:
        options["dtype"] = precision.dtype
    if config.quantization != "none":
        options["quantization_config"] = _quantization(config.quantization, options["dtype"])
        options["device_map"] = {"": 0 if has_gpu else "cpu"}
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            path, use_safetensors=True, local_files_only=True, **options
        )
        tokenizer = transformers.WhisperTokenizer.from_pretrained(path, local_files_only=True)
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise ModelBrokenError(
            "The model in {folder} cannot be loaded ({reason}): copy or download it again.",
            folder=path,
            reason=" ".join(str(error).split())[:300],
        ) from error
    generation_config = model.generation_config
    model.generation_config = transformers.GenerationConfig()
    # Whisper's forward takes any keyword, but leaves the division by accumulated steps to the trainer.
    model.accepts_loss_kwargs = False
    settings = generation_config.to_dict()
    is_multilingual = settings.get("is_multilingual")
    if is_multilingual is None:
        is_multilingual = model.config.vocab_size != ENGLISH_VOCABULARY
    tokens = SpecialTokens.of(tokenizer, is_multilingual=bool(is_multilingual))
    return Base(Decoder(model, tokenizer, extractor, tokens, settings), generation_config)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the GPU or off it."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        word in str(error).lower() for word in words
    )


def _quantization(bits: str, dtype: torch.dtype) -> Any:
    import transformers as typed_transformers

    transformers: Any = typed_transformers
    if bits == "8bit":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=True,
    )


def checkpointing_options(config: TrainingConfig) -> dict[str, Any]:
    """Non-reentrant checkpointing keeps the input of each 8-bit layer; reentrant does not."""
    return {"use_reentrant": config.quantization == "8bit"}


def prepare_method(model: Any, config: TrainingConfig, max_steps: int) -> Any:
    """Makes exactly the intended weights trainable; for adapters, gives back the base wrapped by PEFT.

    `max_steps` are the run's optimizer steps, which AdaLoRA plans its ranks by.
    """
    if config.method == "frozen_encoder":
        model.freeze_encoder()
        return model
    if config.method == "full":
        # Whisper's sinusoids are no weights, but transformers 5 loads them as if they were.
        model.get_encoder().embed_positions.requires_grad_(False)
        return model
    import peft as typed_peft

    peft: Any = typed_peft
    if config.quantization != "none":
        # Casts what is not quantised to float32; checkpointing is switched on by the trainer, if at all.
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if config.quantization == "8bit" and config.method == "dora":
        _keep_scales(model)
    if config.gradient_checkpointing:
        require_input_gradients(model)
    torch.manual_seed(config.seed)
    return peft.get_peft_model(model, _peft_config(config, max_steps))


def _keep_scales(model: Any) -> None:
    """On a CPU, PEFT's DoRA takes each 8-bit weight for its norm and leaves it without its scales."""

    def put_back(layer: Any, _inputs: Any) -> None:
        if layer.weight.CB is not None and layer.weight.SCB is None:
            layer.weight.SCB = layer.state.SCB

    for module in model.modules():
        if type(module).__name__ == "Linear8bitLt":
            module.register_forward_pre_hook(put_back)


def require_input_gradients(model: Any) -> None:
    """Reentrant checkpoints pass gradients on only to inputs that need some: the frozen base's do not."""

    def require(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
        output.requires_grad_(True)

    model.get_encoder().conv2.register_forward_hook(require)
    model.get_decoder().embed_tokens.register_forward_hook(require)


def _peft_config(config: TrainingConfig, max_steps: int) -> Any:
    """No task type: PEFT's sequence-to-sequence one hands `input_ids` to the model, which Whisper lacks."""
    from peft import AdaLoraConfig, LoraConfig

    shared: dict[str, Any] = {
        "lora_alpha": config.lora_alpha,
        "lora_dropout": config.lora_dropout,
        "target_modules": list(config.target_modules),
        "bias": "none",
    }
    if config.method != "adalora":
        return LoraConfig(r=config.lora_r, use_dora=config.method == "dora", **shared)
    return AdaLoraConfig(
        init_r=initial_rank(config),
        target_r=config.lora_r,
        total_step=max_steps,
        tinit=max_steps // 10,
        tfinal=max_steps * 3 // 10,
        deltaT=1,  # ranks are cut at every step, so that a checkpoint is exactly what was evaluated
        **shared,
    )


def count_parameters(model: Any) -> tuple[int, int]:
    """Trainable and all parameters; a packed 4-bit weight counts with its real size."""
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = 0
    for parameter in model.parameters():
        packed = getattr(parameter, "quant_state", None)
        total += parameter.numel() if packed is None else int(torch.Size(packed.shape).numel())
    return trainable, total


def save_adalora(model: Any, folder: Path) -> None:
    """What AdaLoRA needs to go on exactly: its weights at full rank, the importance of each, the ranks.

    PEFT's own checkpoint has the weights cut to the ranks of the moment, which the optimizer's do not fit.
    """
    allocator, inner = model.base_model.rankallocator, model.base_model.model
    tensors = {f"weight.{name}": p.detach() for name, p in inner.named_parameters() if "lora_" in name}
    for kind in ("ipt", "exp_avg_ipt", "exp_avg_unc"):
        tensors |= {f"{kind}.{name}": tensor for name, tensor in getattr(allocator, kind).items()}
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / ADALORA_STATE)
    write_json(folder / ADALORA_RANKS, model.peft_config["default"].rank_pattern)


def load_adalora(model: Any, folder: Path) -> None:
    """Puts back what `save_adalora` saved."""
    allocator = model.base_model.rankallocator
    parameters = dict(model.base_model.model.named_parameters())
    allocator.reset_ipt()
    for full_name, tensor in load_file(folder / ADALORA_STATE).items():
        kind, _, name = full_name.partition(".")
        parameter = parameters[name]
        if kind == "weight":
            with torch.no_grad():
                parameter.copy_(tensor)
        else:
            getattr(allocator, kind)[name] = tensor.to(parameter.device)
    model.peft_config["default"].rank_pattern = read_json(folder / ADALORA_RANKS)
