"""Every argument of the scripts that people have: taken with its meaning, or answered with one sentence.

Those of `Seq2SeqTrainingArguments`, which most of them take as well, are in
`tests/unit/options/test_trainer_flags.py`.
"""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from studio.cli import evaluate, export, transcribe
from studio.cli.parsing import Parser
from studio.errors import ConfigError
from studio.options.arguments import parse_training_arguments

EXAMPLE = """
    model_name_or_path config_name tokenizer_name feature_extractor_name cache_dir use_fast_tokenizer
    model_revision token use_auth_token trust_remote_code freeze_feature_encoder freeze_encoder
    forced_decoder_ids suppress_tokens apply_spec_augment dataset_name dataset_config_name text_column
    overwrite_cache preprocessing_num_workers max_train_samples max_eval_samples audio_column_name
    text_column_name max_duration_in_seconds min_duration_in_seconds preprocessing_only train_split_name
    eval_split_name do_lower_case language task
"""
"""`run_speech_recognition_seq2seq.py` of transformers, with what older versions of it had."""

STREAMING = """
    model_name_or_path config_name tokenizer_name feature_extractor_name cache_dir use_fast_tokenizer
    model_revision use_auth_token freeze_feature_encoder freeze_encoder forced_decoder_ids suppress_tokens
    model_index_name dataset_name dataset_config_name text_column max_train_samples max_eval_samples
    audio_column_name text_column_name max_duration_in_seconds min_duration_in_seconds train_split_name
    eval_split_name do_lower_case do_remove_punctuation do_normalize_eval language task shuffle_buffer_size
    streaming
"""
"""`run_speech_recognition_seq2seq_streaming.py` of the Whisper event."""

DISTILLATION = """
    model_name_or_path teacher_model_name_or_path config_name tokenizer_name feature_extractor_name cache_dir
    use_fast_tokenizer model_revision subfolder token attn_implementation train_dataset_name
    train_dataset_config_name train_dataset_samples eval_dataset_name eval_dataset_config_name
    dataset_cache_dir overwrite_cache preprocessing_num_workers preprocessing_batch_size max_train_samples
    max_eval_samples audio_column_name text_column_name eval_text_column_name max_duration_in_seconds
    min_duration_in_seconds max_label_length pad_target_to_multiple_of preprocessing_only train_split_name
    eval_split_name streaming wer_threshold use_pseudo_labels timestamp_probability
    condition_on_prev_probability return_timestamps language task wandb_project wandb_name wandb_dir
    freeze_encoder freeze_decoder freeze_embed_positions temperature kl_weight dtype save_best_total_limit
"""
"""`run_distillation.py` of distil-whisper."""

FINETUNE = """
    train_data test_data base_model output_dir warmup_steps logging_steps eval_steps save_steps num_workers
    learning_rate min_audio_len max_audio_len use_adalora fp16 use_8bit timestamps use_compile
    local_files_only num_train_epochs language task augment_config_path resume_from_checkpoint
    per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps push_to_hub
    hub_model_id save_total_limit
"""
"""`finetune.py` of Whisper-Finetune."""

TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "model_name_or_path": ("a/b", {"base_model": "a/b"}),
    "cache_dir": ("cache", {"cache_dir": "cache"}),
    "freeze_encoder": ("True", {"method": "frozen_encoder"}),
    "apply_spec_augment": ("True", {"apply_spec_augment": True}),
    "dataset_name": ("a/b", {"train_data": "a/b", "test_data": ""}),
    "dataset_config_name": ("hi --dataset_name a/b", {"train_data": "a/b:hi"}),
    "train_split_name": ("train+dev --dataset_name a/b", {"train_data": "a/b::train+dev"}),
    "eval_split_name": ("dev --dataset_name a/b", {"train_data": "a/b", "test_data": "a/b::dev"}),
    "text_column": ("said", {"text_column": "said"}),
    "max_train_samples": ("8", {"max_train_samples": 8}),
    "max_eval_samples": ("8", {"max_eval_samples": 8}),
    "audio_column_name": ("sound", {"audio_column": "sound"}),
    "text_column_name": ("said", {"text_column": "said"}),
    "max_duration_in_seconds": ("20", {"max_audio_len": 20}),
    "min_duration_in_seconds": ("1", {"min_audio_len": 1}),
    "do_lower_case": ("True", {"normalizer": "lowercase"}),
    "language": ("hindi", {"language": "hindi"}),
    "task": ("translate", {"task": "translate"}),
    # run_distillation.py
    "attn_implementation": ("eager", {"attn_implementation": "eager"}),
    "condition_on_prev_probability": ("0.1", {"condition_on_prev_probability": 0.1}),
    "return_timestamps": ("False", {"timestamps": False}),
    "wandb_project": ("speech", {"project": "speech"}),
    "dtype": ("bfloat16", {"base_dtype": "bf16"}),
    # finetune.py
    "train_data": ("a.json", {"train_data": "a.json"}),
    "test_data": ("b.json", {"test_data": "b.json"}),
    "base_model": ("a/b", {"base_model": "a/b"}),
    "output_dir": ("output/", {"output_dir": "output/"}),
    "warmup_steps": ("50", {"warmup_steps": 50}),
    "logging_steps": ("50", {"logging_steps": 50}),
    "eval_steps": ("50", {"eval_strategy": "steps", "eval_steps": 50}),
    "save_steps": ("50", {"save_steps": 50}),
    "num_workers": ("2", {"dataloader_num_workers": 2}),
    "learning_rate": ("1e-4", {"learning_rate": 1e-4}),
    "min_audio_len": ("1", {"min_audio_len": 1}),
    "max_audio_len": ("20", {"max_audio_len": 20}),
    "use_adalora": ("True", {"method": "adalora"}),
    "fp16": ("True", {"precision": "fp16"}),
    "use_8bit": ("True", {"quantization": "8bit"}),
    "timestamps": ("False", {"timestamps": False}),
    "use_compile": ("True", {"torch_compile": True}),
    "local_files_only": ("True", {"local_files_only": True}),
    "num_train_epochs": ("2", {"num_train_epochs": 2}),
    "augment_config_path": ("a.json", {"augment_config_path": "a.json"}),
    "per_device_train_batch_size": ("2", {"per_device_train_batch_size": 2}),
    "per_device_eval_batch_size": ("2", {"per_device_eval_batch_size": 2}),
    "gradient_accumulation_steps": ("2", {"gradient_accumulation_steps": 2}),
    "save_total_limit": ("5", {"save_total_limit": 5}),
}
"""Argument, the words behind it, and what becomes of it."""

SAID: dict[str, tuple[str, str]] = {
    "use_fast_tokenizer": ("False", "the same tokens"),
    "token": ("hf_secret", "hf auth login"),
    "use_auth_token": ("hf_secret", "hf auth login"),
    "trust_remote_code": ("True", "never run"),
    "freeze_feature_encoder": ("True", "frozen_encoder"),
    "forced_decoder_ids": ("1,2", "set language and task"),
    "suppress_tokens": ("1 2", "transcribe has --suppress_tokens"),
    "model_index_name": ("Mine", "set run_name"),
    "overwrite_cache": ("True", "copied to the cache"),
    "preprocessing_num_workers": ("8", "dataloader_num_workers"),
    "do_normalize_eval": ("True", "set normalizer"),
    "shuffle_buffer_size": ("500", "all clips are shuffled"),
    "streaming": ("True", "copied to the cache"),
    "dataset_cache_dir": ("x", "set cache_dir"),
    "preprocessing_batch_size": ("8", "dataloader_num_workers"),
    "pad_target_to_multiple_of": ("8", "the longest of their batch"),
    "wandb_name": ("mine", "set run_name"),
    "wandb_dir": ("logs", "WANDB_DIR"),
    "freeze_embed_positions": ("True", "methods full and frozen_encoder"),
    "save_best_total_limit": ("2", "always kept"),
    "push_to_hub": ("True", "stays on this machine"),
    "hub_model_id": ("me/mine", "stays on this machine"),
}
"""Argument that changes nothing here, and what is said of it."""

STUDENT = "no smaller student is distilled"
REFUSED: dict[str, tuple[str, str]] = {
    "config_name": ("other", "a model's own configuration"),
    "tokenizer_name": ("other", "a model's own configuration"),
    "feature_extractor_name": ("other", "a model's own configuration"),
    "model_revision": ("v2", "give its folder as base_model"),
    "subfolder": ("student", "give the folder as base_model"),
    "preprocessing_only": ("True", "python -m studio check-data"),
    "do_remove_punctuation": ("True", "set normalizer"),
    "max_label_length": ("128", "left out with its reason"),
    "freeze_decoder": ("True", "target_modules"),
    "resume_from_checkpoint": ("output/checkpoint-100", "runs resume ID"),
    "teacher_model_name_or_path": ("openai/whisper-large-v3", STUDENT),
    "train_dataset_name": ("a/b+c/d", STUDENT),
    "train_dataset_config_name": ("hi+sv", STUDENT),
    "train_dataset_samples": ("7+4", STUDENT),
    "eval_dataset_name": ("a/b", STUDENT),
    "eval_dataset_config_name": ("hi", STUDENT),
    "eval_text_column_name": ("sentence", STUDENT),
    "wer_threshold": ("20", STUDENT),
    "use_pseudo_labels": ("True", STUDENT),
    "timestamp_probability": ("0.2", STUDENT),
    "temperature": ("2.0", STUDENT),
    "kl_weight": ("1.0", STUDENT),
}
"""Argument without which a run would be another, and what is said of it."""


def test_every_argument_of_the_training_scripts_is_in_one_of_the_tables() -> None:
    named = [*TAKEN, *SAID, *REFUSED]
    assert len(named) == len(set(named))
    assert set(named) == {
        name for script in (EXAMPLE, STREAMING, DISTILLATION, FINETUNE) for name in script.split()
    }


@pytest.mark.parametrize("name", TAKEN)
def test_an_argument_with_a_meaning_is_taken_without_a_word(name: str) -> None:
    words, expected = TAKEN[name]
    config, notes = parse_training_arguments([f"--{name}", *words.split()])
    assert {field: getattr(config, field) for field in expected} == expected
    assert notes == []


@pytest.mark.parametrize("name", SAID)
def test_an_argument_that_changes_nothing_gets_one_sentence(name: str) -> None:
    words, said = SAID[name]
    config, (note,) = parse_training_arguments([f"--{name}", *words.split()])
    assert config == parse_training_arguments([])[0]
    assert re.fullmatch(rf"--{name} has no effect here: .*{re.escape(said)}.*", str(note))
    assert "secret" not in str(note)


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_without_which_the_run_would_be_another_is_refused(name: str) -> None:
    words, said = REFUSED[name]
    with pytest.raises(ConfigError, match="without it the run would be another") as caught:
        parse_training_arguments([f"--{name}", *words.split()])
    assert said in str(caught.value)


EVALUATION = """
    test_data model_path batch_size num_workers language remove_pun to_simple timestamps min_audio_len
    max_audio_len local_files_only task metric
"""
LEADERBOARD = """
    model_id dataset_path dataset config split device batch_size max_eval_samples streaming no-streaming
    warmup_steps torch_compile language
"""
"""`run_eval.py` of the Open ASR Leaderboard, and what `run_eval_whisper_streaming.py` has beside it."""
INFER = """
    audio_path model_path use_gpu language num_beams batch_size use_compile task assistant_model_path
    local_files_only use_flash_attention_2 use_bettertransformer
"""
WHISPER = """
    model model_dir device output_dir o output_format f verbose task language temperature best_of beam_size
    patience length_penalty suppress_tokens initial_prompt carry_initial_prompt condition_on_previous_text
    fp16 temperature_increment_on_fallback compression_ratio_threshold logprob_threshold no_speech_threshold
    word_timestamps prepend_punctuations append_punctuations highlight_words max_line_width max_line_count
    max_words_per_line threads clip_timestamps hallucination_silence_threshold
"""
"""`whisper` of openai-whisper."""
WHISPER_CTRANSLATE2 = """
    batched batch_size compute_type device_index hotwords local_files_only model_directory multilingual
    no_repeat_ngram_size pretty_json print_colors repetition_penalty vad_filter vad_max_speech_duration_s
    vad_min_silence_duration_ms vad_min_speech_duration_ms vad_threshold
"""
"""What `whisper-ctranslate2` has beside them."""
MERGE = "lora_model output_dir local_files_only"
"""`evaluation.py`, `infer.py` and `merge_lora.py` of Whisper-Finetune."""

COMMANDS: dict[str, tuple[Parser, str, dict[str, tuple[str, dict[str, Any] | str]]]] = {
    "evaluate": (
        evaluate.parser(),
        EVALUATION,
        {
            "test_data": ("a.json", {"data": "a.json"}),
            "model_path": ("mine", {"models": "mine"}),
            "batch_size": ("16", "decoded in batches"),
            "num_workers": ("8", "while the model writes"),
            "language": ("Chinese", {"language": "Chinese"}),
            "remove_pun": ("True", {"remove_pun": True, "to_simple": False}),
            "to_simple": ("False", {"to_simple": False}),
            "timestamps": ("True", "without times"),
            "min_audio_len": ("0.5", {"min_audio_len": 0.5, "max_audio_len": math.inf}),
            "max_audio_len": ("30", {"max_audio_len": 30}),
            "local_files_only": ("True", {"local_files_only": True}),
            "task": ("translate", {"task": "translate"}),
            "metric": ("cer", {"metric": "cer"}),
        },
    ),
    "evaluate, as the leaderboard": (
        evaluate.parser(),
        LEADERBOARD,
        {
            "model_id": ("openai/whisper-tiny", {"models": "openai/whisper-tiny"}),
            "dataset_path": ("hf-audio/esb", {"dataset_path": "hf-audio/esb"}),
            "dataset": ("ami", {"dataset": "ami"}),
            "config": ("hi", {"config": "hi"}),
            "split": ("validation", {"split": "validation"}),
            "device": ("1", "CUDA_VISIBLE_DEVICES"),
            "batch_size": ("16", "decoded in batches"),
            "max_eval_samples": ("64", {"max_samples": 64}),
            "streaming": ("False", "copied to the cache"),
            "no-streaming": ("True", "copied to the cache"),
            "warmup_steps": ("2", "heard once"),
            "torch_compile": ("True", "not compiled"),
            "language": ("hi", {"language": "hi"}),
        },
    ),
    "transcribe": (
        transcribe.parser(),
        INFER,
        {
            "audio_path": ("a.wav", {"audio_path": Path("a.wav")}),
            "model_path": ("mine", {"model": "mine"}),
            "use_gpu": ("False", {"use_gpu": False}),
            "language": ("chinese", {"language": "chinese"}),
            "num_beams": ("2", {"num_beams": 2}),
            "batch_size": ("16", {"batch_size": 16}),
            "use_compile": ("True", "not compiled"),
            "task": ("translate", {"task": "translate"}),
            "assistant_model_path": ("tiny", "by itself"),
            "local_files_only": ("True", {"local_files_only": True}),
            "use_flash_attention_2": ("True", "sdpa"),
            "use_bettertransformer": ("True", "sdpa"),
        },
    ),
    "transcribe, as whisper": (
        transcribe.parser(),
        WHISPER,
        {
            "model": ("small", {"model": "small"}),
            "model_dir": ("~/.cache/whisper", "HF_HOME"),
            "device": ("cuda", {"device": "cuda"}),
            "output_dir": ("texts", {"output_dir": Path("texts")}),
            "o": ("texts", {"output_dir": Path("texts")}),
            "output_format": ("srt", {"output_format": "srt"}),
            "f": ("all", {"output_format": "all"}),
            "verbose": ("False", "unless files are written"),
            "task": ("translate", {"task": "translate"}),
            "language": ("English", {"language": "English"}),
            "temperature": ("0.2", {"temperature": "0.2"}),
            "best_of": ("5", "one text is sampled"),
            "beam_size": ("5", {"num_beams": 5}),
            "patience": ("2.0", "as many texts as beams"),
            "length_penalty": ("0.5", "per token"),
            "suppress_tokens": ("1,2", {"suppress_tokens": "1,2"}),
            "initial_prompt": ("Glockenspiel", {"initial_prompt": "Glockenspiel"}),
            "carry_initial_prompt": ("True", "--hotwords"),
            "condition_on_previous_text": ("False", {"condition_on_prev_tokens": False}),
            "fp16": ("False", {"fp16": False}),
            "temperature_increment_on_fallback": ("None", {"temperature_increment_on_fallback": math.inf}),
            "compression_ratio_threshold": ("2.0", {"compression_ratio_threshold": 2.0}),
            "logprob_threshold": ("-2.0", {"logprob_threshold": -2.0}),
            "no_speech_threshold": ("0.5", {"no_speech_threshold": 0.5}),
            "word_timestamps": ("True", {"word_timestamps": True}),
            "prepend_punctuations": ("(", "goes with the word"),
            "append_punctuations": (")", "goes with the word"),
            "highlight_words": ("True", "captions mark no words"),
            "max_line_width": ("30", {"max_line_width": 30}),
            "max_line_count": ("1", {"max_line_count": 1}),
            "max_words_per_line": ("5", "--max_line_width"),
            "threads": ("2", {"threads": 2}),
            "clip_timestamps": ("10,20", "transcribed whole"),
            "hallucination_silence_threshold": ("2.0", "--vad"),
        },
    ),
    "transcribe, as whisper-ctranslate2": (
        transcribe.parser(),
        WHISPER_CTRANSLATE2,
        {
            "batched": ("True", "--batch_size"),
            "batch_size": ("16", {"batch_size": 16}),
            "compute_type": ("int8", {"compute_type": "int8"}),
            "device_index": ("1", "CUDA_VISIBLE_DEVICES"),
            "hotwords": ("Ada", {"hotwords": "Ada"}),
            "local_files_only": ("True", {"local_files_only": True}),
            "model_directory": ("mine", {"model": "mine"}),
            "multilingual": ("True", "in its own language"),
            "no_repeat_ngram_size": ("3", "searched again"),
            "pretty_json": ("True", "as it is"),
            "print_colors": ("True", "probability of each word"),
            "repetition_penalty": ("1.1", "searched again"),
            "vad_filter": ("True", {"vad": True}),
            "vad_max_speech_duration_s": ("20", "own bounds"),
            "vad_min_silence_duration_ms": ("500", "own bounds"),
            "vad_min_speech_duration_ms": ("250", "own bounds"),
            "vad_threshold": ("0.6", "own bounds"),
        },
    ),
    "export": (
        export.parser(),
        MERGE,
        {
            "lora_model": ("output/checkpoint-best", {"lora_model": "output/checkpoint-best"}),
            "output_dir": ("models/", {"output_dir": Path("models")}),
            "local_files_only": ("True", {"local_files_only": True}),
        },
    ),
}
"""Command, its parser, the script's arguments, and each with a value and what becomes of it or is said."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("spelling", ["{}={}", "{} {}"])
def test_every_argument_of_a_script_is_taken_by_the_command_or_answered(
    command: str, spelling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser, script, table = COMMANDS[command]
    assert list(table) == script.split()
    for name, (value, expected) in table.items():
        option = f"--{name}" if name[1:] else f"-{name}"
        given = parser.read(spelling.format(option, value).split())
        said = capsys.readouterr().err
        if isinstance(expected, str):
            said_first = f"--{name.replace('-', '_')} {value} has no effect here: "
            assert said.startswith(said_first) and expected in said
        else:
            assert {key: getattr(given, key) for key in expected} == expected and said == ""
