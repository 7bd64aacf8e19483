"""What a run means to the memory calculator."""

from dataclasses import replace

from studio.memory.plan import TrainingPlan
from studio.training.config import TrainingConfig

_EXTRA_RANK = 1.5


def initial_rank(config: TrainingConfig) -> int:
    """Rank that an adapter is built with: AdaLoRA begins higher, and ends with `lora_r` on average."""
    if config.method != "adalora":
        return config.lora_r
    return max(config.lora_r + 1, round(_EXTRA_RANK * config.lora_r))


def training_plan(config: TrainingConfig, has_gpu: bool) -> TrainingPlan:
    """The part of a configuration that decides its memory, as the worker will carry it out.

    On a GPU, frozen weights are held in the precision of the arithmetic (auto: bf16), and weights that are
    trained in fp32; without one, everything is in fp32.
    """
    precision = "fp32" if not has_gpu else "bf16" if config.precision == "auto" else config.precision
    return TrainingPlan(
        method=config.method,
        lora_r=initial_rank(config),
        target_modules=config.target_modules,
        lora_dropout=config.lora_dropout,
        quantization=config.quantization,
        precision=precision,
        base_dtype=precision if config.is_adapter else "fp32",
        batch_size=config.per_device_train_batch_size,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        gradient_checkpointing=config.gradient_checkpointing,
        # Reentrant for 8-bit layers, whose inputs the other variant would keep.
        use_reentrant=config.quantization == "8bit",
        eval_batch_size=0 if config.eval_strategy == "no" else config.per_device_eval_batch_size,
        generation_max_length=config.generation_max_length,
        generation_num_beams=config.generation_num_beams,
    )


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
        per_device_train_batch_size=plan.batch_size,
        gradient_accumulation_steps=plan.gradient_accumulation_steps,
        gradient_checkpointing=plan.gradient_checkpointing,
        per_device_eval_batch_size=plan.eval_batch_size or config.per_device_eval_batch_size,
    )
