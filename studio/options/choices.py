"""Words that an option may be, and what they are called: value → English label."""

from studio.chinese import SIMPLIFIED, TAIWAN, TRADITIONAL
from studio.methods import METHODS

METHOD_LABELS = {key: method.label for key, method in METHODS.items()}
ADAPTERS = ", ".join(key for key, method in METHODS.items() if method.is_adapter)
"""Methods that make an adapter, for sentences."""
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
"""The linear layers of Whisper, which may get an adapter."""
QUANTIZATIONS = {"none": "None", "8bit": "8 bits", "4bit": "4 bits"}
BITS = {"int8": "8bit", "int4": "4bit"}
"""Precision of the engine transformers → what training calls it; both of bitsandbytes."""
TRANSFORMERS = "transformers"
FASTER_WHISPER = "faster-whisper"
_FLOATS = ("float32", "float16", "bfloat16")
ENGINES = {
    TRANSFORMERS: (*_FLOATS, *BITS),
    FASTER_WHISPER: (*_FLOATS, "int8", "int8_float32", "int8_float16"),
}
"""Engine → what its weights may be held in; which of them a machine can do, its engine knows."""
DTYPES = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16"}
PRECISIONS = {**DTYPES, "pure_bf16": "bf16 throughout"}
ATTENTIONS = {name: name for name in ("sdpa", "flash_attention_2", "eager")}
OPTIMIZERS = {
    "adamw_torch_fused": "AdamW",
    "adamw_torch": "AdamW (foreach)",
    "adamw_bnb_8bit": "AdamW, states in 8 bits",
    "adafactor": "Adafactor",
    "sgd": "SGD",
}
SHARDINGS = {
    "ddp": "DDP: no sharding",
    "zero1": "ZeRO-1: optimizer states",
    "zero2": "ZeRO-2: and gradients",
    "zero3": "ZeRO-3: and weights",
    "fsdp": "FSDP: all, as ZeRO-3",
}
TASKS = {"transcribe": "Transcribe", "translate": "Translate to English"}
TIMESTAMPS = {"none": "None", "segment": "By segment", "word": "By word"}
AUDIO_CONTEXTS = {"auto": "As trained", "full": "30 seconds", "short": "Audio length"}
CHINESE_SCRIPTS = {
    "auto": "One script",
    "as_heard": "As transcribed",
    SIMPLIFIED: "Simplified",
    TRADITIONAL: "Traditional",
    TAIWAN: "Traditional, Taiwan",
}
NORMALIZERS = {
    "none": "None",
    "lowercase": "Lower case",
    "basic": "Basic (case and punctuation)",
    "whisper_basic": "Whisper's basic (splits words at vowel signs)",
    "english": "Whisper's English (two = 2, it's = it is)",
    "chinese": "Chinese (simplified, no punctuation)",
    "no_punctuation": "No punctuation",
}
SCHEDULERS = {
    "linear": "Linear",
    "cosine": "Cosine",
    "cosine_with_restarts": "Cosine with restarts",
    "cosine_with_min_lr": "Cosine with minimum learning rate",
    "cosine_warmup_with_min_lr": "Cosine and warm-up with minimum learning rate",
    "polynomial": "Polynomial",
    "constant": "Constant",
    "constant_with_warmup": "Constant after warm-up",
    "inverse_sqrt": "Inverse square root",
    "reduce_lr_on_plateau": "Reduce on plateau",
    "warmup_stable_decay": "Warm-up, stable, decay",
    "greedy": "Greedy: up and down with the error rate",
}
STRATEGIES = {"epoch": "After each epoch", "steps": "Every few steps", "no": "Never"}
REENTRANT = {"auto": "Automatic", "true": "Yes", "false": "No"}
SHORT_AUDIO = {"auto": "Automatic", "on": "On", "off": "Off"}
METRICS = {"auto": "Automatic", "wer": "wer", "cer": "cer"}
TRACKERS = {"none": "None", "tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}


def or_auto(choices: dict[str, str]) -> dict[str, str]:
    """The same, or automatic."""
    return {"auto": "Automatic", **choices}
