"""The options of a run as the arguments of `Seq2SeqTrainer`; names are the same wherever both have one."""

from pathlib import Path
from typing import Any

import torch
from transformers import Seq2SeqTrainingArguments

from studio.options.schedulers import scheduler_values
from studio.options.training import FIELDS, TrainingConfig
from studio.training.adapters import Precision
from studio.training.distributed.sharding import sharding_arguments
from studio.training.schedule import Schedule

_NEVER = 10**9
"""Steps between things that are not to happen by themselves."""


def training_arguments(
    config: TrainingConfig,
    learning_rate: float,
    schedule: Schedule,
    checkpoints: Path,
    precision: Precision,
    metric: str,
    log_name: str,
) -> Seq2SeqTrainingArguments:
    """The trainer's own arguments; by the steps that the run will have, its learning rate is planned."""
    has_gpu = torch.cuda.is_available()
    return Seq2SeqTrainingArguments(
        output_dir=str(checkpoints),
        **{name: getattr(config, name) for name, f in FIELDS.items() if f.metadata["for_trainer"]},
        **_schedule(config, learning_rate, schedule),
        **_evaluation(config, metric),
        fp16=precision.name == "fp16",
        bf16=precision.name == "bf16",
        gradient_checkpointing_kwargs={"use_reentrant": config.is_reentrant}
        if config.gradient_checkpointing
        else None,
        # Starting its processes takes a random number: in each epoch, or a run resumed between two differs.
        dataloader_persistent_workers=False,
        dataloader_pin_memory=has_gpu,
        remove_unused_columns=False,
        label_names=["labels"],
        run_name=log_name,
        disable_tqdm=True,
        report_to=list(config.trackers) or "none",
        log_level="error",
        log_level_replica="error",
        use_cpu=not has_gpu,
        ddp_find_unused_parameters=False,
        **sharding_arguments(config),
    )


def _schedule(config: TrainingConfig, learning_rate: float, schedule: Schedule) -> dict[str, Any]:
    return {
        "max_steps": config.max_steps if config.max_steps > 0 else -1,
        "learning_rate": learning_rate,
        "warmup_steps": schedule.warmup(config),
        "lr_scheduler_kwargs": scheduler_values(
            config.lr_scheduler_type, config.lr_scheduler_kwargs, learning_rate, schedule.max_steps
        ),
    }


def _evaluation(config: TrainingConfig, metric: str) -> dict[str, Any]:
    return {
        "eval_steps": config.eval_steps if config.eval_strategy == "steps" else None,
        "eval_on_start": False,
        "save_strategy": "steps",
        "save_steps": config.save_steps or _NEVER,
        "metric_for_best_model": metric,
        "greater_is_better": False,
        "predict_with_generate": True,
    }
