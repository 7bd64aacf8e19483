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


def held_out_clips(counts: dict[str, int], kind: str = "single") -> dict[str, list[Clip]]:
    """Clean test clips by language: held-out sentences in held-out voices."""
    found: dict[str, list[Clip]] = {which: [] for which in counts}
    number = 0
    while any(len(found[which]) < count for which, count in counts.items()):
        clip = make_clip(kind, number, test=True)
        if len(found[clip.language]) < counts[clip.language]:
            found[clip.language].append(clip)
        number += 1
    return found


def transcribe(
    model: WhisperForConditionalGeneration,
    tokenizer: WhisperTokenizer,
    clips: Sequence[Clip],
    timestamps: bool = False,
) -> list[str]:
    """Texts of clips of one language, each padded to 30 seconds, decoded greedily."""
    model.train(False)
    texts: list[str] = []
    for first in range(0, len(clips), _BATCH):
        part = clips[first : first + _BATCH]
        with torch.no_grad():
            tokens = model.generate(
                input_features=pad_features(part, FRAMES).to(model.device, model.dtype),
                language=part[0].language,
                task="transcribe",
                return_timestamps=timestamps,
                max_new_tokens=230,
            )
        texts += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return texts


def reference(clip: Clip) -> str:
    """What is said in a clip."""
    return join([segment.text for segment in clip.segments], clip.language).strip()


def error_rate(wanted: Sequence[str], got: Sequence[str], which: str) -> float:
    """Word error rate in percent, in Mandarin of characters."""
    rate = jiwer.cer if which == "zh" else jiwer.wer
    return 100 * float(rate(list(wanted), [text.strip() for text in got]))


def word_error_rate(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: Sequence[Clip], which: str
) -> float:
    """Errors in percent on clips of one language."""
    got = transcribe(model, tokenizer, clips)
    return round(error_rate([reference(clip) for clip in clips], got, which), 2)
