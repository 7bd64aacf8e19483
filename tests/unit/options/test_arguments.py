"""Flags, files and dictionaries to `TrainingConfig`, and back."""

import json
import os
import random
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from studio.errors import ConfigError
from studio.options.arguments import (
    command_line,
    config_and_notes,
    config_from_dict,
    config_to_dict,
    help_text,
    parse_training_arguments,
    read_config,
    training_flags,
    write_yaml,
)
from studio.options.choices import ALL_LINEAR
from studio.options.training import TrainingConfig
from studio.translation import said

WHISPER_FINETUNE = """
    --train_data=dataset/train.json --test_data=dataset/test.json --base_model=openai/whisper-tiny
    --output_dir=output/ --warmup_steps=50 --logging_steps=100 --eval_steps=1000 --save_steps=1000
    --num_workers=8 --learning_rate=1e-3 --min_audio_len=0.5 --max_audio_len=30 --use_adalora=True
    --fp16=True --use_8bit=False --timestamps=False --use_compile=False --local_files_only=False
    --num_train_epochs=3 --language=Chinese --task=transcribe --augment_config_path=None
    --resume_from_checkpoint=None --per_device_train_batch_size=8 --per_device_eval_batch_size=8
    --gradient_accumulation_steps=1 --push_to_hub=False --hub_model_id=None --save_total_limit=10
"""
LORA_SCRIPT = """
    --model_name_or_path openai/whisper-small --cache_dir cache --train_file a.json --validation_file b.json
    --max_train_samples 100 --max_eval_samples 10 --lora_r 16 --lora_alpha 32 --lora_dropout 0.1
    --num_train_epochs 5 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --learning_rate 5e-4
    --warmup_steps 20 --logging_steps 10 --save_steps 200 --eval_steps 200 --fp16 --gradient_checkpointing
    --use_wandb --wandb_project speech
"""
SEQ2SEQ = """
    --base_model MediaTek-Research/Breeze-ASR-25 --train_data t.csv --max_steps 5000 --eval_strategy steps
    --generation_max_length 225 --predict_with_generate True --dataloader_num_workers 2
    --dataloader_pin_memory True --save_total_limit 3 --report_to none --bf16 True
    --gradient_checkpointing True
"""


def test_whisper_finetune_commands_run_unchanged() -> None:
    config, notes = parse_training_arguments(shlex.split(WHISPER_FINETUNE))
    assert (config.base_model, config.train_data) == ("openai/whisper-tiny", "dataset/train.json")
    assert config.test_data == "dataset/test.json"
    assert (config.method, config.precision, config.quantization) == ("adalora", "fp16", "none")
    assert (config.eval_strategy, config.eval_steps, config.save_steps) == ("steps", 1000, 1000)
    assert (config.language, config.dataloader_num_workers, config.output_dir) == ("Chinese", 8, "output/")
    assert (config.warmup_steps, config.min_audio_len, config.save_total_limit) == (50, 0.5, 10)
    assert notes == []


@pytest.mark.parametrize(
    "text", ["['wandb','tensorboard']", '["wandb", "tensorboard"]', "[wandb,tensorboard]"]
)
def test_a_list_as_python_writes_it_is_taken(text: str) -> None:
    for words in ([text], text.split(" ")):
        config, _notes = parse_training_arguments(["--report_to", *words])
        assert config.trackers == ("wandb", "tensorboard")


def test_lora_script_commands_run_unchanged() -> None:
    config, notes = parse_training_arguments(shlex.split(LORA_SCRIPT))
    assert (config.base_model, config.train_data) == ("openai/whisper-small", "a.json")
    assert (config.test_data, config.cache_dir) == ("b.json", "cache")
    assert (config.max_train_samples, config.max_eval_samples) == (100, 10)
    assert (config.lora_r, config.lora_alpha, config.lora_dropout) == (16, 32, 0.1)
    assert (config.method, config.precision, config.report_to) == ("lora", "fp16", "wandb")
    assert config.gradient_checkpointing
    assert config.project == "speech" and notes == []


def test_seq2seq_training_arguments_are_taken() -> None:
    config, notes = parse_training_arguments(shlex.split(SEQ2SEQ))
    assert (config.max_steps, config.eval_strategy, config.precision) == (5000, "steps", "bf16")
    assert (config.generation_max_length, config.dataloader_num_workers) == (225, 2)
    assert config.gradient_checkpointing and config.report_to == "none"
    assert [str(note).split()[0] for note in notes] == ["--predict_with_generate", "This"]


@pytest.mark.parametrize(
    "words", ["--timestamps", "--timestamps=True", "--timestamps true", "--timestamps 1"]
)
def test_a_switch_is_on_in_every_spelling(words: str) -> None:
    assert parse_training_arguments(words.split())[0].timestamps is True


@pytest.mark.parametrize("words", ["--eval_on_start=False", "--eval-on-start false", "--no_eval_on_start"])
def test_a_switch_is_off_in_every_spelling(words: str) -> None:
    assert parse_training_arguments(words.split())[0].eval_on_start is False


def test_kebab_case_is_snake_case() -> None:
    config, _ = parse_training_arguments(["--learning-rate", "1e-4", "--per-device-train-batch-size=2"])
    assert (config.learning_rate, config.per_device_train_batch_size) == (1e-4, 2)


@pytest.mark.parametrize("words", ["all-linear", "all_linear", "q_proj,k_proj,v_proj,out_proj,fc1,fc2"])
def test_all_linear_names_every_linear_layer(words: str) -> None:
    assert parse_training_arguments(["--target_modules", words])[0].target_modules == ALL_LINEAR


@pytest.mark.parametrize("words", [["q_proj,v_proj"], ["q_proj", "v_proj"], ["q_proj, v_proj"]])
def test_target_modules_are_a_list(words: list[str]) -> None:
    assert parse_training_arguments(["--target_modules", *words])[0].target_modules == ("q_proj", "v_proj")


def test_an_unknown_flag_is_refused_with_the_nearest_spelling() -> None:
    with pytest.raises(ConfigError, match=r"--learning_rat; the nearest is --learning_rate"):
        parse_training_arguments(["--learning_rat", "1"])
    with pytest.raises(ConfigError, match=r"--help"):
        parse_training_arguments(["--zzqqxx", "1"])


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["train.jsonl"], "'train.jsonl' is not an option"),
        (["--train_data"], "--train_data needs a value"),
        (["--train_data", "--fp16"], "--train_data needs a value"),
        (["--lora_r", "many"], "lora_r must be a number, got 'many'"),
        (["--lora_r", "1.5"], "lora_r must be a whole number"),
        (["--lora_r", "0"], "lora_r must be between 1 and 1024, got 0"),
        (["--learning_rate", "nan"], "learning_rate must be between"),
        (["--train_data", " "], "A run needs train_data: it is empty."),
        (["--timestamps=maybe"], "timestamps must be True or False, got 'maybe'"),
        (["--method", "magic"], "method must be one of lora, dora"),
        (["--fp16", "--bf16"], "--bf16 cannot be combined with precision fp16"),
        (["--save_strategy", "sometimes"], "save_strategy must be one of"),
        (["--target_modules", "q_proj,attention"], "target_modules must be some of"),
        (
            ["--use_8bit", "--method", "full"],
            "8bit weights cannot be trained themselves: use one",
        ),
        (["--base_dtype", "bf16", "--fp16"], "promoted to fp32 everywhere: give both the same type"),
        (["--pure_bf16", "--use_4bit"], "give precision bf16"),
        (["--base_dtype", "float16", "--method", "full"], "give base_dtype fp32 or bf16"),
        (["--precision", "fp32", "--attn_implementation", "flash_attention_2"], "or sdpa"),
        (["--per_device_train_batch_size", "-1"], "between 1 and 1024, got -1"),
        (["--per_device_train_batch_size", "1000000"], "between 1 and 1024, got 1000000"),
        (["--optim", "lion"], "optim must be one of adamw_torch_fused"),
        (["--lr_scheduler_kwargs", "[1]"], "must be a JSON object"),
        (["--lr_scheduler_kwargs", '{"power": 2}'], "linear has no power"),
        (["--early_stopping_patience", "2", "--eval_strategy", "no"], "set eval_strategy to epoch or steps"),
        (["--lr_scheduler_type", "greedy", "--eval_strategy", "no"], "needs evaluations"),
        (["--gradient_checkpointing_kwargs", "{1}"], 'must be {"use_reentrant": true}'),
        (["--adapter", "mine", "--method", "full"], "trained on with method lora, dora, got full"),
        (["--num_processes", "3", "--num_machines", "2"], "3 processes cannot be shared out evenly"),
        (["--num_processes", "2", "--num_machines", "2"], "need main_process_ip"),
        (["--machine_rank", "1"], "of 1 machine the last is 0; got 1"),
        (["--num_processes", "2", "--sharding", "fsdp", "--use_4bit"], "cannot be divided among GPUs"),
        (["--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
    ],
)
def test_a_bad_value_is_named(argv: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_training_arguments(argv)
    assert sentence in str(caught.value)


def test_switches_mean_their_field_in_any_order() -> None:
    for argv in (["--bf16", "True", "--fp16", "False"], ["--fp16", "False", "--bf16", "True"]):
        assert parse_training_arguments(argv)[0].precision == "bf16"
    assert parse_training_arguments(["--fp16", "False"])[0].precision == "fp32"
    assert parse_training_arguments(["--use_8bit"])[0].quantization == "8bit"
    assert parse_training_arguments(["--warmup_ratio", "0.05"])[0].warmup_steps == 0.05
    assert parse_training_arguments(["--freeze_encoder"])[0].method == "frozen_encoder"
    assert parse_training_arguments(["--save_strategy", "epoch"])[0].save_steps == 0


def test_options_of_the_ecosystem_mean_what_they_mean_there() -> None:
    words = (
        "--base_dtype bfloat16 --pure_bf16 --optim adamw_8bit --attn_implementation eager --use_compile "
        "--gradient_checkpointing --label_smoothing_factor 0.1 --lr_scheduler_type cosine_with_restarts"
    )
    given = ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
    given += ["--lr_scheduler_kwargs", '{"num_cycles": 2}']
    config, notes = parse_training_arguments([*words.split(), *given])
    assert (config.base_dtype, config.precision, config.optim) == ("bf16", "pure_bf16", "adamw_bnb_8bit")
    assert config.torch_compile and config.gradient_checkpointing and not config.is_reentrant
    assert config.lr_scheduler_kwargs == '{"num_cycles": 2}'
    assert config_from_dict({"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"num_cycles": 1}})
    assert config_from_dict({"gradient_checkpointing_kwargs": {"use_reentrant": True}}).is_reentrant
    assert parse_training_arguments(["--use_8bit"])[0].is_reentrant
    assert not parse_training_arguments(["--use_8bit", "--use_reentrant", "False"])[0].is_reentrant
    assert parse_training_arguments(["--mixed_precision", "no"])[0].precision == "fp32"
    assert notes == []


def test_several_processes_are_named_as_accelerate_does() -> None:
    for words in ("--num_processes 4 --distributed_type MULTI_GPU", "--num_gpus 4 --sharding ddp"):
        config = parse_training_arguments(words.split())[0]
        assert (config.num_processes, config.sharding, config.num_machines) == (4, "ddp", 1)
    for word, sharding in (("FSDP", "fsdp"), ("DEEPSPEED", "zero2"), ("zero3", "zero3")):
        assert parse_training_arguments(["--distributed", word])[0].sharding == sharding
    machines = "--nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master_port 29400 --num_processes 16"
    config = parse_training_arguments(machines.split())[0]
    assert (config.num_machines, config.machine_rank, config.processes_per_machine) == (2, 1, 8)
    assert (config.main_process_ip, config.main_process_port) == ("10.0.0.1", 29400)


def test_flags_override_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "learning_rate: 1e-4\nfp16: true\nlanguage: no\nlora_r: 8\npush_to_hub: true\n"
        "short_audio: on\nreport_to: off\neval_strategy: off\n",
        encoding="utf-8",
    )
    config, notes = parse_training_arguments(["--config", str(file), "--lora_r", "4"])
    assert (config.learning_rate, config.precision, config.lora_r) == (1e-4, "fp16", 4)
    assert config.language == "no", "a plain `no` in YAML is Norwegian here, not False"
    chosen = (config.short_audio, config.report_to, config.eval_strategy)
    assert chosen == ("on", "none", "no"), "a plain `on` and `off` in YAML are words here"
    assert len(notes) == 1 and "--push_to_hub" in str(notes[0])


def test_a_broken_configuration_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    for content, sentence in (
        (b"a: [1", "not valid YAML"),
        (b"- 1", "must map"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"lernrate: 1", "nearest is"),
        (b"a: &a [x, x]\nlanguage: *a", "aliases"),
        (b"language: !!python/object/apply:os.mkdir [made]", "not valid YAML"),
        (b"language: !!python/name:os.mkdir", "not valid YAML"),
        (b"language: !mine de", "not valid YAML"),
        (b"language: " + b"[" * 40_000, "not valid YAML"),
        (b"#" * 60_000, "more than"),
    ):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=sentence):
            read_config(file)


@pytest.mark.parametrize("value", [{"a": 1}, [{"a": 1}], [["q_proj"]], "\ud800"])
@pytest.mark.parametrize("name", ["run_name", "train_data", "target_modules", "report_to", "precision"])
def test_only_a_text_or_a_list_of_them_is_one(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a text, got ") as caught:
        config_from_dict({name: value})
    str(caught.value).encode()


@pytest.mark.parametrize("name", ["lora_r", "timestamps", "method", "target_modules", "lr_scheduler_kwargs"])
def test_a_long_value_is_refused_in_a_short_sentence(name: str) -> None:
    with pytest.raises(ConfigError, match="…") as caught:
        config_from_dict({name: "9 " * 10_000})
    assert len(str(caught.value)) < 400


def test_what_is_no_plain_file_of_settings_is_refused_at_once(tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 40_000, encoding="utf-8")
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for file, sentence in ((deep, "not valid YAML or JSON"), (pipe, "not a file"), (tmp_path, "not a file")):
        with pytest.raises(ConfigError, match=sentence):
            read_config(file)


def test_why_a_file_of_settings_is_refused_is_said_in_the_visitors_language(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for text, reason in (
        ("a: &a [x]", "不接受别名（*name）：请写出值本身"),
        ("a: 1" + ":59" * 400, "有一个词超过 1000 个字符"),
        ("x" * 60_000, "超过 50000 个字符"),
    ):
        file.write_text(text + "\nb: *a\n" * ("&a" in text), encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            read_config(file)
        assert reason in said(caught.value, "zh-CN")


def test_what_is_read_otherwise_than_it_was_written_is_said_in_the_visitors_language() -> None:
    given = {"save_strategy": "no", "data_seed": 1, "optim": "paged_adamw_8bit"}
    config, notes = config_and_notes(given)
    assert config == config_from_dict(given) and config.optim == "adamw_bnb_8bit"
    assert {said(note, "zh-TW") for note in notes} == {
        "--save_strategy no 在這裡不起作用：繼續訓練要靠檢查點。",
        "--data_seed 在這裡不起作用：seed 也決定順序。",
        "--optim paged_adamw_8bit 視為 adamw_bnb_8bit：它的狀態留在 GPU 上。",
    }
    with pytest.raises(ConfigError) as refused:
        config_from_dict({"optim_args": "a=1"})
    assert "请分别给出 adam_beta1" in said(refused.value, "zh-CN")


def _random_config(rng: random.Random) -> TrainingConfig:
    """What contradicts itself is drawn again."""
    while True:
        try:
            return TrainingConfig(**_random_values(rng))
        except ConfigError:
            continue


def _random_values(rng: random.Random) -> dict[str, Any]:
    """About a third of the fields, each changed to something that is accepted by itself."""
    values: dict[str, Any] = {}
    words = [
        "plain",
        "two words",
        "中文 数据",
        "a'b\"c",
        "$(rm -rf x)",
        "-leading",
        "--flag",
        "no",
        "None x",
        "1e5",
    ]
    for f in fields(TrainingConfig):
        if rng.random() > 0.35 or f.name in ("quantization", "train_weights"):
            continue
        if f.name.startswith(("min_", "max_")) and f.type is float:  # their values depend on one another
            continue
        if f.name in ("num_machines", "machine_rank"):  # they depend on each other: see below
            continue
        if f.metadata["choices"]:
            values[f.name] = rng.choice([*f.metadata["choices"]])
        elif f.name == "lr_scheduler_kwargs":
            values[f.name] = rng.choice(["", "{}", '{"num_cycles": 3}'])
        elif f.name == "label_smoothing_factor":
            values[f.name] = 0.1
        elif f.name == "target_modules":
            values[f.name] = tuple(rng.sample(ALL_LINEAR, rng.randint(1, 6)))
        elif f.type is bool:
            values[f.name] = not f.default
        elif f.type is str:
            values[f.name] = rng.choice(words)
        elif f.type in (float, float | None):
            values[f.name] = rng.choice([0.1, 0.25, 1e-5, 0.03]) + rng.random() / 100
        else:
            values[f.name] = rng.randint(1, 30)
    values["validation_share"] = rng.uniform(0.1, 0.5)
    values["num_train_epochs"] = rng.uniform(0.1, 9)
    if rng.random() < 0.3:
        machines = rng.randint(2, 5)
        values |= {"num_machines": machines, "machine_rank": rng.randrange(machines)}
        values |= {"num_processes": machines * rng.randint(1, 8), "main_process_ip": "10.0.0.1"}
    return values


@pytest.mark.parametrize("seed", range(60))
def test_every_way_of_writing_a_configuration_reads_back_the_same(seed: int, tmp_path: Path) -> None:
    config = _random_config(random.Random(seed))
    assert parse_training_arguments(shlex.split(command_line(config))[4:]) == (config, [])
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config
    file = tmp_path / "run.yaml"
    file.write_text(write_yaml(config), encoding="utf-8")
    assert read_config(file) == config


def test_the_command_shows_only_what_differs() -> None:
    config = replace(TrainingConfig(), train_data="my clips.csv", timestamps=False, max_steps=20)
    assert command_line(config) == (
        "python -m studio train --base_model demo --train_data 'my clips.csv' "
        "--timestamps False --max_steps 20"
    )


def test_the_help_names_every_field() -> None:
    text = help_text()
    assert all(f"--{f.name}" in text for f in fields(TrainingConfig))


def test_no_name_means_two_things() -> None:
    names = training_flags()
    assert len(names) == len(set(names))
