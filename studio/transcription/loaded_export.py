"""An export of CTranslate2 in memory, as faster-whisper plays it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.errors import ConfigError, ModelBrokenError
from studio.registry.tensors import read_json_object
from studio.registry.validate import read_card
from studio.transcription.engine import FASTER_WHISPER, TranscribeOptions
from studio.transcription.short_windows import cut_to_sound
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.windows import cut_loop

TEXT_CONTEXT = 448
"""Positions of the decoder: prompt and text together."""
_BYTES_OF = {"float32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
"""A weight's width; every other compute type holds its matrices in int8."""
_SEED = 0
"""Of what is drawn where a text is looked for by chance, at temperatures above zero."""
_STEERING = ("startoftranscript", "transcribe", "translate", "startofprev", "startoflm")


class LoadedExport:
    """A `faster_whisper.WhisperModel` and what the engine asks of it. Safe to share by threads."""

    adapters: tuple[str, ...] = ()
    """An export has the adapter in its weights."""
    is_spoiled = False

    def __init__(self, model: Any, tokens: SpecialTokens, suppressed: tuple[int, ...], folder: Path) -> None:
        """Made by `load_export` from `folder`."""
        self.model = model
        self.tokens = tokens
        self.suppressed = suppressed
        """Tokens that the model names as never to be written."""
        self._stored = (folder / "model.bin").stat().st_size
        self._stored_type = str(read_card(folder).get("quantization") or "float16")

    @property
    def size_bytes(self) -> int:
        """Memory of the weights, about: those on the disk, in the width that they are computed in."""
        return self._stored * _width(str(self.model.model.compute_type)) // _width(self._stored_type)

    @property
    def vocabulary(self) -> int:
        """How many tokens it has."""
        return self.tokens.last_time + 1

    @property
    def can_suppress(self) -> bool:
        """faster-whisper adds the tokens that steer a model to those suppressed: it needs all of them."""
        find = self.model.hf_tokenizer.token_to_id
        has_silence = any(find(f"<|{name}|>") is not None for name in ("nospeech", "nocaptions"))
        return has_silence and all(find(f"<|{name}|>") is not None for name in _STEERING)

    def hint(self, text: str) -> list[int]:
        """Tokens of text that comes before; it begins with a space, as in Whisper's own decoding."""
        if not text.strip():
            return []
        ids: list[int] = self.model.hf_tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids
        return ids

    def text_of(self, tokens: Sequence[int]) -> str:
        """Text of text tokens."""
        text: str = self.model.hf_tokenizer.decode(list(tokens))
        return text

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        """Hidden states (clips, 1500, d_model) of clips of at most 30 s, each padded with silence.

        `is_short`: only a little longer than the longest clip, for a model that was trained so.
        """
        from faster_whisper.audio import pad_or_trim

        features = np.stack([pad_or_trim(self.model.feature_extractor(clip)[..., :-1]) for clip in clips])
        return self.model.encode(cut_to_sound(features) if is_short else features)

    def language_probabilities(
        self, clip: NDArray[np.float32], *, is_short: bool = False
    ) -> dict[str, float]:
        """The probability of each language in a clip of at most 30 s, likeliest first."""
        row = self.model.model.detect_language(self.encode([clip], is_short=is_short))[0]
        return {token.strip("<|>"): float(odds) for token, odds in row}

    def write(self, encoded: Any, prompts: Sequence[list[int]], options: TranscribeOptions) -> list[str]:
        """A text for each prompt (all of one length, without times); of a loop only the first round."""
        limit = min(len(prompts[0]) + (options.max_new_tokens or TEXT_CONTEXT), TEXT_CONTEXT)
        named = self.suppressed if options.suppress_tokens is None else options.suppress_tokens
        results = self.model.model.generate(
            encoded, prompts, beam_size=options.num_beams, max_length=limit, suppress_tokens=list(named)
        )
        texts = []
        for result in results:
            row = [token for token in result.sequences_ids[0] if token < self.tokens.end]
            was_cut = len(row) + len(prompts[0]) >= limit
            texts.append(self.text_of(cut_loop(self.text_of(row), row, self.tokens, was_cut=was_cut)).strip())
        return texts


def load_export(
    folder: Path, *, device: str = "auto", precision: str = "auto", threads: int = 0
) -> LoadedExport:
    """Loads an export: in float32 on a CPU and in float16 on a GPU, unless told another compute type.

    Raises:
        ConfigError: if the device is not there, or cannot compute so.
        ModelBrokenError: if the folder cannot be loaded.
    """
    place, index = _device(device)
    compute_type = _compute_type(precision, place)
    config = read_json_object(folder / "config.json")
    import ctranslate2
    from faster_whisper import WhisperModel

    # Each loaded model draws from a source of its own: the same calls find the same text another time.
    ctranslate2.set_random_seed(_SEED)

    try:
        model = WhisperModel(
            str(folder),
            device=place,
            device_index=index,
            compute_type=compute_type,
            cpu_threads=threads,
            local_files_only=True,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelBrokenError(
            "The export in {folder} cannot be loaded ({reason}): export the model again.",
            folder=folder,
            reason=_first_line(error),
        ) from error
    decoder = model.hf_tokenizer.get_added_tokens_decoder()
    ids = {token.content: int(id_) for id_, token in decoder.items()}
    tokens = SpecialTokens.from_ids(ids, is_multilingual=bool(model.model.is_multilingual))
    suppressed = tuple(int(token) for token in config.get("suppress_ids") or ())
    return LoadedExport(model, tokens, suppressed, folder)


def compute_types(device: str = "auto") -> tuple[str, ...]:
    """What faster-whisper can compute in on `device` (`auto`, `cpu` or `cuda`) of this machine."""
    import ctranslate2

    return tuple(sorted(ctranslate2.get_supported_compute_types(_device(device)[0])))


def _device(name: str) -> tuple[str, int]:
    import ctranslate2

    place, _, number = name.partition(":")
    if place not in ("auto", "cpu", "cuda"):
        raise ConfigError("There is no device {name!r}: choose auto, cuda or cpu.", name=name)
    count = ctranslate2.get_cuda_device_count()
    index = int(number) if number.isdecimal() else 0
    if place == "cuda" and count <= index:
        raise ConfigError("The device cuda was asked for, and there is no GPU here: choose auto or cpu.")
    return ("cpu", 0) if place == "cpu" or not count else ("cuda", index)


def _compute_type(precision: str, device: str) -> str:
    known = compute_types(device)
    if precision == "auto":
        return "float16" if device == "cuda" and "float16" in known else "float32"
    if precision not in known:
        raise ConfigError(
            "{engine} cannot compute in {given} on this {device}: choose one of {known}.",
            engine=FASTER_WHISPER,
            given=precision,
            device="GPU" if device == "cuda" else "CPU",
            known=", ".join(known),
        )
    return precision


def _width(compute_type: str) -> int:
    return _BYTES_OF.get(compute_type, 1)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
