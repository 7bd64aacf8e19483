"""Every flag of the scripts whose commands people have: taken, and with its meaning."""

import re
from pathlib import Path
from typing import Any

import pytest

from studio.errors import ConfigError
from studio.options.arguments import parse_training_arguments

MEANINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("train_data", "a.json", {"train_data": "a.json"}),
    ("train_file", "a.json", {"train_data": "a.json"}),
    ("test_data", "b.json", {"test_data": "b.json"}),
    ("validation_file", "b.json", {"test_data": "b.json"}),
    ("base_model", "openai/whisper-tiny", {"base_model": "openai/whisper-tiny"}),
    ("model_name_or_path", "openai/whisper-tiny", {"base_model": "openai/whisper-tiny"}),
    ("model", "openai/whisper-tiny", {"base_model": "openai/whisper-tiny"}),
    ("data", "a.json", {"train_data": "a.json"}),
    ("eval_data", "b.json", {"test_data": "b.json"}),
    ("epochs", "3", {"num_train_epochs": 3}),
    ("batch_size", "16", {"per_device_train_batch_size": 16}),
    ("eval_batch_size", "16", {"per_device_eval_batch_size": 16}),
    ("lr", "1e-4", {"learning_rate": 1e-4}),
    ("method", "qlora", {"method": "lora", "quantization": "4bit"}),
    ("output_dir", "output/", {"output_dir": "output/"}),
    ("cache_dir", "cache", {"cache_dir": "cache"}),
    ("warmup_steps", "50", {"warmup_steps": 50}),
    ("logging_steps", "100", {"logging_steps": 100}),
    ("eval_steps", "1000", {"eval_steps": 1000, "eval_strategy": "steps"}),
    ("save_steps", "1000", {"save_steps": 1000}),
    ("num_workers", "8", {"dataloader_num_workers": 8}),
    ("dataloader_num_workers", "8", {"dataloader_num_workers": 8}),
    ("learning_rate", "1e-3", {"learning_rate": 1e-3}),
    ("min_audio_len", "0.5", {"min_audio_len": 0.5}),
    ("max_audio_len", "25", {"max_audio_len": 25}),
    ("num_train_epochs", "3", {"num_train_epochs": 3}),
    ("language", "Chinese", {"language": "Chinese"}),
    ("language", "zh", {"language": "zh"}),
    ("task", "translate", {"task": "translate"}),
    ("per_device_train_batch_size", "4", {"per_device_train_batch_size": 4}),
    ("per_device_eval_batch_size", "4", {"per_device_eval_batch_size": 4}),
    ("gradient_accumulation_steps", "2", {"gradient_accumulation_steps": 2}),
    ("save_total_limit", "10", {"save_total_limit": 10}),
    ("max_train_samples", "100", {"max_train_samples": 100}),
    ("max_eval_samples", "10", {"max_eval_samples": 10}),
    ("lora_r", "16", {"lora_r": 16}),
    ("lora_alpha", "32", {"lora_alpha": 32}),
    ("lora_dropout", "0.1", {"lora_dropout": 0.1}),
    ("wandb_project", "speech", {"project": "speech"}),
    ("max_steps", "5000", {"max_steps": 5000}),
    ("eval_strategy", "steps", {"eval_strategy": "steps"}),
    ("generation_max_length", "200", {"generation_max_length": 200}),
    ("report_to", "tensorboard", {"report_to": "tensorboard"}),
)
"""Flag, its value, and what becomes of it."""

SWITCHES: tuple[tuple[str, str, Any, Any], ...] = (
    ("use_adalora", "method", "adalora", "lora"),
    ("fp16", "precision", "fp16", "fp32"),
    ("bf16", "precision", "bf16", "fp32"),
    ("use_8bit", "quantization", "8bit", "none"),
    ("timestamps", "timestamps", True, False),
    ("local_files_only", "local_files_only", True, False),
    ("gradient_checkpointing", "gradient_checkpointing", True, False),
    ("use_wandb", "report_to", "wandb", "none"),
)
"""Flag, the field, its value when on and when off."""

MEANS_NOTHING = ("push_to_hub", "overwrite_output_dir", "group_by_length")
"""Taken with a sentence."""


@pytest.mark.parametrize(("flag", "value", "expected"), MEANINGS)
@pytest.mark.parametrize("spelling", ["--{} {}", "--{}={}"])
def test_a_flag_means_what_it_meant(flag: str, value: str, expected: dict[str, Any], spelling: str) -> None:
    config, notes = parse_training_arguments(spelling.format(flag, value).split())
    assert {name: getattr(config, name) for name in expected} == expected
    assert notes == []


@pytest.mark.parametrize(("flag", "field", "on", "off"), SWITCHES)
def test_a_switch_is_taken_in_every_style(flag: str, field: str, on: Any, off: Any) -> None:
    for words in (f"--{flag}", f"--{flag}=True", f"--{flag} True", f"--{flag}=true", f"--{flag} 1"):
        assert getattr(parse_training_arguments(words.split())[0], field) == on, words
    for words in (f"--{flag}=False", f"--{flag} False", f"--{flag}=false", f"--{flag} 0"):
        assert getattr(parse_training_arguments(words.split())[0], field) == off, words


@pytest.mark.parametrize("flag", MEANS_NOTHING)
def test_a_flag_without_meaning_here_is_taken_with_a_sentence(flag: str) -> None:
    _config, (note,) = parse_training_arguments([f"--{flag}=True"])
    assert re.fullmatch(rf"--{flag} has no effect here: .*\.", str(note))
    assert parse_training_arguments([f"--{flag}=False"])[1] == []


def test_none_written_out_is_none() -> None:
    words = "--resume_from_checkpoint=None --augment_config_path=None --hub_model_id=None --use_compile=False"
    assert parse_training_arguments(words.split())[1] == []


def test_the_method_is_lora_unless_said() -> None:
    assert parse_training_arguments([])[0].method == "lora"


@pytest.mark.parametrize("flag", sorted({name for name, _value, _expected in MEANINGS if name[3:]}))
def test_a_slip_is_answered_with_the_nearest_spelling(flag: str) -> None:
    slip = f"{flag[:-2]}{flag[-1]}{flag[-2]}x"
    with pytest.raises(ConfigError, match="the nearest is --"):
        parse_training_arguments([f"--{slip}", "1"])


def test_flags_are_read_beside_the_file_that_they_override(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("base_model: openai/whisper-tiny\ntrain_data: a.json\nwarmup_steps: 7\n")
    given = ["--config", str(file), "--tokenizer_name", "openai/whisper-tiny", "--eval_split_name", "test"]
    config, _ = parse_training_arguments([*given, "--warmup_ratio", "0.1"])
    assert (config.train_data, config.warmup_steps) == ("a.json", 0.1)
    with pytest.raises(ConfigError, match="tokenizer_name openai/whisper-base is not done here"):
        parse_training_arguments(["--config", str(file), "--tokenizer_name", "openai/whisper-base"])


@pytest.mark.parametrize(
    ("flags", "is_told"), [("", True), ("--freeze_encoder False", True), ("--lora_r 8", False)]
)
def test_who_trained_all_weights_is_told_that_a_lora_is_made(flags: str, is_told: bool) -> None:
    given = "--base_model demo --dataset_name a/b --do_lower_case " + flags
    _, notes = parse_training_arguments(given.split())
    assert any("makes a LoRA" in str(note) for note in notes) is is_told
