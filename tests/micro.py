"""A Whisper so small that a training step takes milliseconds, and clips of tones for it to learn.

It has the shape of the real ones: a window of 30 s, 448 target positions, all special tokens. Its layers
are as wide as 4-bit arithmetic on a CPU demands.
"""

import json
import math
from pathlib import Path

import numpy as np
import soundfile

SAMPLING_RATE = 16_000


def make_micro_model(folder: Path, *, is_mute: bool = False) -> Path:
    """Writes the model, with random weights, and gives back its folder.

    It writes noise until its text is full, at every temperature; a mute one ends at once, for tests that
    transcribe with it and ask for no words.
    """
    import torch
    from transformers import (
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    from assets.make_demo.tokenizer import special_tokens

    tokenizer = _byte_tokenizer(special_tokens())
    ids = tokenizer.get_added_vocab()
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=64,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(config)
    if is_mute:
        with torch.no_grad():
            way = torch.nn.functional.normalize(torch.ones(config.d_model), dim=0)
            model.model.decoder.embed_tokens.weight[end] = way
            model.model.decoder.layer_norm.bias += 30 * way
    languages = {token: id_ for token, id_ in ids.items() if start < id_ < ids["<|translate|>"]}
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        lang_to_id=languages,
        task_to_id={"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
        no_timestamps_token_id=ids["<|notimestamps|>"],
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        bos_token_id=end,
        max_length=448,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    return folder


def _byte_tokenizer(specials: list[str]):  # type: ignore[no-untyped-def]
    """A token a byte, then Whisper's special tokens in their order."""
    from tokenizers import AddedToken, pre_tokenizers
    from transformers import WhisperTokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate([*letters, "", specials[0]])}
    tokenizer = WhisperTokenizer(vocab=vocabulary, merges=[], pad_token=specials[0], model_max_length=448)
    is_time = [token[2:3].isdigit() for token in specials]
    names = [
        AddedToken(t, special=True, normalized=False)
        for t, time in zip(specials, is_time, strict=True)
        if not time
    ]
    times = [
        AddedToken(t, special=False, normalized=False)
        for t, time in zip(specials, is_time, strict=True)
        if time
    ]
    tokenizer.add_special_tokens({"additional_special_tokens": names[1:]})
    tokenizer.add_tokens(times)
    return tokenizer


def make_tones(folder: Path, count: int = 8, seconds: float = 1.0, **row: object) -> Path:
    """Writes `count` clips, each a tone with a word for its text, and gives back their manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for index in range(count):
        times = np.arange(int(seconds * SAMPLING_RATE)) / SAMPLING_RATE
        hertz = 200 * (1 + index % 4) + index // 4  # clips of one word are alike, but not the same
        tone = 0.3 * np.sin(2 * math.pi * hertz * times)
        path = folder / f"tone{index}.wav"
        soundfile.write(path, tone, SAMPLING_RATE)
        text = ("low", "high", "sharp", "flat")[index % 4]
        rows.append({"audio": path.name, "text": text, "duration": seconds, "language": "en", **row})
    manifest = folder / "train.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return manifest
