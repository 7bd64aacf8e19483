"""Flags of Whisper-Finetune's scripts that do nothing here: a sentence for each; the others are options."""

from studio.options.foreign import Foreign, switch, value

_SDPA = "attention is sdpa, which writes the same text"

INFER: dict[str, Foreign] = {
    "use_compile": switch("the model is not compiled"),
    "assistant_model_path": value("the model writes by itself, and the same text"),
    "use_flash_attention_2": switch(_SDPA),
    "use_bettertransformer": switch(_SDPA),
}
"""`infer.py`, for `transcribe`."""

EVALUATION: dict[str, Foreign] = {
    "metric": value("WER, CER and MER are always told", "cer", "wer", "mer"),
    "batch_size": value("clips are decoded in batches of the studio's own size, with the same text"),
    "num_workers": value("clips are read while the model writes"),
    "timestamps": switch("texts are compared without times"),
}
"""`evaluation.py`, for `evaluate`."""
