"""The form of a training run, made from `TrainingConfig`: one component a field, under the field's name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import ConfigError, StudioError
from studio.jobs.manager import with_absolute_paths
from studio.settings import Settings
from studio.training.arguments import config_from_dict, write_yaml
from studio.training.config import ALL_LINEAR, TrainingConfig
from studio.training.slurm import slurm_script
from studio.ui.errors import explain
from studio.ui.i18n import _, english, request_locale

GROUPS = {
    "data": _("More about the data"),
    "augmentation": _("Augmentation"),
    "method": _("Adapter, bits and precision"),
    "schedule": _("Steps, batches and learning rate"),
    "evaluation": _("Evaluation and checkpoints"),
    "processes": _("Several GPUs and machines"),
    "machine": _("This machine"),
}

LABELS = {
    "base_model": _("Base model"),
    "train_data": _("Training data"),
    "test_data": _("Evaluation data"),
    "train_weights": _("Shares of the training manifests"),
    "audio_column": _("Column with the sounds"),
    "text_column": _("Column with the texts"),
    "validation_share": _("Share kept back for evaluation"),
    "max_train_samples": _("Training clips at most"),
    "max_eval_samples": _("Evaluation clips at most"),
    "min_audio_len": _("Shortest clip (seconds)"),
    "max_audio_len": _("Longest clip (seconds)"),
    "language": _("Language"),
    "task": _("Task"),
    "timestamps": _("Train timestamps"),
    "make_timestamps": _("Timestamps by the base model"),
    "pack_clips": _("Pack short clips"),
    "condition_on_prev_probability": _("Share taught with previous text"),
    "normalizer": _("Text normalisation"),
    "no_speech_share": _("Share of clips without speech"),
    "apply_spec_augment": _("SpecAugment"),
    "mask_time_prob": _("Masked share of the time"),
    "mask_time_length": _("Frames of a mask"),
    "mask_feature_prob": _("Masked share of the mel bins"),
    "mask_feature_length": _("Mel bins of a mask"),
    "speed_prob": _("Other speed: share of clips"),
    "min_speed_rate": _("Slowest speed"),
    "max_speed_rate": _("Fastest speed"),
    "noise_prob": _("Noise: share of clips"),
    "min_snr_db": _("Loudest noise (SNR in dB)"),
    "max_snr_db": _("Faintest noise (SNR in dB)"),
    "noise_dir": _("Folder with noise"),
    "reverb_prob": _("Echo: share of clips"),
    "resample_prob": _("Telephone: share of clips"),
    "volume_prob": _("Other loudness: share of clips"),
    "min_gain_db": _("Softest (gain in dB)"),
    "max_gain_db": _("Loudest (gain in dB)"),
    "augment_config_path": _("Augmentation from a file"),
    "method": _("Method"),
    "lora_r": _("LoRA rank"),
    "lora_alpha": _("LoRA alpha"),
    "lora_dropout": _("LoRA dropout"),
    "target_modules": _("Layers with an adapter"),
    "adapter": _("Go on from an adapter"),
    "base_dtype": _("Type of the base model"),
    "attn_implementation": _("Attention"),
    "use_reentrant": _("Reentrant checkpointing"),
    "torch_compile": _("Compile the model"),
    "lr_scheduler_kwargs": _("Values of the scheduler"),
    "optim": _("Optimizer"),
    "label_smoothing_factor": _("Label smoothing"),
    "early_stopping_patience": _("Stop early after"),
    "quantization": _("Quantization"),
    "precision": _("Precision"),
    "gradient_checkpointing": _("Gradient checkpointing"),
    "short_audio": _("Short-audio mode"),
    "padded_share": _("Share of padded batches"),
    "adapter_strength": _("Strength of the adapter"),
    "replay_share": _("Rehearsed windows for each clip"),
    "replay_data": _("Recordings to rehearse"),
    "cache_encoder_states": _("Keep the frozen encoder's states"),
    "distill": _("Distil for short audio"),
    "loss_chunk_size": _("Tokens of the loss at once"),
    "num_train_epochs": _("Epochs"),
    "max_steps": _("Steps at most"),
    "per_device_train_batch_size": _("Batch size"),
    "per_device_eval_batch_size": _("Batch size in evaluation"),
    "gradient_accumulation_steps": _("Gradient accumulation"),
    "learning_rate": _("Learning rate"),
    "warmup_steps": _("Warm-up"),
    "lr_scheduler_type": _("Learning rate schedule"),
    "weight_decay": _("Weight decay"),
    "adam_beta1": _("Memory of the direction (beta 1)"),
    "adam_beta2": _("Memory of the size (beta 2)"),
    "adam_epsilon": _("Least divisor (epsilon)"),
    "max_grad_norm": _("Gradient clipping"),
    "seed": _("Random seed"),
    "eval_strategy": _("Evaluate"),
    "eval_steps": _("Steps between evaluations"),
    "eval_delay": _("No evaluation before"),
    "eval_on_start": _("Evaluate the base model first"),
    "save_steps": _("Steps between checkpoints"),
    "save_total_limit": _("Checkpoints kept"),
    "logging_steps": _("Steps between points of the curve"),
    "metric_for_best_model": _("Metric that picks the best checkpoint"),
    "capability_check": _("Check the finished model"),
    "other_languages_data": _("Recordings of something else"),
    "generation_max_length": _("Longest text in evaluation (tokens)"),
    "generation_num_beams": _("Beams in evaluation"),
    "num_processes": _("Processes"),
    "sharding": _("Divided among them"),
    "num_machines": _("Machines"),
    "machine_rank": _("Number of this machine"),
    "main_process_ip": _("Address of machine 0"),
    "main_process_port": _("Port of machine 0"),
    "ddp_timeout": _("Longest silence (seconds)"),
    "dataloader_num_workers": _("Processes that read audio"),
    "run_name": _("Name of the run"),
    "output_dir": _("Copy the model to"),
    "report_to": _("Report to"),
    "project": _("Project in the report"),
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
    "lowercase": _("Lower case"),
    "basic": _("Basic (case and punctuation)"),
    "english": _("English (Whisper's rules)"),
    "chinese": _("Chinese (simplified, no punctuation)"),
    "no_punctuation": _("No punctuation"),
    "linear": _("Linear"),
    "cosine": _("Cosine"),
    "constant": _("Constant"),
    "constant_with_warmup": _("Constant after warm-up"),
    "cosine_with_restarts": _("Cosine with restarts"),
    "cosine_with_min_lr": _("Cosine down to a least rate"),
    "cosine_warmup_with_min_lr": _("Cosine, warm-up from a least rate"),
    "polynomial": _("Polynomial"),
    "inverse_sqrt": _("Inverse square root"),
    "reduce_lr_on_plateau": _("Lower where nothing improves"),
    "warmup_stable_decay": _("Warm-up, stable, decay"),
    "greedy": _("Greedy: up and down with the error rate"),
    "adamw_torch_fused": _("AdamW"),
    "adamw_torch": _("AdamW (foreach)"),
    "adamw_bnb_8bit": _("AdamW, states in 8 bits"),
    "adafactor": _("Adafactor"),
    "sgd": _("SGD"),
    "pure_bf16": _("bf16 throughout"),
    "true": _("Yes"),
    "false": _("No"),
    "epoch": _("After each epoch"),
    "steps": _("Every few steps"),
    "no": _("Never"),
    "on": _("On"),
    "off": _("Off"),
    "ddp": _("Nothing (DDP)"),
    "zero1": _("Optimizer states (ZeRO 1)"),
    "zero2": _("And gradients (ZeRO 2)"),
    "zero3": _("And weights (ZeRO 3)"),
    "fsdp": _("Weights, gradients, states (FSDP)"),
}


_AUTOMATIC = {
    "learning_rate": (1e-4, _("0: by method and size of the model.")),
    "adapter_strength": (
        0.05,
        _("1 keeps all that was learned; a little less forgets far less. 0: 0.85 of a new adapter."),
    ),
}
"""Numbers that may be left to the studio: their step, and what 0 stands for."""


def training_fields() -> dict[str, Field[Any]]:
    """Fields of `TrainingConfig` by name, in the order of the schema."""
    return {f.name: f for f in fields(TrainingConfig)}


def field_component(name: str, **more: Any) -> Block:
    """The component for one field, with the schema's help, choices and default."""
    f = training_fields()[name]
    default: Any = f.default
    common = {"label": LABELS[name], "info": _help(name), "elem_id": f"train-{name}", **more}
    if f.metadata["choices"]:
        choices = [(CHOICES.get(value, value), value) for value in f.metadata["choices"]]
        return gr.Dropdown(choices, value=default, **common)
    if isinstance(default, bool):
        return gr.Checkbox(value=default, **{"min_width": 180, **common})
    if f.type == (int | None):
        return gr.Number(value=0, precision=0, **{**common, "info": _("0: all of them.")})
    if f.type == (float | None):
        step, info = _AUTOMATIC[name]
        return gr.Number(value=0, step=step, **{**common, "info": info})
    if f.type is int:
        return gr.Number(value=default, precision=0, **common)
    if f.type is float:
        return gr.Number(value=default, **common)
    return gr.Textbox(value=shown_value(default), max_lines=1, **common)


def _help(name: str) -> Any:
    """The schema's sentence about a field; None where it only says the label once more."""
    sentence = training_fields()[name].metadata["help"]
    said, more = (set(re.findall(r"\w+", str(text).lower())) for text in (english(LABELS[name]), sentence))
    return _(sentence) if more - said else None


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


def form_problems(values: Mapping[str, Any], check: Callable[[Mapping[str, Any]], object]) -> dict[str, Any]:
    """Field → what is wrong with its value, if `check` refuses one; errors name the option to change."""
    try:
        check(values)
    except ConfigError as error:
        name = str(error.values.get("name", ""))
        return {name: error} if name in values else {}
    except StudioError:
        return {}  # of a model or of data: told where it is looked for
    return {}


def validator(
    form: Mapping[str, Block], check: Callable[[Mapping[str, Any]], object], *others: str
) -> Callable[..., list[Any]]:
    """For the `validator` of an event whose inputs are `others` and the form: marks what `check` refuses."""
    return field_marks(form, lambda values: form_problems(values, check), *others)


def field_marks(
    form: Mapping[str, Block], problems: Callable[[dict[str, Any]], Mapping[str, StudioError]], *others: str
) -> Callable[..., list[Any]]:
    """The same for `problems`, which tells of each wrong field what is wrong with it."""

    def validate(request: gr.Request, **values: Any) -> list[Any]:
        """A mark for each input, in their order."""
        locale = request_locale(request)
        wrong = problems({name: values[name] for name in form})
        marks = [gr.validate(True, "") for _name in others]
        for name in form:
            text = explain(wrong[name], locale) if name in wrong else ""
            marks.append(gr.validate(name not in wrong, text))
        return marks

    return validate


def run_files(config: TrainingConfig, settings: Settings) -> dict[str, str]:
    """The run as files, ending → content: its settings and, for several processes, a job for a cluster."""
    files = {"yaml": write_yaml(config)}
    if config.num_processes > 1:
        files["slurm"] = slurm_script(with_absolute_paths(config), settings.home, settings.working_dir)
    return files
