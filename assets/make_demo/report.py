"""All measurements of a finished model; the figures of `assets/README.md` and of the model card."""

import json
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import WhisperForConditionalGeneration, WhisperTokenizer

from .alignment import choose_heads
from .batches import pad_features
from .clips import Clip
from .dataset import make_clip
from .features import FRAMES, feature_extractor
from .measure import error_rate, held_out_clips, reference, transcribe
from .model import encode, generation_settings
from .recordings import LongRecording, long_recordings
from .tokenizer import token_id

_BATCH = 16
_TIME = re.compile(r"<\|(\d+\.\d\d)\|>")


@dataclass(frozen=True)
class Report:
    """Errors in percent, times in seconds."""

    parameters: int
    megabytes: float
    errors_padded: dict[str, float]
    errors_unpadded: dict[str, float]
    errors_with_times: dict[str, float]
    errors_degraded: dict[str, float]
    """Heavily degraded: reverberation, band limits, noise, gain, leading silence."""
    language_accuracy: float
    words_from_silence: float
    """Percent of clips without speech that got any text, without times."""
    words_from_silence_with_times: float
    silence_detected: float
    """Percent of clips without speech whose <|nospeech|> probability is above 0.6."""
    speech_missed: float
    """Percent of clips with speech for which it is above 0.6."""
    segment_time_error: float
    """Median distance of sentence starts and ends in joined clips."""
    alignment_heads: list[list[int]]
    word_time_error: float
    """Median distance of word starts from espeak-ng's own."""
    long_form: dict[str, float]
    """Errors on recordings of about 80 seconds, by library and language."""
    faster_whisper_word_time_error: float


def load(folder: Path) -> tuple[WhisperForConditionalGeneration, WhisperTokenizer]:
    """The saved model in float32 with attention weights to look at, and its tokenizer."""
    model = WhisperForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.train(False), WhisperTokenizer.from_pretrained(folder)


def measure_all(folder: Path, scale: float = 1.0) -> Report:
    """Measure, choose the alignment heads, write them into the folder, print the report.

    `scale` is the share of the test clips, for a quick try.
    """
    model, tokenizer = load(folder)
    joined = [
        clip
        for clips in held_out_clips({"en": round(60 * scale), "zh": round(20 * scale)}, "joined").values()
        for clip in clips
    ]
    heads, word_error = choose_heads(model, tokenizer, joined)
    model.generation_config = generation_settings(tokenizer, heads)
    model.generation_config.save_pretrained(folder)
    clips = held_out_clips({"en": round(300 * scale), "zh": round(100 * scale)})
    silent = [make_clip("silent", number, test=True) for number in range(round(100 * scale))]
    speech = [clip for part in clips.values() for clip in part]
    recordings = long_recordings(max(4, round(8 * scale)))
    faster = FasterWhisper(folder)
    report = Report(
        parameters=sum(value.numel() for value in model.parameters()),
        megabytes=round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6, 2),
        errors_padded=_errors(model, tokenizer, clips),
        errors_unpadded={which: _unpadded_errors(model, tokenizer, part) for which, part in clips.items()},
        errors_with_times=_errors(model, tokenizer, clips, timestamps=True),
        errors_degraded=_errors(model, tokenizer, degraded_clips()),
        language_accuracy=language_accuracy(model, tokenizer, speech),
        words_from_silence=_share(transcribe(model, tokenizer, silent)),
        words_from_silence_with_times=_share(transcribe(model, tokenizer, silent, timestamps=True)),
        silence_detected=_above(no_speech_probabilities(model, tokenizer, silent)),
        speech_missed=_above(no_speech_probabilities(model, tokenizer, speech)),
        segment_time_error=segment_time_error(model, tokenizer, joined),
        alignment_heads=heads,
        word_time_error=round(word_error, 3),
        long_form={
            f"{name} {which}": _long_errors(transcriber, [r for r in recordings if r.language == which])
            for name, transcriber in (
                ("transformers", Sequential(model, tokenizer)),
                ("faster-whisper", faster),
            )
            for which in ("en", "zh")
        },
        faster_whisper_word_time_error=faster.word_time_error([r for r in recordings if r.language == "en"]),
    )
    print(json.dumps(asdict(report), indent=1))
    return report


def degraded_clips() -> dict[str, list[Clip]]:
    """Held-out sentences and voices, recorded with the faults of training."""
    from .recordings import degraded

    return {which: [degraded(clip_number, which) for clip_number in range(count)]
            for which, count in (("en", 150), ("zh", 50))}  # fmt: skip


def _errors(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: dict[str, list[Clip]],
    timestamps: bool = False,
) -> dict[str, float]:  # fmt: skip
    return {
        which: round(
            error_rate([reference(c) for c in part], transcribe(model, tokenizer, part, timestamps), which), 2
        )
        for which, part in clips.items()
    }


def _unpadded_errors(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: list[Clip]
) -> float:
    """Each clip by itself, the encoder seeing only its frames."""
    from transformers.modeling_outputs import BaseModelOutput

    texts = []
    for clip in clips:
        features = pad_features([clip], clip.features.shape[1] // 2 * 2).to(model.device)
        with torch.no_grad():
            states = BaseModelOutput(last_hidden_state=encode(model, features))
            tokens = model.generate(encoder_outputs=states, language=clip.language, task="transcribe")
        texts += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return round(error_rate([reference(clip) for clip in clips], texts, clips[0].language), 2)


def _first_logits(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: list[Clip]
) -> torch.Tensor:
    """Logits (clips, vocabulary) after <|startoftranscript|>."""
    start = token_id(tokenizer, "<|startoftranscript|>")
    rows = []
    for first in range(0, len(clips), _BATCH):
        features = pad_features(clips[first : first + _BATCH], FRAMES).to(model.device)
        inputs = torch.full((len(features), 1), start, device=model.device)
        with torch.no_grad():
            rows.append(model(input_features=features, decoder_input_ids=inputs).logits[:, 0].cpu())
    return torch.cat(rows)


def language_accuracy(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: list[Clip]
) -> float:
    """Percent of clips whose likeliest language token is right."""
    ids = torch.tensor(sorted(dict(vars(model.generation_config)["lang_to_id"]).values()))
    found = ids[_first_logits(model, tokenizer, clips)[:, ids].argmax(1)].tolist()
    names = [tokenizer.convert_ids_to_tokens(token) for token in found]
    right = [name == f"<|{clip.language}|>" for name, clip in zip(names, clips, strict=True)]
    return round(100 * float(np.mean(right)), 2)


def no_speech_probabilities(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: list[Clip]
) -> list[float]:
    """Probability of <|nospeech|> after the start token."""
    token = token_id(tokenizer, "<|nospeech|>")
    values: list[float] = _first_logits(model, tokenizer, clips).softmax(-1)[:, token].tolist()
    return values


def segment_time_error(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: list[Clip]
) -> float:
    """Median distance, seconds, of sentences' times from the truth, over clips with as many of them."""
    distances: list[float] = []
    for clip in clips:
        with torch.no_grad():
            tokens = model.generate(
                input_features=pad_features([clip], FRAMES), language=clip.language, task="transcribe",
                return_timestamps=True,
            )  # fmt: skip
        found = [float(t) for t in _TIME.findall(tokenizer.decode(tokens[0], decode_with_timestamps=True))]
        true = [time for segment in clip.segments for time in (segment.start, segment.end)]
        if len(found) == len(true) and max(true) <= 30:
            distances += np.abs(np.subtract(found, true))[1 if clip.segments[0].start > 1 else 0 :].tolist()
    return round(float(np.median(distances)), 3)


def _share(texts: list[str]) -> float:
    return round(100 * float(np.mean([bool(text.strip()) for text in texts])), 2)


def _above(values: list[float], threshold: float = 0.6) -> float:
    return round(100 * float(np.mean(np.array(values) > threshold)), 2)


class Sequential:
    """Long-form generation of the transformers library."""

    def __init__(self, model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer

    def text(self, recording: LongRecording) -> str:
        inputs = feature_extractor()(
            recording.samples, sampling_rate=16_000, return_tensors="pt", truncation=False, padding="longest",
            return_attention_mask=True,
        )  # fmt: skip
        with torch.no_grad():
            tokens = self._model.generate(
                **inputs, return_timestamps=True, language=recording.language, task="transcribe"
            )
        return str(self._tokenizer.batch_decode(tokens, skip_special_tokens=True)[0]).strip()


class FasterWhisper:
    """The model converted to CTranslate2 and run by faster-whisper."""

    def __init__(self, folder: Path) -> None:
        from ctranslate2.converters import TransformersConverter
        from faster_whisper import WhisperModel

        with tempfile.TemporaryDirectory() as target:
            copied = ["tokenizer.json", "preprocessor_config.json"]
            TransformersConverter(str(folder), copy_files=copied).convert(
                target, quantization="float32", force=True
            )
            self._model: Any = WhisperModel(target, device="cpu", compute_type="float32")

    def text(self, recording: LongRecording) -> str:
        segments, _ = self._model.transcribe(recording.samples, language=recording.language)
        return "".join(segment.text for segment in segments).strip()

    def word_time_error(self, recordings: list[LongRecording]) -> float:
        """Median distance in seconds of word starts, over recordings with the right number of words."""
        distances: list[float] = []
        for recording in recordings:
            segments, _ = self._model.transcribe(recording.samples, language="en", word_timestamps=True)
            found = [word.start for segment in segments for word in segment.words]
            if len(found) == len(recording.word_starts):
                distances += np.abs(np.subtract(found, recording.word_starts)).tolist()
        return round(float(np.median(distances)), 3) if distances else float("nan")


def _long_errors(transcriber: Sequential | FasterWhisper, recordings: list[LongRecording]) -> float:
    got = [transcriber.text(recording) for recording in recordings]
    return round(error_rate([recording.text for recording in recordings], got, recordings[0].language), 2)
