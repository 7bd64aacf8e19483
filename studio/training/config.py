"""`TrainingConfig`: the one schema behind the form, the command line, the YAML file and the preview.

Names are those of `Seq2SeqTrainingArguments` and `LoraConfig`; each field documents itself through its
metadata (`help`, `group`, `choices`, `aliases`), which the command line, the form and the README derive from.
This module imports nothing heavy.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from studio.errors import ConfigError

METHODS = ("lora", "dora", "adalora", "full", "frozen_encoder")
PRECISIONS = ("auto", "fp32", "fp16", "bf16")
QUANTIZATIONS = ("none", "8bit", "4bit")
TASKS = ("transcribe", "translate")
NORMALIZERS = ("none", "basic", "english", "chinese")
SCHEDULERS = ("linear", "cosine", "constant", "constant_with_warmup")
STRATEGIES = ("epoch", "steps", "no")
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")


def option(
    default: Any,
    group: str,
    text: str,
    *,
    choices: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with what form, command line and documentation need to know about it."""
    metadata = {"group": group, "help": text, "choices": choices, "aliases": aliases}
    if isinstance(default, (list, tuple)):
        return field(default=tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what a run does. Checked when made: a value out of range is a `ConfigError`."""

    # model and data
    base_model: str = option(
        "demo",
        "model",
        "Model to start from: registry id, folder or Hub id.",
        aliases=("model_name_or_path",),
    )
    train_data: str = option(
        "demo", "data", "Training manifest, audio folder or Hub dataset.", aliases=("train_file",)
    )
    test_data: str = option(
        "",
        "data",
        "Manifest for evaluation; empty keeps a share of the training data back.",
        aliases=("validation_file",),
    )
    validation_share: float = option(0.1, "data", "Share kept back when there is no evaluation manifest.")
    max_train_samples: int | None = option(None, "data", "Use only so many training clips.")
    max_eval_samples: int | None = option(
        None, "data", "Use only so many evaluation clips.", aliases=("max_validation_samples",)
    )
    min_audio_len: float = option(
        0.2, "data", "Shortest clip used, in seconds.", aliases=("min_duration_in_seconds",)
    )
    max_audio_len: float = option(
        30.0, "data", "Longest clip used, in seconds.", aliases=("max_duration_in_seconds",)
    )
    language: str = option(
        "auto", "data", "Language of the clips, name or code; auto takes each row's, or detects it."
    )
    task: str = option("transcribe", "data", "What the model should learn.", choices=TASKS)
    timestamps: bool = option(
        True,
        "data",
        "Train half of the clips whose segment times are known with those times, as Whisper was.",
    )
    normalizer: str = option("none", "data", "Normalisation applied to labels.", choices=NORMALIZERS)

    # method
    method: str = option("lora", "method", "Which weights are trained.", choices=METHODS)
    lora_r: int = option(32, "method", "Rank of the adapter.", aliases=("lora_rank",))
    lora_alpha: int = option(64, "method", "Scale of the adapter, divided by its rank.")
    lora_dropout: float = option(0.05, "method", "Dropout before the adapter.")
    target_modules: tuple[str, ...] = option(
        ALL_LINEAR,
        "method",
        "Linear layers that get an adapter, separated by commas; all-linear for all.",
        aliases=("lora_target_modules",),
    )
    quantization: str = option("none", "method", "Bits of the frozen base.", choices=QUANTIZATIONS)
    precision: str = option(
        "auto",
        "method",
        "Arithmetic of the training step; auto takes the best of the machine.",
        choices=PRECISIONS,
    )
    gradient_checkpointing: bool = option(
        False, "method", "Compute activations again in the backward pass instead of keeping them."
    )

    # schedule
    num_train_epochs: float = option(4.0, "schedule", "Passes over the training data.")
    max_steps: int = option(-1, "schedule", "Optimizer steps; overrides the epochs if positive.")
    per_device_train_batch_size: int = option(8, "schedule", "Clips a step and device.")
    per_device_eval_batch_size: int = option(8, "schedule", "Clips a step and device in evaluation.")
    gradient_accumulation_steps: int = option(1, "schedule", "Steps whose gradients are added up.")
    learning_rate: float | None = option(
        None, "schedule", "Peak learning rate; unless set, one that suits the method and the model's size."
    )
    warmup_steps: float = option(0.1, "schedule", "Steps of warm-up; below 1, a share of all steps.")
    lr_scheduler_type: str = option("linear", "schedule", "How the learning rate falls.", choices=SCHEDULERS)
    weight_decay: float = option(0.0, "schedule", "Weight decay of AdamW.")
    max_grad_norm: float = option(1.0, "schedule", "Gradients are clipped to this norm.")
    seed: int = option(42, "schedule", "Seed of the order, dropout and new weights.")

    # evaluation and saving
    eval_strategy: str = option(
        "epoch", "evaluation", "When to evaluate.", choices=STRATEGIES, aliases=("evaluation_strategy",)
    )
    eval_steps: int = option(100, "evaluation", "Steps between evaluations, with eval_strategy steps.")
    eval_on_start: bool = option(True, "evaluation", "Evaluate the base first, to compare with.")
    save_steps: int = option(100, "evaluation", "Steps between checkpoints; 0 saves at each evaluation.")
    save_total_limit: int = option(2, "evaluation", "Checkpoints kept.")
    logging_steps: int = option(5, "evaluation", "Steps between points of the loss curve.")
    metric_for_best_model: str = option(
        "auto",
        "evaluation",
        "wer, cer, or auto: cer for languages written without spaces.",
        choices=("auto", "wer", "cer"),
    )
    generation_max_length: int = option(225, "evaluation", "Longest text generated in evaluation, in tokens.")
    generation_num_beams: int = option(1, "evaluation", "Beams in evaluation.")

    # the rest
    dataloader_num_workers: int = option(
        0, "machine", "Processes that read and decode audio.", aliases=("num_workers",)
    )
    run_name: str = option("", "machine", "Name of the run and of the model it makes.")
    output_dir: str = option("", "machine", "Copy the finished model to this folder, too.")
    report_to: str = option(
        "none",
        "machine",
        "none, tensorboard, wandb or trackio.",
        choices=("none", "tensorboard", "wandb", "trackio"),
    )
    local_files_only: bool = option(False, "machine", "Never ask the model hub.")
    cache_dir: str = option("", "machine", "Cache folder for downloads.")

    def __post_init__(self) -> None:
        """Checks each value where it enters.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        for f in fields(self):
            choices = f.metadata["choices"]
            value = getattr(self, f.name)
            if choices and value not in choices:
                raise ConfigError(
                    "{name} must be one of {choices}, got {value!r}.",
                    name=f.name,
                    choices=", ".join(choices),
                    value=value,
                )
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(
                    "{name} must be between {low:g} and {high:g}, got {value:g}.",
                    name=name,
                    low=low,
                    high=high,
                    value=value,
                )
        self._check_together()

    def _check_together(self) -> None:
        if not self.base_model.strip() or not self.train_data.strip():
            raise ConfigError("A run needs a base_model and train_data: one of them is empty.")
        if self.quantization != "none" and self.method not in ("lora", "dora", "adalora"):
            raise ConfigError(
                "{quantization} weights cannot be trained themselves: use method lora, dora or adalora, "
                "or quantization none.",
                quantization=self.quantization,
            )
        unknown = [name for name in self.target_modules if name not in ALL_LINEAR]
        if unknown or not self.target_modules:
            raise ConfigError(
                "target_modules must be some of {known} or all-linear, got {value!r}.",
                known=", ".join(ALL_LINEAR),
                value=", ".join(unknown),
            )
        if self.min_audio_len >= self.max_audio_len:
            raise ConfigError(
                "min_audio_len must be below max_audio_len, got {low:g} and {high:g}.",
                low=self.min_audio_len,
                high=self.max_audio_len,
            )

    @property
    def is_adapter(self) -> bool:
        """Whether the run makes an adapter rather than a whole model."""
        return self.method in ("lora", "dora", "adalora")


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("validation_share", 0.01, 0.9),
    ("max_train_samples", 1, 10**9),
    ("max_eval_samples", 1, 10**9),
    ("min_audio_len", 0.0, 30.0),
    ("max_audio_len", 0.1, 30.0),
    ("lora_r", 1, 1024),
    ("lora_alpha", 1, 4096),
    ("lora_dropout", 0.0, 0.9),
    ("num_train_epochs", 0.01, 10_000),
    ("max_steps", -1, 10**8),
    ("per_device_train_batch_size", 1, 1024),
    ("per_device_eval_batch_size", 1, 1024),
    ("gradient_accumulation_steps", 1, 4096),
    ("learning_rate", 1e-9, 1.0),
    ("warmup_steps", 0, 10**7),
    ("weight_decay", 0.0, 1.0),
    ("max_grad_norm", 0.0, 1e6),
    ("seed", 0, 2**32 - 1),
    ("eval_steps", 1, 10**8),
    ("save_steps", 0, 10**8),
    ("save_total_limit", 1, 1000),
    ("logging_steps", 1, 10**8),
    ("generation_max_length", 1, 448),
    ("generation_num_beams", 1, 32),
    ("dataloader_num_workers", 0, 256),
)
