"""Every argument of `Seq2SeqTrainingArguments`: taken with its meaning, or answered with one sentence."""

import dataclasses
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import Seq2SeqTrainingArguments, TrainerState

from studio.errors import ConfigError
from studio.options.arguments import options_given, parse_training_arguments, read_config
from studio.options.training import TrainingConfig
from studio.training.adapters import Precision
from studio.training.schedule import Schedule
from studio.training.trainer_arguments import training_arguments

FIELDS = {f.name: f for f in dataclasses.fields(Seq2SeqTrainingArguments)}

TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "output_dir": ("out", {"output_dir": "out"}),
    "per_device_train_batch_size": ("3", {"per_device_train_batch_size": 3}),
    "num_train_epochs": ("2.5", {"num_train_epochs": 2.5}),
    "max_steps": ("7", {"max_steps": 7}),
    "learning_rate": ("1e-4", {"learning_rate": 1e-4}),
    "lr_scheduler_type": ("cosine", {"lr_scheduler_type": "cosine"}),
    "lr_scheduler_kwargs": ("{}", {"lr_scheduler_kwargs": "{}"}),
    "warmup_steps": ("500", {"warmup_steps": 500}),
    "optim": ("adafactor", {"optim": "adafactor"}),
    "weight_decay": ("0.01", {"weight_decay": 0.01}),
    "adam_beta1": ("0.8", {"adam_beta1": 0.8}),
    "adam_beta2": ("0.98", {"adam_beta2": 0.98}),
    "adam_epsilon": ("1e-6", {"adam_epsilon": 1e-6}),
    "gradient_accumulation_steps": ("2", {"gradient_accumulation_steps": 2}),
    "max_grad_norm": ("0.5", {"max_grad_norm": 0.5}),
    "label_smoothing_factor": ("0.1", {"label_smoothing_factor": 0.1}),
    "bf16": ("True", {"precision": "bf16"}),
    "fp16": ("True", {"precision": "fp16"}),
    "gradient_checkpointing": ("True", {"gradient_checkpointing": True}),
    "activation_checkpointing": ("True", {"gradient_checkpointing": True}),
    "gradient_checkpointing_kwargs": ('{"use_reentrant": true}', {"use_reentrant": "true"}),
    "activation_checkpointing_kwargs": ('{"use_reentrant": false}', {"use_reentrant": "false"}),
    "torch_compile": ("True", {"torch_compile": True}),
    "torch_compile_backend": ("inductor", {"torch_compile": True}),
    "torch_compile_mode": ("default", {"torch_compile": True}),
    "logging_steps": ("50", {"logging_steps": 50}),
    "report_to": ("wandb", {"report_to": "wandb"}),
    "run_name": ("mine", {"run_name": "mine"}),
    "project": ("speech", {"project": "speech"}),
    "eval_strategy": ("steps", {"eval_strategy": "steps"}),
    "eval_steps": ("10", {"eval_steps": 10, "eval_strategy": "steps"}),
    "eval_delay": ("2", {"eval_delay": 2.0}),
    "eval_on_start": ("True", {"eval_on_start": True}),
    "per_device_eval_batch_size": ("3", {"per_device_eval_batch_size": 3}),
    "save_strategy": ("epoch", {"save_steps": 0}),
    "save_steps": ("10", {"save_steps": 10}),
    "save_total_limit": ("3", {"save_total_limit": 3}),
    "metric_for_best_model": ("eval_cer", {"metric_for_best_model": "cer"}),
    "seed": ("1", {"seed": 1}),
    "dataloader_num_workers": ("2", {"dataloader_num_workers": 2}),
    "ddp_timeout": ("60", {"ddp_timeout": 60}),
    "generation_max_length": ("100", {"generation_max_length": 100}),
    "generation_num_beams": ("2", {"generation_num_beams": 2}),
}
"""Argument, its value, and what becomes of it."""

SAID: dict[str, tuple[str, str]] = {
    "average_tokens_across_devices": ("False", "mean over all tokens"),
    "bf16_full_eval": ("True", "evaluation computes as training does"),
    "fp16_full_eval": ("True", "evaluation computes as training does"),
    "tf32": ("True", "the studio decides it"),
    "use_liger_kernel": ("True", "loss_chunk_size"),
    "liger_kernel_config": ('{"rope":true}', "loss_chunk_size"),
    "use_cache": ("True", "where text is written"),
    "torch_empty_cache_steps": ("4", "used by the next"),
    "auto_find_batch_size": ("True", "tries again with a smaller batch"),
    "logging_strategy": ("epoch", "set logging_steps"),
    "logging_first_step": ("True", "set logging_steps"),
    "log_on_each_node": ("False", "machine 0"),
    "logging_nan_inf_filter": ("False", "ends the run"),
    "include_num_input_tokens_seen": ("all", "clips are counted"),
    "log_level": ("info", "runs log ID"),
    "log_level_replica": ("info", "runs log ID"),
    "disable_tqdm": ("True", "the run's events"),
    "trackio_space_id": ("me/space", "on this machine"),
    "trackio_bucket_id": ("me/bucket", "on this machine"),
    "trackio_static_space_id": ("me/space", "on this machine"),
    "eval_do_concat_batches": ("False", "counts the errors of each batch"),
    "eval_use_gather_object": ("True", "counts the errors of each batch"),
    "eval_accumulation_steps": ("4", "counts the errors of each batch"),
    "include_for_metrics": ("inputs", "counts the errors of each batch"),
    "batch_eval_metrics": ("True", "counts the errors of each batch"),
    "save_only_model": ("True", "resumed from"),
    "save_on_each_node": ("True", "machine 0"),
    "enable_jit_checkpoint": ("True", "always saves a checkpoint"),
    "push_to_hub": ("True", "on this machine"),
    "hub_token": ("secret", "on this machine"),
    "hub_private_repo": ("True", "on this machine"),
    "hub_model_id": ("me/model", "on this machine"),
    "hub_strategy": ("end", "on this machine"),
    "hub_always_push": ("True", "on this machine"),
    "hub_revision": ("dev", "on this machine"),
    "load_best_model_at_end": ("True", "best checkpoint"),
    "greater_is_better": ("True", "to be small"),
    "ignore_data_skip": ("True", "has not seen"),
    "restore_callback_states_from_checkpoint": ("True", "always so"),
    "full_determinism": ("True", "seed decides"),
    "data_seed": ("3", "seed decides"),
    "use_cpu": ("True", "where there is one"),
    "accelerator_config": ('{"split_batches":true}', "per_device_train_batch_size"),
    "parallelism_config": ("{}", "num_processes and sharding"),
    "dataloader_drop_last": ("True", "no clip is dropped"),
    "dataloader_pin_memory": ("False", "where there is a GPU"),
    "dataloader_persistent_workers": ("True", "each epoch"),
    "dataloader_prefetch_factor": ("4", "the studio decides it"),
    "dataloader_multiprocessing_context": ("spawn", "the studio decides it"),
    "dataloader_in_order": ("False", "order of the seed"),
    "remove_unused_columns": ("False", "stay where they are"),
    "label_names": ("targets", "the studio decides it"),
    "train_sampling_strategy": ("group_by_length", "short_audio"),
    "length_column_name": ("seconds", "short_audio"),
    "ddp_find_unused_parameters": ("True", "the studio decides it"),
    "ddp_bucket_cap_mb": ("25", "the studio decides it"),
    "ddp_broadcast_buffers": ("True", "the studio decides it"),
    "ddp_static_graph": ("True", "the studio decides it"),
    "ddp_backend": ("mpi", "nccl is taken"),
    "fsdp": ("full_shard", "num_processes and sharding"),
    "fsdp_config": ("fsdp.json", "num_processes and sharding"),
    "deepspeed": ("ds.json", "num_processes and sharding"),
    "debug": ("underflow_overflow", "runs log ID"),
    "skip_memory_metrics": ("False", "always measured"),
    "do_eval": ("True", "set eval_strategy"),
    "do_predict": ("True", "python -m studio evaluate"),
    "local_rank": ("1", "set num_processes"),
    "sortish_sampler": ("True", "short_audio"),
    "predict_with_generate": ("True", "always generates"),
    "generation_config": ("gen.json", "generation_num_beams"),
}
"""Argument that changes nothing here, a value that asks for something, and what is said of it."""

REFUSED: dict[str, tuple[str, str]] = {
    "optim_args": ("foreach=True", "give adam_beta1, adam_beta2, adam_epsilon"),
    "optim_target_modules": ("attn mlp", "choose method lora"),
    "neftune_noise_alpha": ("5", "noise_prob"),
    "prediction_loss_only": ("True", "eval_strategy no"),
    "do_train": ("False", "python -m studio evaluate"),
    "resume_from_checkpoint": ("checkpoint-100", "runs resume ID"),
}
"""Argument without which a run would be another, and what is said of it."""


ALWAYS = {
    *("auto_find_batch_size", "predict_with_generate", "load_best_model_at_end", "enable_jit_checkpoint"),
    *("restore_callback_states_from_checkpoint", "log_on_each_node", "logging_nan_inf_filter"),
    *("skip_memory_metrics", "tf32", "ddp_broadcast_buffers"),
}
"""Switches that change nothing either way: both are answered."""


def parsed(words: Sequence[str]) -> tuple[TrainingConfig, list[str]]:
    config, notes = parse_training_arguments(words)
    return config, [str(note) for note in notes]


def test_every_argument_is_in_one_of_the_tables() -> None:
    named = [*TAKEN, *SAID, *REFUSED]
    assert len(named) == len(set(named)) and set(named) == set(FIELDS)


@pytest.mark.parametrize("name", TAKEN)
def test_an_argument_with_a_meaning_is_taken_without_a_word(name: str) -> None:
    value, expected = TAKEN[name]
    config, notes = parsed([f"--{name}", value])
    assert {field: getattr(config, field) for field in expected} == expected
    assert notes == []


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("spelling", ["--{}={}", "--{} {}"])
def test_an_argument_that_changes_nothing_gets_one_sentence(name: str, spelling: str) -> None:
    value, said = SAID[name]
    _config, (note,) = parsed(spelling.format(name, value).split(" ", 1))
    assert note.startswith(f"--{name} has no effect here: ") and note.endswith(".")
    assert said in note and "secret" not in note


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_without_which_the_run_would_be_another_is_refused(name: str) -> None:
    value, said = REFUSED[name]
    with pytest.raises(
        ConfigError, match="is not done here, and without it the run would be another"
    ) as caught:
        parsed([f"--{name}", *value.split()])
    assert said in str(caught.value)


@pytest.mark.parametrize("name", sorted(ALWAYS))
@pytest.mark.parametrize("value", ["True", "False"])
def test_a_switch_that_changes_nothing_either_way_is_answered_either_way(name: str, value: str) -> None:
    _config, (note,) = parsed([f"--{name}", value])
    assert note.startswith(f"--{name} has no effect here: ") and SAID[name][1] in note


@pytest.mark.parametrize(
    ("words", "strategy", "count"),
    [
        ("--do_eval False", "no", 0),
        ("--do_eval False --eval_steps 5", "no", 0),
        ("--no_do_eval --eval_strategy steps", "steps", 1),
        ("--train_data a.jsonl --do_eval False", "no", 0),
        ("--do_train True", "epoch", 0),
    ],
)
def test_who_wants_no_evaluation_has_none(words: str, strategy: str, count: int) -> None:
    config, notes = parsed(words.split())
    assert (config.eval_strategy, len(notes)) == (strategy, count)


def test_a_switch_that_stands_alone_is_on() -> None:
    for name in [name for name, (value, _said) in SAID.items() if value == "True"]:
        assert len(parsed([f"--{name}"])[1]) == 1, name
        assert len(parsed([f"--{name}", "--seed", "1"])[1]) == 1, name
    for name in [name for name, (value, _said) in SAID.items() if value == "False"]:
        assert len(parsed([f"--no_{name}"])[1]) == 1, name
        assert name in ALWAYS or parsed([f"--{name}"])[1] == [], "it is on by itself"
    with pytest.raises(ConfigError, match="the run would be another"):
        parsed(["--prediction_loss_only"])


@pytest.mark.parametrize("name", sorted({*FIELDS} - {"output_dir", "do_train"} - ALWAYS))
def test_the_library_s_own_default_needs_no_word(name: str, tmp_path: Path) -> None:
    default = FIELDS[name].default
    text = "" if default is dataclasses.MISSING else getattr(default, "value", default)
    config, notes = parsed([f"--{name}={text}"])
    assert notes == []
    assert "'None'" not in str(config)
    file = tmp_path / "run.yaml"
    file.write_text(f"{name}: null\n", encoding="utf-8")
    assert read_config(file) == parsed([])[0]


OLDER = """
    --use_mps_device --half_precision_backend apex --fp16_backend apex --fp16_opt_level O2 --split_batches
    --include_inputs_for_metrics --include_tokens_per_second --jit_mode_eval --use_ipex --torchdynamo inductor
    --dispatch_batches --past_index 0 --ray_scope all --push_to_hub_model_id a --push_to_hub_organization a
    --push_to_hub_token a --no_cuda --group_by_length --logging_dir logs --overwrite_output_dir
    --save_safetensors False
"""


def test_arguments_that_older_versions_had_get_a_sentence_each() -> None:
    notes = parsed(OLDER.split())[1]
    assert len(notes) == OLDER.count("--")
    assert all("has no effect here: " in note and note.endswith(".") for note in notes)


def test_a_paged_optimizer_is_its_unpaged_counterpart_with_a_sentence() -> None:
    for paged, optim in (("paged_adamw_8bit", "adamw_bnb_8bit"), ("paged_adamw_32bit", "adamw_torch_fused")):
        config, (note,) = parsed(["--optim", paged])
        assert config.optim == optim
        assert note == f"--optim {paged} is taken for {optim}: its states stay on the GPU."


@pytest.mark.parametrize("words", ["wandb tensorboard", "wandb,tensorboard", "none wandb, tensorboard"])
def test_several_trackers_are_taken(words: str) -> None:
    config, notes = parsed(["--report_to", *words.split()])
    assert (config.report_to, config.trackers, notes) == ("wandb,tensorboard", ("wandb", "tensorboard"), [])
    assert parsed(["--use_wandb", "--use_tensorboard"])[0].report_to == config.report_to


def test_all_trackers_are_those_that_are_installed() -> None:
    installed = ",".join(name for name in ("tensorboard", "wandb", "trackio") if find_spec(name)) or "none"
    config, (note,) = parsed(["--report_to", "all"])
    assert config.report_to == installed
    assert note == f"--report_to all is taken for {installed}: those are installed here."


@pytest.mark.parametrize("words", ["mlflow", "wandb mlflow"])
def test_another_tracker_is_refused_by_its_own_name(words: str) -> None:
    with pytest.raises(ConfigError, match="must be one of none, tensorboard, wandb, trackio, got 'mlflow'"):
        parsed(["--report_to", *words.split()])


@pytest.mark.parametrize("name", ["eval_steps", "save_steps", "logging_steps"])
def test_steps_below_one_are_a_share_of_the_run(name: str) -> None:
    config = parsed([f"--{name}", "0.2"])[0]
    arguments = training_arguments(
        config, 1e-4, Schedule(6, 12), Path("out"), Precision("fp32"), "wer", "run"
    )
    state = TrainerState()
    state.compute_steps(arguments, 12)
    assert getattr(state, name) == Schedule(6, 12).interval(getattr(config, name)) == 3
    with pytest.raises(ConfigError, match=f"{name} must be a whole number, got '2.5'"):
        parsed([f"--{name}", "2.5"])
    assert repr(getattr(parsed([f"--{name}", "20"])[0], name)) == "20"


def test_evaluations_come_after_each_share() -> None:
    config = parsed(["--eval_steps", "0.3"])[0]
    assert [step for step in range(11) if Schedule(5, 10).evaluates_at(step, config)] == [3, 6, 9, 10]


@pytest.mark.parametrize("loss", ["loss", "eval_loss"])
def test_the_loss_chooses_no_checkpoint_and_that_is_said(loss: str) -> None:
    config, (note,) = parsed(["--metric_for_best_model", loss])
    assert config.metric_for_best_model == "auto"
    assert note.startswith(f"--metric_for_best_model {loss} is taken for auto: ") and "fewest errors" in note


def test_a_file_as_the_first_word_has_the_arguments(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"output_dir": "out", "learning_rate": 1e-4, "report_to": ["wandb", "tensorboard"]}')
    config, notes = parsed([str(file)])
    assert (config.output_dir, config.learning_rate, notes) == ("out", 1e-4, [])
    assert config.report_to == "wandb,tensorboard"
    assert parsed([str(file), "--output_dir", "b"])[0].output_dir == "b"
    assert options_given([str(file)]) == {"output_dir", "learning_rate", "report_to"}


def test_who_publishes_is_told_how() -> None:
    (note,) = parsed(["--push_to_hub"])[1]
    assert "python -m studio publish MODEL OWNER/NAME" in note


def test_a_list_of_trackers_in_a_file_is_those_trackers(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    lists = {"[wandb]": "wandb", "[]": "none", "none": "none", "[wandb, tensorboard]": "wandb,tensorboard"}
    for text, report_to in lists.items():
        file.write_text(f"report_to: {text}\n", encoding="utf-8")
        assert read_config(file).report_to == report_to
    assert parsed(["--report_to", "None"])[0].report_to == "none"


def test_another_compiler_is_said_to_be_the_usual_one() -> None:
    config, (note,) = parsed(["--torch_compile_backend", "aot_eager"])
    assert config.torch_compile
    assert note == "--torch_compile_backend aot_eager is not done here: the model is compiled with inductor."


@pytest.mark.parametrize(
    ("words", "steps", "said"),
    [
        ("--warmup_ratio 0.2", 0.2, []),
        ("--warmup_steps 0 --warmup_ratio 0.2", 0.2, []),
        ("--warmup_steps 50 --warmup_ratio 0.2", 50, ["--warmup_ratio has no effect here"]),
    ],
)
def test_a_warm_up_given_twice_is_the_one_in_steps(words: str, steps: float, said: list[str]) -> None:
    config, notes = parsed(words.split())
    assert config.warmup_steps == steps
    assert [note.partition(":")[0] for note in notes] == said


def test_a_switch_against_an_option_is_said() -> None:
    config, (note,) = parsed(["--fp16", "--precision", "bf16"])
    assert config.precision == "bf16"
    assert note == "precision is bf16, as given by its own name, not fp16."


def test_what_only_adamw_reads_is_refused_with_another_optimizer() -> None:
    with pytest.raises(ConfigError, match=r"adam_beta1 0\.8 is for AdamW, and optim is sgd"):
        parsed(["--optim", "sgd", "--adam_beta1", "0.8"])
