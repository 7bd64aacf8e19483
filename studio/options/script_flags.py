"""Flags of scripts for Whisper that are no options here: a sentence for each.

The scripts: `run_speech_recognition_seq2seq.py` of transformers, its relatives of the Whisper event, and
distil-whisper's `run_distillation.py`. Those with a meaning are in `TrainingConfig` or in
`studio.options.dialects`.
"""

from studio.options.foreign import Foreign, refused, switch, value
from studio.whisper.constants import TEXT_POSITIONS

_COPIED = "a dataset of the hub is copied to the cache once, and again when the hub has a newer one"
_PREPARED = "features are made while training; set dataloader_num_workers"
_LOGIN = "log in to the hub once with hf auth login"
_STUDENT = (
    "no smaller student is distilled from a teacher; train the student itself as base_model, with the "
    "teacher's texts as train_data (--distill only makes a model quicker on short clips)"
)
_MASKED = "set mask_time_prob and mask_feature_prob with apply_spec_augment"

SCRIPTS: dict[str, Foreign] = {
    # the model
    "model_revision": refused("download that revision, and give its folder as base_model", "main"),
    "subfolder": refused("download it, and give the folder as base_model"),
    "use_fast_tokenizer": switch("both kinds write the same tokens", usual=True),
    "token": value(_LOGIN),
    "use_auth_token": value(_LOGIN, "true"),
    "trust_remote_code": switch("code from a model repository is never run"),
    "freeze_feature_encoder": switch("set method to frozen_encoder to train the decoder alone"),
    "freeze_decoder": refused("set target_modules for the layers of a LoRA", is_switch=True),
    "freeze_embed_positions": switch("positions are trained by methods full and frozen_encoder only"),
    "forced_decoder_ids": value("set language and task"),
    "suppress_tokens": value("training shows every token; transcribe has --suppress_tokens", "[]"),
    # the data
    "overwrite_cache": switch(_COPIED),
    "streaming": switch(_COPIED),
    "dataset_cache_dir": value("set cache_dir"),
    "shuffle_buffer_size": value("all clips are shuffled"),
    "preprocessing_num_workers": value(_PREPARED),
    "preprocessing_batch_size": value(_PREPARED, "256"),
    "preprocessing_only": refused(
        "nothing is prepared beforehand: look at the clips with python -m studio check-data, or leave it out",
        is_switch=True,
    ),
    "pad_target_to_multiple_of": value("texts are padded to the longest of their batch"),
    "max_label_length": refused(
        "a text that the decoder cannot take is left out with its reason", str(TEXT_POSITIONS)
    ),
    "do_remove_punctuation": refused("set normalizer to basic, or to no_punctuation", is_switch=True),
    "do_normalize_eval": switch("set normalizer, or compare with python -m studio evaluate --normalizer"),
    "mask_time_min_masks": value(_MASKED),
    "mask_feature_min_masks": value(_MASKED),
    # reports
    "wandb_name": value("set run_name"),
    "model_index_name": value("set run_name"),
    "wandb_dir": value("set the environment variable WANDB_DIR", "./wandb"),
    "save_best_total_limit": value("the best checkpoint is always kept", "1"),
    # distil-whisper
    **dict.fromkeys(
        (
            *("teacher_model_name_or_path", "train_dataset_name", "train_dataset_config_name"),
            *("train_dataset_samples", "eval_dataset_name", "eval_dataset_config_name"),
            *("eval_text_column_name", "wer_threshold", "kl_weight", "temperature", "timestamp_probability"),
        ),
        refused(_STUDENT),
    ),
    "use_pseudo_labels": refused(_STUDENT, is_switch=True),
}
"""Flag → why it does nothing here, or why a run with it is refused."""
