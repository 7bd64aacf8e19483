"""What every engine takes and gives: audio in, a `Transcript` with times out."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

Timestamps = Literal["none", "segment", "word"]
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Word:
    """A word, when it was said, and how sure the model was."""

    start_seconds: float
    end_seconds: float
    text: str
    probability: float | None = None


@dataclass(frozen=True)
class Segment:
    """A stretch of speech and its text."""

    start_seconds: float
    """Offset from the beginning of the recording."""
    end_seconds: float
    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Transcript:
    """What a model heard in one recording."""

    text: str
    segments: tuple[Segment, ...]
    """With `timestamps="none"`, one segment over the whole recording (or none, if nothing was said)."""
    language: str
    """Code, such as `en`; given or detected. Empty if it was to be detected and nothing was said."""
    duration_seconds: float
    model: str
    engine: str
    processing_seconds: float = 0.0
    audio_path: str = ""

    @property
    def real_time_factor(self) -> float:
        """Processing time divided by the length of the recording."""
        return self.processing_seconds / self.duration_seconds if self.duration_seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The row of `--output_file` (see `compatibility`): times under `start` and `end`, in seconds."""
        segments = [
            {
                "start": segment.start_seconds,
                "end": segment.end_seconds,
                "text": segment.text,
                "words": [
                    {
                        "start": word.start_seconds,
                        "end": word.end_seconds,
                        "word": word.text,
                        "probability": word.probability,
                    }
                    for word in segment.words
                ],
            }
            for segment in self.segments
        ]
        return {
            "schema_version": SCHEMA_VERSION,
            "audio_path": self.audio_path,
            "text": self.text,
            "language": self.language,
            "duration_seconds": self.duration_seconds,
            "model": self.model,
            "engine": self.engine,
            "real_time_factor": self.real_time_factor,
            "segments": segments,
            "error": None,
        }


@dataclass(frozen=True)
class TranscribeOptions:
    """What the user chose; each reaches the engine."""

    language: str = "auto"
    """Name or code; `auto` detects it."""
    task: str = "transcribe"
    """`transcribe` or `translate` (to English)."""
    timestamps: Timestamps = "segment"
    num_beams: int = 1
    initial_prompt: str = ""
    condition_on_prev_tokens: bool = False
    no_speech_threshold: float = 0.6
    """Above this probability of silence, an unsure text is dropped; 1 writes down everything."""
    max_new_tokens: int = 0
    """0: as many as the model can take."""

    def as_dict(self) -> dict[str, Any]:
        """For records and previews."""
        return asdict(self)


@dataclass
class Progress:
    """Told to the caller after each window of a recording."""

    done_seconds: float
    total_seconds: float
    segments: tuple[Segment, ...] = field(default_factory=tuple)
    """Those finished so far."""


OnProgress = Callable[[Progress], None]
ShouldStop = Callable[[], bool]


class Engine(Protocol):
    """A loaded model that can transcribe. Engines are made and kept by `studio.inference.model_cache`."""

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes a recording of any length, a window at a time, never holding it whole in memory.

        Raises:
            AudioError: if the file cannot be read.
            ConfigError: if the model lacks the language or the task.
        """
        ...
