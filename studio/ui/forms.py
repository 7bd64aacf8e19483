"""The form of a training run, made from `TrainingConfig`: one component a field, under the field's name."""

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.training.arguments import config_from_dict
from studio.training.config import ALL_LINEAR, TrainingConfig
from studio.ui.i18n import _

MAIN = (
    "base_model",
    "train_data",
    "test_data",
    "method",
    "num_train_epochs",
    "per_device_train_batch_size",
    "learning_rate",
    "language",
    "run_name",
)
"""Fields that are always in sight; the rest is folded by group."""

GROUPS = {
    "data": _("More about the data"),
    "method": _("Adapter, bits and precision"),
    "schedule": _("Steps, batches and learning rate"),
    "evaluation": _("Evaluation and checkpoints"),
    "machine": _("This machine"),
}

LABELS = {
    "base_model": _("Base model"),
    "train_data": _("Training data"),
    "test_data": _("Evaluation data"),
    "validation_share": _("Share kept back for evaluation"),
    "max_train_samples": _("At most so many training clips"),
    "max_eval_samples": _("At most so many evaluation clips"),
    "min_audio_len": _("Shortest clip (seconds)"),
    "max_audio_len": _("Longest clip (seconds)"),
    "language": _("Language"),
    "task": _("Task"),
    "timestamps": _("Train timestamps"),
    "normalizer": _("Text normalisation"),
    "method": _("Method"),
    "lora_r": _("LoRA rank"),
    "lora_alpha": _("LoRA alpha"),
    "lora_dropout": _("LoRA dropout"),
    "target_modules": _("Layers with an adapter"),
    "quantization": _("Quantization"),
    "precision": _("Precision"),
    "gradient_checkpointing": _("Gradient checkpointing"),
    "num_train_epochs": _("Epochs"),
    "max_steps": _("Steps at most"),
    "per_device_train_batch_size": _("Batch size"),
    "per_device_eval_batch_size": _("Batch size in evaluation"),
    "gradient_accumulation_steps": _("Gradient accumulation"),
    "learning_rate": _("Learning rate"),
    "warmup_steps": _("Warm-up"),
    "lr_scheduler_type": _("Learning rate schedule"),
    "weight_decay": _("Weight decay"),
    "max_grad_norm": _("Gradient clipping"),
    "seed": _("Random seed"),
    "eval_strategy": _("Evaluate"),
    "eval_steps": _("Steps between evaluations"),
    "eval_on_start": _("Evaluate the base model first"),
    "save_steps": _("Steps between checkpoints"),
    "save_total_limit": _("Checkpoints kept"),
    "logging_steps": _("Steps between points of the curve"),
    "metric_for_best_model": _("Metric that picks the best checkpoint"),
    "generation_max_length": _("Longest text in evaluation (tokens)"),
    "generation_num_beams": _("Beams in evaluation"),
    "dataloader_num_workers": _("Processes that read audio"),
    "run_name": _("Name of the run"),
    "output_dir": _("Copy the model to"),
    "report_to": _("Report to"),
    "local_files_only": _("Never download"),
    "cache_dir": _("Cache folder"),
}

CHOICES = {
    "transcribe": _("Transcribe"),
    "translate": _("Translate to English"),
    "lora": _("LoRA (small adapter)"),
    "dora": _("DoRA (adapter with magnitudes)"),
    "adalora": _("AdaLoRA (adapter with moving ranks)"),
    "full": _("All weights"),
    "frozen_encoder": _("Decoder only (encoder frozen)"),
    "none": _("None"),
    "8bit": _("8 bits"),
    "4bit": _("4 bits"),
    "auto": _("Automatic"),
    "basic": _("Basic (case and punctuation)"),
    "english": _("English (Whisper's rules)"),
    "chinese": _("Chinese (simplified, no punctuation)"),
    "linear": _("Linear"),
    "cosine": _("Cosine"),
    "constant": _("Constant"),
    "constant_with_warmup": _("Constant after warm-up"),
    "epoch": _("After each epoch"),
    "steps": _("Every so many steps"),
    "no": _("Never"),
}


def training_fields() -> dict[str, Field[Any]]:
    """Fields of `TrainingConfig` by name, in the order of the schema."""
    return {f.name: f for f in fields(TrainingConfig)}


def field_component(name: str, **more: Any) -> Block:
    """The component for one field, with the schema's help, choices and default."""
    f = training_fields()[name]
    default: Any = f.default
    common = {"label": LABELS[name], "info": _(f.metadata["help"]), "elem_id": f"train-{name}", **more}
    if f.metadata["choices"]:
        choices = [(CHOICES.get(value, value), value) for value in f.metadata["choices"]]
        return gr.Dropdown(choices, value=default, **common)
    if isinstance(default, bool):
        return gr.Checkbox(value=default, **common)
    if f.type == (int | None):
        return gr.Number(value=0, precision=0, **{**common, "info": _("0: all of them.")})
    if f.type == (float | None):
        return gr.Number(value=0, step=1e-4, **{**common, "info": _("0: by method and size of the model.")})
    if f.type is int:
        return gr.Number(value=default, precision=0, **common)
    if f.type is float:
        return gr.Number(value=default, **common)
    return gr.Textbox(value=shown_value(default), max_lines=1, **common)


def shown_value(value: Any) -> Any:
    """What a component shows for a field's value: lists as text, no limit and no choice as 0."""
    if value is None:
        return 0
    if isinstance(value, (tuple, list)):
        return "all-linear" if tuple(value) == ALL_LINEAR else ", ".join(value)
    return value


def folded_groups(form: dict[str, Block]) -> None:
    """Adds the fields that are not in `form` yet, a folded section a group, two columns wide."""
    for group, title in GROUPS.items():
        names = [
            name for name, f in training_fields().items() if f.metadata["group"] == group and name not in form
        ]
        with gr.Accordion(title, open=False):
            for left in range(0, len(names), 2):
                with gr.Row(equal_height=True):
                    for name in names[left : left + 2]:
                        form[name] = field_component(name, min_width=200)


def form_config(values: Mapping[str, Any]) -> TrainingConfig:
    """The run that the form describes; 0 stands for None where a number may be missing.

    Raises:
        ConfigError: if a value cannot be used.
    """
    optional = {name for name, f in training_fields().items() if f.type in (int | None, float | None)}
    return config_from_dict(
        {name: None if name in optional and not value else value for name, value in values.items()}
    )


def form_updates(config: TrainingConfig, form: Mapping[str, Block]) -> list[Any]:
    """Values that set every component of the form to `config`."""
    return [shown_value(getattr(config, name)) for name in form]
