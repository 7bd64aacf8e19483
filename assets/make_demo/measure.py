"""How well the demo model does on sentences and voices that it was not trained on."""

from collections.abc import Sequence

import jiwer
import torch
from transformers import WhisperForConditionalGeneration, WhisperTokenizer

from .batches import pad_features
from .clips import Clip, join
from .dataset import make_clip
from .features import FRAMES

_BATCH = 16


def held_out_clips(count: int, kind: str = "single") -> list[Clip]:
    """Clean test clips: held-out sentences in held-out voices."""
    return [make_clip(kind, number, test=True) for number in range(count)]


def transcribe(
    model: WhisperForConditionalGeneration,
    tokenizer: WhisperTokenizer,
    clips: Sequence[Clip],
    timestamps: bool = False,
) -> list[str]:
    """Texts of clips, each padded to 30 seconds, decoded greedily."""
    model.train(False)
    texts: list[str] = []
    for first in range(0, len(clips), _BATCH):
        part = clips[first : first + _BATCH]
        with torch.no_grad():
            tokens = model.generate(
                input_features=pad_features(part, FRAMES).to(model.device, model.dtype),
                language="en",
                task="transcribe",
                return_timestamps=timestamps,
                max_new_tokens=230,
            )
        texts += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return texts


def reference(clip: Clip) -> str:
    """What is said in a clip."""
    return join([segment.text for segment in clip.segments]).strip()


def error_rate(wanted: Sequence[str], got: Sequence[str]) -> float:
    """Word error rate in percent."""
    return round(100 * float(jiwer.wer(list(wanted), [text.strip() for text in got])), 2)


def word_error_rate(
    model: WhisperForConditionalGeneration,
    tokenizer: WhisperTokenizer,
    clips: Sequence[Clip],
    timestamps: bool = False,
) -> float:
    """Word error rate in percent on clips padded to 30 seconds."""
    return error_rate([reference(clip) for clip in clips], transcribe(model, tokenizer, clips, timestamps))
