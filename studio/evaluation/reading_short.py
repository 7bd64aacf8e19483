"""What short windows gain and cost: a model and its base, each read padded to 30 s and as long as the clips.

The measure needs no texts: how far each reading is from the first, which is the padded one of the base (or of
the model itself, if that was not trained on short windows). Where the clips have texts, each reading is
compared with them, too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.dataset.example import Example, read_clips
from studio.dataset.written import written_in
from studio.evaluation.metrics import error_rates, metric_for
from studio.messages import Message
from studio.transcription.engine import AudioContext, TranscribeOptions
from studio.transcription.languages import AUTO
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Transcriber
from studio.watching import ShouldStop, never, untold
from studio.whisper.constants import WINDOW_TOKENS

SCHEMA_VERSION = 1
FULL: AudioContext = "full"
SHORT: AudioContext = "short"
_BATCH_SIZE = 8
_LONGEST_SAMPLES = 30 * SAMPLING_RATE


Way = tuple[str, AudioContext]
"""A model, and what its encoder is to see."""
Clip = tuple[Example, NDArray[np.float32]]


@dataclass(frozen=True)
class Reading:
    """What one model made of the clips in one way."""

    is_base: bool
    audio_context: str
    """`full` or `short`."""
    disagreement: float
    """Error rate against what the first reading wrote."""
    error: float | None
    """Error rate against the texts; None where clips have none."""
    seconds: float
    """Of computing, for all clips, without reading files."""


@dataclass(frozen=True)
class ShortReport:
    """The readings that were made, the one that the others are compared with first."""

    clips: int
    sound_seconds: float
    metric: str
    """`wer` or `cer`."""
    readings: tuple[Reading, ...]
    learned: int = 0
    """How many of the clips the model was trained on."""

    def to_json(self) -> dict[str, Any]:
        """For cards, results and `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "readings": [asdict(row) for row in self.readings],
        }


def ways_of(model: str, base_model: str, audio_context: str) -> tuple[Way, ...]:
    """Which models to measure with which audio context, the reference first: a model of short windows and its
    base, each padded and short; any other model alone, padded and short.
    """
    if audio_context != SHORT:
        return ((model, FULL), (model, SHORT))
    return ((base_model, FULL), (base_model, SHORT), (model, SHORT), (model, FULL))


def measure_short(
    engines: ModelCache,
    ways: Sequence[Way],
    base_model: str,
    examples: Sequence[Example],
    language: str,
    should_stop: ShouldStop = never,
    on_progress: Callable[[int, int], None] = untold,
) -> ShortReport:
    """Transcribes the clips in all ways, or translates those whose task that is. `language` is that of clips
    that name none, or `auto`.

    Raises:
        ModelError: if one of them cannot be loaded.
    """
    clips = _clips(examples, language)
    texts = [example.text for example, _ in clips]
    metric = metric_for(written_in(str(clips[0][0].language), clips[0][0].task), texts) if clips else "wer"
    found: list[Reading] = []
    reference: list[str] = []
    for name, context in ways:
        if not clips or should_stop():
            break
        on_progress(len(found), len(ways))
        written, seconds = _read(engines, name, context, clips)
        reference = reference or written
        rates = error_rates(texts, written) if all(texts) else None
        away = error_rates(reference, written)
        found.append(
            Reading(
                name == base_model,
                context,
                getattr(away, metric),
                getattr(rates, metric) if rates else None,
                seconds,
            )
        )
    length = sum(len(samples) for _, samples in clips) / SAMPLING_RATE
    return ShortReport(len(clips), length, metric, tuple(found))


def _clips(examples: Sequence[Example], language: str) -> list[Clip]:
    """Those that can be read, with language and task; of each task, clips of like length side by side."""
    read = (
        (
            replace(example, language=example.language or language, task=example.task or "transcribe"),
            samples[:_LONGEST_SAMPLES],
        )
        for example, samples in read_clips(examples)
    )
    return sorted(read, key=lambda clip: (str(clip[0].task), len(clip[1])))


def _read(
    engines: ModelCache, model: str, context: AudioContext, clips: Sequence[Clip]
) -> tuple[list[str], float]:
    """What the model writes, and seconds of computing."""
    batches: list[list[Clip]] = []
    for _, group in groupby(clips, key=lambda clip: clip[0].task):
        alike = list(group)
        batches += [alike[first : first + _BATCH_SIZE] for first in range(0, len(alike), _BATCH_SIZE)]

    with engines.lease(model) as engine:
        _written(engine, context, batches[0][:1])  # the first time is slower
        began = time.perf_counter()
        written = [text for batch in batches for text in _written(engine, context, batch)]
        seconds = time.perf_counter() - began
    return written, seconds


def _written(engine: Transcriber, context: AudioContext, batch: Sequence[Clip]) -> list[str]:
    """What is written of a few clips, which have the same task."""
    options = TranscribeOptions(
        AUTO,
        str(batch[0][0].task),
        "none",
        audio_context=context,
        max_new_tokens=WINDOW_TOKENS + 1,  # who does not know where a short window ends writes on
    )
    languages = [str(example.language) for example, _ in batch]
    return engine.transcribe_batch([samples for _, samples in batch], options, languages)


def cost_of(card: Mapping[str, Any], asked: str) -> Message | None:
    """What another audio context than that of the training costs a model; None if it is the same.

    `card` is the model's, `asked` what the encoder is to see: `auto`, `full` or `short`.
    """
    trained = SHORT if card.get("audio_context") == SHORT else FULL
    if asked in (AUTO, trained):
        return None
    report = card.get("short_audio") or {}
    rates = {
        row["audio_context"]: row["disagreement"] if row["error"] is None else row["error"]
        for row in report.get("readings", ())
        if not row["is_base"]
    }
    if {FULL, SHORT} <= set(rates):
        return Message(
            "The encoder input length is not that of the training: {metric} {before} became "
            "{after} on {clips} clips.",
            metric=str(report["metric"]).upper(),
            before=f"{rates[trained]:.1%}",
            after=f"{rates[asked]:.1%}",
            clips=report["clips"],
        )
    if asked == SHORT:
        return Message("This model was trained on 30 seconds: on shorter input it may hallucinate.")
    return Message("This model was trained on the audio's own length: 30 seconds are slower.")
