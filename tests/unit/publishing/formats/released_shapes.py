"""Whispers with random weights that have the tokens and the mel bins of released ones, and little else."""

import json
from pathlib import Path

ENGLISH, LARGE_V3 = 51864, 51866
"""Sizes of their vocabularies."""
_WIDTH = 64
_SPREAD = 0.1
"""Of the weights: with less the sound changes no text, with more each rounding does."""


def make_released_shape(multilingual: Path, folder: Path, vocab_size: int, num_mel_bins: int) -> Path:
    """Writes one, with the tokenizer of a multilingual Whisper made smaller or larger, into a folder."""
    import torch
    from transformers import (
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    folder.mkdir(parents=True)
    ids = _save_tokenizer(multilingual, folder, vocab_size)
    end, start, translate = (ids[f"<|{name}|>"] for name in ("endoftext", "startoftranscript", "translate"))
    size = {"layers": 1, "attention_heads": 2, "ffn_dim": 4 * _WIDTH}  # whisper.cpp takes no other ffn
    sizes = {f"{half}_{name}": value for half in ("encoder", "decoder") for name, value in size.items()}
    own = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": start}
    config = WhisperConfig(
        vocab_size=vocab_size,
        num_mel_bins=num_mel_bins,
        d_model=_WIDTH,
        init_std=_SPREAD,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **sizes,
        **own,
    )
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(config)
    languages = {
        "lang_to_id": {token: id_ for token, id_ in ids.items() if start < id_ < translate},
        "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": translate},
    }
    model.generation_config = GenerationConfig(
        is_multilingual=vocab_size != ENGLISH,
        no_timestamps_token_id=ids["<|notimestamps|>"],
        max_length=448,
        **own,
        **(languages if vocab_size != ENGLISH else {}),
    )
    model.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=num_mel_bins).save_pretrained(folder)
    return folder


def _save_tokenizer(multilingual: Path, folder: Path, vocab_size: int) -> dict[str, int]:
    """An English one has a text token less, that of large-v3 Cantonese; gives the ids of special tokens."""
    told = json.loads((multilingual / "tokenizer.json").read_text("utf-8"))
    texts, added = told["model"]["vocab"], told["added_tokens"]
    if vocab_size == ENGLISH:
        del texts[""]
    elif vocab_size == LARGE_V3:
        last = next(place for place, one in enumerate(added) if one["content"] == "<|su|>")
        added.insert(last + 1, {**added[last], "content": "<|yue|>"})
    first = vocab_size - len(added)
    ids = {one["content"]: first + place for place, one in enumerate(added)}
    for one in added:
        one["id"] = ids[one["content"]]
    texts["<|endoftext|>"] = first
    for one in told["post_processor"]["special_tokens"].values():
        one["ids"] = [ids[one["id"]]]
    (folder / "tokenizer.json").write_text(json.dumps(told), "utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "WhisperTokenizer"}', "utf-8")
    return ids
