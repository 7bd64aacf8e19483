"""All measurements of a finished model; the figures of `assets/README.md` and of the model card."""

import json
import re
import tempfile
import time
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
from .measure import error_rate, held_out_clips, reference, transcribe, word_error_rate
from .model import encode, generation_settings
from .recordings import LongRecording, degraded, long_recordings, noisy
from .tokenizer import token_id

_BATCH = 16
_TIME = re.compile(r"<\|(\d+\.\d\d)\|>")


@dataclass(frozen=True)
class Report:
    """Errors in percent, times in seconds."""

    clips: int
    """Held-out clips of one sentence; the other figures are of as many or fewer."""
    parameters: int
    megabytes: float
    errors_padded: float
    errors_unpadded: float
    errors_with_times: float
    errors_joined_with_times: float
    """Several sentences with pauses in one clip."""
    errors_degraded: float
    """With the faults of training: rooms, band limits, noise, gain."""
    errors_noise: dict[str, float]
    """Under white noise, by decibels of speech above it."""
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
    """Errors on recordings of about 80 seconds, by library."""
    faster_whisper_word_time_error: float
    seconds_a_clip: float
    """To transcribe a clip of one sentence, in batches of 16."""


def load(folder: Path) -> tuple[WhisperForConditionalGeneration, WhisperTokenizer]:
    """The saved model in float32 and its tokenizer."""
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model.train(False), WhisperTokenizer.from_pretrained(folder)


def measure_all(folder: Path, clips: int = 120) -> Report:
    """Measure, choose the alignment heads, write them into the folder, print the report.

    `clips` is how many held-out clips of one sentence to use; the other kinds are scaled with it.
    """
    model, tokenizer = load(folder)
    joined = held_out_clips(max(2, clips // 3), "joined")
    model.set_attn_implementation("eager")  # the fused kernels do not return weights
    heads, word_error = choose_heads(model, tokenizer, joined)
    model.set_attn_implementation("sdpa")
    model.generation_config = generation_settings(tokenizer, heads)
    model.generation_config.save_pretrained(folder)
    single = held_out_clips(clips)
    silent = [make_clip("silent", number, test=True) for number in range(clips)]
    recordings = long_recordings(max(1, clips // 30))
    started = time.monotonic()
    errors_padded = word_error_rate(model, tokenizer, single)
    seconds = (time.monotonic() - started) / clips
    sequential, faster = Sequential(model, tokenizer), FasterWhisper(folder)
    report = Report(
        clips=clips,
        parameters=sum(value.numel() for value in model.parameters()),
        megabytes=round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6, 2),
        errors_padded=errors_padded,
        errors_unpadded=_unpadded_errors(model, tokenizer, single),
        errors_with_times=word_error_rate(model, tokenizer, single, timestamps=True),
        errors_joined_with_times=word_error_rate(model, tokenizer, joined, timestamps=True),
        errors_degraded=word_error_rate(model, tokenizer, [degraded(number) for number in range(clips)]),
        errors_noise={
            f"{decibels} dB": word_error_rate(
                model, tokenizer, [noisy(number, decibels) for number in range(clips)]
            )
            for decibels in (30, 20, 10)
        },
        words_from_silence=_share(transcribe(model, tokenizer, silent)),
        words_from_silence_with_times=_share(transcribe(model, tokenizer, silent, timestamps=True)),
        silence_detected=_above(no_speech_probabilities(model, tokenizer, silent)),
        speech_missed=_above(no_speech_probabilities(model, tokenizer, single)),
        segment_time_error=segment_time_error(model, tokenizer, joined),
        alignment_heads=heads,
        word_time_error=round(word_error, 3),
        long_form={
            "transformers": _long_errors(sequential, recordings),
            "faster-whisper": _long_errors(faster, recordings),
        },
        faster_whisper_word_time_error=faster.word_time_error(recordings),
        seconds_a_clip=round(seconds, 3),
    )
    print(json.dumps(asdict(report), indent=1))
    return report


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
            tokens = model.generate(encoder_outputs=states, language="en", task="transcribe")
        texts += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return error_rate([reference(clip) for clip in clips], texts)


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
                input_features=pad_features([clip], FRAMES), language="en", task="transcribe",
                return_timestamps=True,
            )  # fmt: skip
        found = [float(t) for t in _TIME.findall(tokenizer.decode(tokens[0], decode_with_timestamps=True))]
        true = [time for segment in clip.segments for time in (segment.start, segment.end)]
        if len(found) == len(true) and max(true) <= 30:
            distances += np.abs(np.subtract(found, true))[1 if clip.segments[0].start > 1 else 0 :].tolist()
    return round(float(np.median(distances)), 3) if distances else float("nan")


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
            tokens = self._model.generate(**inputs, return_timestamps=True, language="en", task="transcribe")
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
        segments, _ = self._model.transcribe(recording.samples, language="en")
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
    return error_rate([recording.text for recording in recordings], got)
