"""Commands of the scripts that people fine-tune Whisper with, as they stand in those scripts' READMEs."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from studio.errors import ConfigError
from studio.options.arguments import parse_training_arguments

EXAMPLE = """
    --model_name_or_path="openai/whisper-small" --dataset_name="mozilla-foundation/common_voice_11_0"
    --dataset_config_name="hi" --language="hindi" --task="transcribe" --train_split_name="train+validation"
    --eval_split_name="test" --max_steps="5000" --output_dir="./whisper-small-hi"
    --per_device_train_batch_size="16" --gradient_accumulation_steps="2" --per_device_eval_batch_size="16"
    --logging_steps="25" --learning_rate="1e-5" --warmup_steps="500" --eval_strategy="steps"
    --eval_steps="1000" --save_strategy="steps" --save_steps="1000" --generation_max_length="225"
    --preprocessing_num_workers="16" --max_duration_in_seconds="30" --text_column_name="sentence"
    --freeze_feature_encoder="False" --gradient_checkpointing --fp16 --overwrite_output_dir --do_train
    --do_eval --predict_with_generate --use_auth_token
"""
"""`run_speech_recognition_seq2seq.py` of transformers."""

DISTILLATION = """
    --model_name_or_path "./distil-large-v3-init" --teacher_model_name_or_path "openai/whisper-large-v3"
    --train_dataset_name "../common_voice_16_1_hi_pseudo_labelled+../common_voice_16_1_hi_pseudo_labelled"
    --train_split_name "train+validation" --text_column_name "sentence+sentence" --train_dataset_samples "7+4"
    --eval_dataset_name "../common_voice_16_1_hi_pseudo_labelled" --eval_split_name "test"
    --eval_text_column_name "sentence" --eval_steps 1000 --save_steps 1000 --warmup_steps 50
    --learning_rate 0.0001 --lr_scheduler_type "constant_with_warmup" --timestamp_probability 0.2
    --condition_on_prev_probability 0.2 --language "hi" --task "transcribe" --logging_steps 25
    --save_total_limit 1 --max_steps 5000 --wer_threshold 20 --per_device_train_batch_size 32
    --per_device_eval_batch_size 32 --dataloader_num_workers 8 --preprocessing_num_workers 8
    --ddp_timeout 7200 --dtype "bfloat16" --attn_implementation "sdpa" --output_dir "./" --do_train --do_eval
    --gradient_checkpointing --overwrite_output_dir --predict_with_generate --freeze_encoder
    --freeze_embed_positions --streaming False
"""
"""`run_distillation.py` of distil-whisper."""

COMMON_VOICE = "mozilla-foundation/common_voice_11_0"


def parsed(words: str) -> tuple[Any, list[str]]:
    config, notes = parse_training_arguments(shlex.split(words))
    return config, [str(note) for note in notes]


def test_the_example_of_transformers_runs_unchanged() -> None:
    config, notes = parsed(EXAMPLE)
    assert (config.base_model, config.method) == ("openai/whisper-small", "lora")
    assert config.train_data == f"{COMMON_VOICE}:hi:train+validation"
    assert config.test_data == f"{COMMON_VOICE}:hi"
    assert (config.language, config.text_column, config.max_audio_len) == ("hindi", "sentence", 30)
    assert (config.max_steps, config.eval_steps, config.save_steps) == (5000, 1000, 1000)
    assert (config.precision, config.gradient_checkpointing) == ("fp16", True)
    assert [note.split()[0] for note in notes] == [
        *("--preprocessing_num_workers", "--overwrite_output_dir"),
        *("--predict_with_generate", "This", "Texts"),
    ]
    assert "--method full" in notes[-2] and "--do_lower_case" in notes[-1]


@pytest.mark.parametrize(
    ("words", "train_data", "test_data"),
    [
        ("", "a/b", ""),
        ("--do_eval", "a/b", "a/b"),
        ("--do_eval False", "a/b", ""),
        ("--dataset_config_name zh-TW", "a/b:zh-TW", ""),
        (
            "--train_split_name train+validation --eval_split_name other",
            "a/b::train+validation",
            "a/b::other",
        ),
        ("--dataset_config_name en --train_split_name dev --do_eval", "a/b:en:dev", "a/b:en"),
        ("--validation_file mine.json --do_eval", "a/b", "mine.json"),
    ],
)
def test_a_dataset_of_the_hub_is_named_with_its_part(words: str, train_data: str, test_data: str) -> None:
    config = parsed(f"--dataset_name a/b {words}")[0]
    assert (config.train_data, config.test_data) == (train_data, test_data)


@pytest.mark.parametrize(
    ("words", "train_data", "test_data"),
    [
        ("", "{}", ""),
        ("--train_split_name train+test --eval_split_name test", "{}::train+test", "{}::test"),
        ("--train_split_name test --do_eval", "{}::test", "{}::test"),
        ("--train_split_name train --test_data mine.json", "{}", "mine.json"),
        ("--dataset_config_name en --eval_split_name dev", "{}/en", "{}/en::dev"),
        ("--dataset_config_name default --train_split_name test", "{}::test", ""),
    ],
)
def test_a_folder_is_named_with_its_part(words: str, train_data: str, test_data: str, tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    config, notes = parsed(f"--dataset_name {tmp_path} {words}")
    assert (config.train_data, config.test_data) == (train_data.format(tmp_path), test_data.format(tmp_path))
    assert notes == []
    with pytest.raises(ConfigError, match=f"no folder 'hi' in {tmp_path}, which dataset_config_name asks"):
        parsed(f"--dataset_name {tmp_path} --dataset_config_name hi")


def test_on_a_space_only_its_own_folder_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("home/data/hi", "owner/hi"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("SPACE_ID", "ada/studio")
    monkeypatch.setenv("STUDIO_HOME", str(tmp_path / "home"))
    asked = "--dataset_name {} --dataset_config_name hi"
    config, _ = parsed(asked.format(tmp_path / "home" / "data"))
    assert config.train_data == str(tmp_path / "home" / "data" / "hi")
    for folder in ("owner", "home/../owner", "nothing"):
        config, _ = parsed(asked.format(tmp_path / folder))
        assert config.train_data == f"{tmp_path / folder}:hi"
    told = set()
    for part in ("../../owner/hi", "../../owner/no"):
        with pytest.raises(ConfigError) as caught:
            parsed(f"--dataset_name {tmp_path}/home/data --dataset_config_name {part}")
        told.add(str(caught.value).replace(part, "…"))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("words", "train_data", "test_data"),
    [
        (
            "a/b --dataset_config_name hi --train_split_name dev --eval_split_name test",
            "a/b:hi:dev",
            "a/b:hi",
        ),
        ("a/b:hi --eval_split_name dev", "a/b:hi", "a/b:hi:dev"),
        ("a/b::dev --dataset_config_name hi --eval_split_name test", "a/b:hi:dev", "a/b:hi"),
        ("{} --train_split_name test --eval_split_name validation", "{}::test", "{}::validation"),
    ],
)
def test_training_data_with_parts_may_be_named_by_its_own_name(
    words: str, train_data: str, test_data: str, tmp_path: Path
) -> None:
    config, notes = parsed(f"--train_data {words.format(tmp_path)}")
    assert (config.train_data, config.test_data) == (train_data.format(tmp_path), test_data.format(tmp_path))
    assert notes == []


@pytest.mark.parametrize("source", ["a.jsonl", "demo", "a/b,c/d", "/nowhere/clips"])
def test_a_part_of_a_list_that_has_none_is_answered(source: str) -> None:
    flags = ("dataset_config_name", "train_split_name", "eval_split_name")
    config, notes = parsed(f"--train_data {source} " + " ".join(f"--{flag} hi" for flag in flags))
    assert (config.train_data, config.test_data) == (source, "")
    assert [note.partition(" ")[0] for note in notes] == [f"--{flag}" for flag in flags]
    assert all("no single folder or dataset of the hub" in note for note in notes)
    (note,) = parsed("--dataset_name a/b --test_data c.json --eval_split_name test")[1]
    assert note == "--eval_split_name has no effect here: test_data is given, too."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--train_data a/b:hi --dataset_config_name sv", "cannot be combined with train_data a/b:hi"),
        ("--train_data a/b::dev --train_split_name test", "cannot be combined with train_data a/b::dev"),
        (
            "--dataset_config_name hi",
            "--dataset_config_name belongs to a dataset of the hub",
        ),
        ("--dataset_name a/b --train_data c.json", "cannot be combined with train_data c.json"),
        ("--model_revision v2", "download that revision, and give its folder as base_model"),
        (
            "--tokenizer_name openai/whisper-tiny --base_model mine",
            "a model's own configuration and tokenizer",
        ),
        ("--feature_extractor_name other", "a model's own configuration and tokenizer are used"),
        ("--config_name other", "a model's own configuration and tokenizer are used"),
        ("--preprocessing_only", "python -m studio check-data"),
        ("--do_remove_punctuation True", "set normalizer to basic"),
        ("--do_lower_case --do_remove_punctuation", "set normalizer to basic"),
        ("--max_label_length 128", "left out with its reason"),
        ("--freeze_decoder", "target_modules"),
    ],
)
def test_what_cannot_be_left_out_is_refused(words: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(words)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--do_lower_case", {"normalizer": "lowercase"}),
        ("--do_lower_case False", {"normalizer": "none"}),
        ("--text_column_name ipa --audio_column_name wav", {"text_column": "ipa", "audio_column": "wav"}),
        ("--text_column_name None", {"text_column": ""}),
        ("--max_duration_in_seconds 20", {"max_audio_len": 20}),
        ("--min_duration_in_seconds 1", {"min_audio_len": 1}),
        ("--freeze_encoder", {"method": "frozen_encoder"}),
        (
            "--apply_spec_augment True --mask_time_prob 0.1",
            {"apply_spec_augment": True, "mask_time_prob": 0.1},
        ),
        ("--return_timestamps", {"timestamps": True}),
        ("--tokenizer_name a/b --model_name_or_path a/b --model_revision main", {"base_model": "a/b"}),
        ("--use_fast_tokenizer True --token None --suppress_tokens [] --wandb_dir ./wandb", {}),
    ],
)
def test_a_flag_of_the_example_is_taken_without_a_word(words: str, expected: dict[str, Any]) -> None:
    config, notes = parsed(words)
    assert {name: getattr(config, name) for name in expected} == expected
    assert notes == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--use_fast_tokenizer False", "the same tokens"),
        ("--token hf_secret", "hf auth login"),
        ("--use_auth_token hf_secret", "hf auth login"),
        ("--forced_decoder_ids 1,2", "set language and task"),
        ("--suppress_tokens 1 2 3", "transcribe has --suppress_tokens"),
        ("--overwrite_cache", "copied to the cache"),
        ("--streaming", "copied to the cache"),
        ("--freeze_feature_encoder", "frozen_encoder"),
        ("--freeze_embed_positions", "methods full and frozen_encoder"),
        ("--dataset_cache_dir x", "set cache_dir"),
        ("--preprocessing_batch_size 8", "dataloader_num_workers"),
        ("--wandb_name mine", "set run_name"),
    ],
)
def test_a_flag_of_a_script_that_changes_nothing_gets_one_sentence(words: str, said: str) -> None:
    _config, (note,) = parsed(words)
    assert note.startswith(f"{words.split()[0]} has no effect here: ")
    assert said in note and "secret" not in note


def test_a_smaller_student_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"is not done here, .* no smaller student is distilled"):
        parsed(DISTILLATION)
    for words in ("--kl_weight 1.0", "--temperature 2.0", "--wer_threshold 10", "--use_pseudo_labels"):
        with pytest.raises(ConfigError, match=r"is not done here, .* no smaller student is distilled"):
            parsed(words)


def test_who_says_how_to_train_is_not_told_again() -> None:
    for words in ("--method full", "--lora_r 8", "--freeze_encoder", "--use_8bit"):
        notes = parsed(f"--base_model tiny --dataset_name a/b --do_lower_case {words}")[1]
        assert notes == []
