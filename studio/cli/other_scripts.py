"""Flags of other programs that do nothing here: a sentence for each; the others are options."""

from studio.options.foreign import Foreign, switch, value

_COPIED = "the dataset is copied to the cache"
_NOT_COMPILED = "the model is not compiled"
_SDPA = "attention is sdpa, which writes the same text"

INFER: dict[str, Foreign] = {
    "use_compile": switch(_NOT_COMPILED),
    "assistant_model_path": value("the model writes by itself, and the same text"),
    "use_flash_attention_2": switch(_SDPA),
    "use_bettertransformer": switch(_SDPA),
}
"""`infer.py` of Whisper-Finetune, for `transcribe`."""

EVALUATION: dict[str, Foreign] = {
    "metric": value("WER, CER and MER are always told", "cer", "wer", "mer"),
    "batch_size": value("clips are decoded in batches of the studio's own size, with the same text"),
    "num_workers": value("clips are read while the model writes"),
    "timestamps": switch("texts are compared without times"),
    "device": value("a GPU is used if there is one, and CUDA_VISIBLE_DEVICES says which", "0", "auto"),
    "streaming": switch(_COPIED, usual=True),
    "no_streaming": switch(_COPIED),
    "torch_compile": switch(_NOT_COMPILED),
    "warmup_steps": value("each clip is heard once"),
}
"""`evaluation.py` of Whisper-Finetune, `run_eval_whisper_streaming.py` of the Whisper event and `run_eval.py`
of the Open ASR Leaderboard, for `evaluate`."""
