"""What a run means to the memory calculator."""

from dataclasses import replace

from studio.memory.plan import TrainingPlan
from studio.options.training import TrainingConfig
from studio.whisper.audio_context import POSITIONS, positions_of
from studio.whisper.constants import WINDOW_TOKENS

WINDOW_LABEL_LENGTH = WINDOW_TOKENS + 1
"""Tokens of a window that is rehearsed, with the one that ends it."""


def initial_rank(config: TrainingConfig) -> int:
    """Rank that an adapter is built with."""
    return config.training_method.initial_rank(config.lora_r)


def precision_of(config: TrainingConfig, has_gpu: bool, *, has_bf16: bool = True) -> str:
    """Arithmetic of the step, as the worker will choose it: fp32, fp16, bf16 or pure_bf16.

    Without a GPU it is fp32, unless the run asks to hold weights in bf16, which a CPU can do, too.
    """
    asked = config.precision
    is_held_in_bf16 = asked == "pure_bf16" or config.base_dtype == "bf16"
    if not has_gpu:
        return ("bf16" if asked in ("auto", "fp16") else asked) if is_held_in_bf16 else "fp32"
    if asked != "auto":
        return asked
    if config.base_dtype == "fp16":
        return "fp16"
    return "bf16" if has_bf16 or is_held_in_bf16 else "fp16"


def base_dtype_of(config: TrainingConfig, precision: str, has_gpu: bool) -> str:
    """Type of the base's weights as they are loaded: fp32, fp16 or bf16."""
    if precision == "pure_bf16":
        return "bf16"
    if config.base_dtype != "auto":
        return config.base_dtype if has_gpu or config.base_dtype == "bf16" else "fp32"
    return precision if config.is_adapter else "fp32"


def audio_positions_of(config: TrainingConfig) -> int:
    """Positions that the encoder may be given, before the clips are known: with `auto`, those of 30 s."""
    return positions_of(config.max_audio_len) if config.asks_for_short_audio else POSITIONS


def rehearses(config: TrainingConfig) -> bool:
    """Whether windows are learned beside the clips; a base that teaches itself forgets nothing.

    DeepSpeed takes a step at each backward pass: a window would be a step of its own.
    """
    return config.replay_share > 0 and not config.distill and not has_deepspeed(config)


def has_deepspeed(config: TrainingConfig) -> bool:
    """Whether several processes divide states by DeepSpeed."""
    return config.is_distributed and config.sharding.startswith("zero")


def training_plan(config: TrainingConfig, has_gpu: bool, audio_positions: int | None = None) -> TrainingPlan:
    """The part of a configuration that decides its memory, as the worker will carry it out.

    `audio_positions` are those of the longest clip, where that is known; else see `audio_positions_of`.

    On a GPU, frozen weights are held in the precision of the arithmetic (auto: bf16), and weights that are
    trained in fp32; without one, everything is in fp32.
    """
    precision = precision_of(config, has_gpu)
    positions = audio_positions or audio_positions_of(config)
    return TrainingPlan(
        method=config.method,
        lora_r=initial_rank(config),
        target_modules=config.target_modules,
        lora_dropout=config.lora_dropout,
        quantization=config.quantization,
        precision=precision,
        base_dtype=base_dtype_of(config, precision, has_gpu),
        optimizer=config.optim,
        batch_size=config.per_device_train_batch_size,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        gradient_checkpointing=config.gradient_checkpointing,
        use_reentrant=config.is_reentrant,
        attention="sdpa" if config.attn_implementation == "auto" else config.attn_implementation,
        label_smoothing_factor=config.label_smoothing_factor,
        loss_chunk_size=config.loss_chunk_size,
        audio_positions=positions,
        has_padded_batches=positions < POSITIONS and config.padded_share > 0,
        keeps_encoder_states=_comes_again(config) and positions == POSITIONS,
        window_label_length=WINDOW_LABEL_LENGTH if rehearses(config) else 0,
        eval_batch_size=config.per_device_eval_batch_size if config.evaluates else 0,
        generation_max_length=config.generation_max_length,
        generation_num_beams=config.generation_num_beams,
        num_gpus=config.num_processes,
        sharding=config.sharding,
    )


def _comes_again(config: TrainingConfig) -> bool:
    """Whether a frozen encoder may hear a clip twice; nobody knows yet what a list of augmentations has."""
    has_epochs = config.max_steps > 0 or config.num_train_epochs > 1
    return config.may_keep_encoder_states and has_epochs and not config.augment_config_path


def planned(config: TrainingConfig, label_length: int) -> TrainingPlan:
    """The plan of a run on a GPU, whose longest text has so many tokens."""
    return replace(training_plan(config, has_gpu=True), label_length=label_length)


def config_of(plan: TrainingPlan, config: TrainingConfig) -> TrainingConfig:
    """`config` with what the calculator has changed, so that `training_plan` gives `plan` again."""
    precision = config.precision
    if plan.precision != training_plan(config, has_gpu=True).precision:
        precision = plan.precision
    return replace(
        config,
        method=plan.method,
        target_modules=plan.target_modules,
        quantization=plan.quantization,
        precision=precision,
        base_dtype=_base_dtype(plan, config),
        use_reentrant="auto" if plan.quantization != config.quantization else config.use_reentrant,
        per_device_train_batch_size=plan.batch_size,
        gradient_accumulation_steps=plan.gradient_accumulation_steps,
        gradient_checkpointing=plan.gradient_checkpointing,
        per_device_eval_batch_size=plan.eval_batch_size or config.per_device_eval_batch_size,
        num_processes=plan.num_gpus,
        sharding=plan.sharding,
    )


def _base_dtype(plan: TrainingPlan, config: TrainingConfig) -> str:
    """What was asked for, unless the calculator has changed it."""
    if config.base_dtype == "auto" or config.base_dtype == plan.base_dtype:
        return config.base_dtype
    return "auto"
