"""Labels that a model does not believe: it transcribes the clips; those with the most errors come first."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.chinese import LANGUAGES as CHINESE
from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.example import Example, RowProblem
from studio.dataset.sequences import chosen
from studio.errors import DataError
from studio.evaluation.metrics import utterance_errors
from studio.evaluation.normalize import writes_without_spaces
from studio.messages import Message
from studio.transcription.engine import TranscribeOptions
from studio.transcription.languages import AUTO, resolve_language
from studio.transcription.model_cache import ModelCache
from studio.watching import ShouldStop, never, untold

SUSPICIOUS_RATE = 0.5
"""From this share of errors on, a label is worth a look."""
SURE = 0.7
"""A language heard with at least this probability contradicts another one that was said."""
_BATCH_SIZE = 8
_LONGEST_SECONDS = 30.0

Clips = list[tuple[Example, NDArray[np.float32]]]


@dataclass(frozen=True)
class HeardLabel:
    """A label and what the model heard."""

    line: int
    audio_path: str
    text: str
    heard: str
    error_rate: float
    """Errors of the label against what was heard, over the label's length: words, or characters for
    languages written without spaces."""
    language: str
    """As the manifest has it; empty if it says nothing."""
    heard_language: str
    """Code."""
    language_probability: float
    source: str = ""
    """The manifest, where there are several."""

    @property
    def problems(self) -> Iterator[RowProblem]:
        """What is to be looked at."""
        if self.error_rate >= SUSPICIOUS_RATE:
            reason = Message(
                "The model transcribes {heard!r}: {rate:.0%} of the label would be wrong.",
                heard=self.heard,
                rate=min(1.0, self.error_rate),
            )
            yield RowProblem(self.line, reason, self.audio_path, "suspicious_label", self.source)
        said = resolve_language(self.language) if self.language else AUTO
        if said not in (AUTO, self.heard_language) and self.language_probability >= SURE:
            reason = Message(
                "The row says {said}, the model detects {heard} (probability {probability:.0%}).",
                said=said,
                heard=self.heard_language,
                probability=self.language_probability,
            )
            yield RowProblem(self.line, reason, self.audio_path, "other_language", self.source)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def doubted(labels: Sequence[HeardLabel]) -> list[HeardLabel]:
    """Those that the model transcribes otherwise."""
    return [label for label in labels if label.error_rate]


def hear_labels(
    engines: ModelCache,
    model_id: str,
    examples: Sequence[Example],
    *,
    sample: int | None = None,
    language: str = AUTO,
    on_progress: Callable[[int, int], None] = untold,
    should_stop: ShouldStop = never,
) -> list[HeardLabel]:
    """Transcribes all clips, or `sample` of them drawn at random, and ranks their labels, the worst first.

    Clips over 30 s and such that cannot be read are passed over: `check_dataset` names them. After
    `should_stop` says yes, what was heard so far comes back.

    Raises:
        ConfigError: if the model lacks a language.
        ModelError, HubUnreachableError: if the model cannot be loaded.
    """
    if sample and sample < len(examples):
        examples = chosen(examples, sorted(random.Random(0).sample(range(len(examples)), sample)))
    heard: list[HeardLabel] = []
    done = 0
    with engines.lease(model_id) as engine:
        for taken, batch in _batches(examples):
            if should_stop():
                break
            if batch:
                heard += _hear(engine, batch, language)
            done += taken
            on_progress(done, len(examples))
    return sorted(heard, key=lambda label: -label.error_rate)


def _batches(examples: Sequence[Example]) -> Iterator[tuple[int, Clips]]:
    """Clips that can be read, and how many examples they come from."""
    batch: Clips = []
    taken = 0
    for example in examples:
        taken += 1
        try:
            samples = read_audio(example.audio_path, example.start_seconds, example.end_seconds)
        except DataError:
            continue  # the check of the rows has said so
        if len(samples) <= _LONGEST_SECONDS * SAMPLING_RATE:
            batch.append((example, samples))
        if len(batch) == _BATCH_SIZE:
            yield taken, batch
            batch, taken = [], 0
    if taken:
        yield taken, batch


def _hear(engine: Any, batch: Clips, language: str) -> list[HeardLabel]:
    options = TranscribeOptions(language=language, timestamps="none")
    odds = [engine.detect_language(samples) for _, samples in batch]
    said = [
        (language if resolve_language(language) != AUTO else example.language)
        or next(iter(odd), "en" if not engine.languages else AUTO)
        for (example, _), odd in zip(batch, odds, strict=True)
    ]
    texts = engine.transcribe_batch([samples for _, samples in batch], options, said)
    return [
        _heard_label(example, text, spoken, odd)
        for (example, _), text, spoken, odd in zip(batch, texts, said, odds, strict=True)
    ]


def _heard_label(example: Example, text: str, spoken: str, odds: dict[str, float]) -> HeardLabel:
    is_dense = writes_without_spaces(spoken)
    normalizer = "chinese" if resolve_language(spoken) in CHINESE else "basic"
    errors, length = utterance_errors(example.text, text, "cer" if is_dense else "wer", normalizer)
    code = next(iter(odds), "")
    return HeardLabel(
        example.line,
        str(example.audio_path),
        example.text,
        text,
        errors / max(1, length),
        example.language or "",
        code,
        odds.get(code, 0.0),
        example.source,
    )
