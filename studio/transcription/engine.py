"""What every engine takes and gives: audio in, a `Transcript` with times out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any, Literal

from studio.dataset.written import written_in
from studio.messages import Message

Timestamps = Literal["none", "segment", "word"]
AudioContext = Literal["auto", "full", "short"]
AUDIO_CONTEXTS: tuple[AudioContext, ...] = ("auto", "full", "short")
TIMESTAMPS = ("none", "segment", "word")
SCHEMA_VERSION = 1
Span = tuple[float, float]
"""Start and end in seconds."""


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

    def edges(self) -> list[int]:
        """Where in the text each word begins, and where the last one ends: between them lie the text's own
        spaces, which a language has or has not.
        """
        after = [0, *(end for end, char in enumerate(self.text, 1) if not char.isspace())]
        lengths = accumulate(len("".join(word.text.split())) for word in self.words[:-1])
        return [0, *(after[min(length, len(after) - 1)] for length in lengths), len(self.text)]


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
    language_probabilities: Mapping[str, float] = field(default_factory=dict)
    """Code → probability of the likeliest languages, best first; empty if the language was given."""
    notes: tuple[Message, ...] = ()
    """What is to be known of how it was heard."""
    written_in: str = ""
    """Code of the text's language where that is not the one that was spoken."""

    @property
    def real_time_factor(self) -> float:
        """Processing time divided by the length of the recording."""
        return self.processing_seconds / self.duration_seconds if self.duration_seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The row of `--output_file` (see `compatibility`): times under `start` and `end`, in seconds;
        `notes` where there are some.
        """
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
            "language_probabilities": dict(self.language_probabilities),
            "duration_seconds": self.duration_seconds,
            "model": self.model,
            "engine": self.engine,
            "real_time_factor": self.real_time_factor,
            "segments": segments,
            "error": None,
            **({"notes": [str(note) for note in self.notes]} if self.notes else {}),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Transcript":
        """What `to_json` wrote; a row with an `error` is a transcript without text."""
        segments = tuple(
            Segment(
                segment["start"],
                segment["end"],
                segment["text"],
                tuple(
                    Word(word["start"], word["end"], word["word"], word["probability"])
                    for word in segment["words"]
                ),
            )
            for segment in row["segments"]
        )
        return cls(
            text=row["text"],
            segments=segments,
            language=row["language"],
            duration_seconds=row["duration_seconds"],
            model=row["model"],
            engine=row["engine"],
            processing_seconds=row["real_time_factor"] * row["duration_seconds"],
            audio_path=row["audio_path"],
            language_probabilities=row["language_probabilities"],
            notes=tuple(Message("{text}", text=str(note)) for note in row.get("notes", ())),
        )


USUAL_BEAMS = 5
"""Of a recording, whichever engine: whisper-tiny makes a tenth fewer errors than with one (27 minutes)."""


@dataclass(frozen=True)
class TranscribeOptions:
    """What the user chose; each reaches the engine. Names are those of transformers."""

    language: str = "auto"
    """Name or code; `auto` detects it."""
    task: str = "transcribe"
    """`transcribe` or `translate` (to English)."""
    timestamps: Timestamps = "segment"
    num_beams: int = 0
    """0: of a recording `USUAL_BEAMS`; of clips that are compared, as the engine's library does by itself."""
    temperature: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """The first is used; the next each time that a text repeats itself or is unsure. 0: no sampling."""
    initial_prompt: str = ""
    """Text that came before the recording: style, and names as they are spelled."""
    truncate_prompt: bool = False
    """Use the end of an `initial_prompt` that is too long, as OpenAI does, instead of refusing it."""
    hotwords: str = ""
    """Words to expect in every window."""
    condition_on_prev_tokens: bool = True
    """Whether a window is told what was said in the one before; not if `batch_size` is above 1, and not with
    models of short clips or the demo model."""
    no_speech_threshold: float = 0.6
    """Above this probability of silence, an unsure text is dropped; 1 writes down everything."""
    compression_ratio_threshold: float = 2.4
    """A text that zlib makes smaller by more than this repeats itself."""
    logprob_threshold: float = -1.0
    """Below this mean log-probability of its tokens, a text is unsure."""
    suppress_tokens: tuple[int, ...] | None = None
    """Tokens that are never written; None: those that the model names."""
    max_new_tokens: int = 0
    """Of a window; 0: as many as the model can take."""
    audio_context: AudioContext = "auto"
    """The encoder sees 30 seconds (`full`) or the sound's own length (`short`); `auto`: as it was trained."""
    vad: bool = True
    """Whether a detector of voice activity keeps silence and noise from the model."""
    batch_size: int = 0
    """Windows, of one recording or of several, that are decoded together; 0: those of a recording in turn."""
    chinese_script: str = "auto"
    """`auto`: what most of a recording is written in; `as_heard`, `simplified`, `traditional` or `taiwan`."""

    def written_in(self, language: str) -> str:
        """Code of a text's language where `language` is spoken: what is translated is English."""
        return written_in(language, self.task)

    def as_dict(self) -> dict[str, Any]:
        """For records and previews."""
        return asdict(self)


@dataclass(frozen=True)
class EngineChoice:
    """Which engine plays a model, and in which precision."""

    engine: str = "auto"
    """Of `ENGINES`; `auto`: faster-whisper for an export, transformers for the rest."""
    precision: str = "auto"
    """That `ENGINES` has of it."""


@dataclass
class Progress:
    """Told to the caller after each window of a recording."""

    done_seconds: float
    total_seconds: float
    segments: tuple[Segment, ...] = field(default_factory=tuple)
    """Those finished so far."""
    settled_seconds: float = 0.0
    """What begins before this is all there: later windows add nothing between it."""
    language: str = ""
    """Code, as far as it is known."""


OnProgress = Callable[[Progress], None]
ShouldStop = Callable[[], bool]
OnStep = Callable[[Message, float], None]
"""Told of what has to be made before a model can be played: what is being done now, and the share done."""
