"""What every engine takes and gives: options and audio in, a `Transcript` with times out."""

from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from functools import partial
from itertools import accumulate
from typing import Any, Literal

from studio.dataset.written import written_in
from studio.errors import ConfigError
from studio.messages import Message
from studio.options.checks import check_values
from studio.options.choices import AUDIO_CONTEXTS, CHINESE_SCRIPTS, ENGINES, TASKS, TIMESTAMPS, or_auto
from studio.options.option import option
from studio.options.values import check_numbers

AudioContext = Literal["auto", "full", "short"]
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
    language: str = ""
    """Code, where the recording has more than one language."""

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
    """Code, such as `en`; given, or detected where most was said. Empty if it was to be detected and nothing
    was said."""
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
                **({"language": segment.language} if segment.language else {}),
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
                segment.get("language", ""),
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
_MOST = (0, 100_000)
"""Beams, tokens and windows: more than any machine has room for."""
SPEECH, SEARCH, ENGINE = "speech", "search", "engine"
"""Groups of options: what is spoken and written, how the text is looked for, what plays the model."""
speech_option, search_option, engine_option = (partial(option, group) for group in (SPEECH, SEARCH, ENGINE))


@dataclass(frozen=True)
class TranscribeOptions:
    """What the user chose; each reaches the engine. Names are those of transformers.

    Flags, fields of the page, arguments of programs and their help derive from this, as those of a run do
    from `studio.options.training`. Checked when made. What was heard is kept under the options in their
    order: a new one comes last.
    """

    language: str = speech_option("auto", "Language", "Name or code; auto: the model detects it.")
    task: str = speech_option("transcribe", "Task", "", choices=TASKS)
    timestamps: str = speech_option("segment", "Timestamps", "", choices=TIMESTAMPS)
    num_beams: int = search_option(
        0,
        "Beam size",
        "1 takes less than half the time of 5, with about a tenth more errors; 0: 5.",
        bounds=_MOST,
        aliases=("beam_size",),
    )
    """0: of a recording `USUAL_BEAMS`; of clips that are compared, as the engine's library does by itself."""
    temperature: tuple[float, ...] = search_option(
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "Temperature",
        "The first is used; the next when a text repeats itself or is unsure.",
    )
    """0: no sampling."""
    initial_prompt: str = search_option("", "Initial prompt", "Shows the style, and how names are spelled.")
    """Text that came before the recording."""
    truncate_prompt: bool = search_option(
        False, "", "Use the end of a prompt that is too long, instead of refusing it."
    )
    """As OpenAI does."""
    hotwords: str = search_option("", "Hotwords", "Words to expect in every window: names, terms.")
    condition_on_prev_tokens: bool = search_option(
        True,
        "Condition on previous text",
        "Fewer errors, one script and one style; a mistake may be carried on.",
        aliases=("condition_on_previous_text",),
    )
    """Not if `batch_size` is above 1, and not with models of short clips or the demo model."""
    no_speech_threshold: float = search_option(
        0.6, "No-speech threshold", "Above it, an unsure text is dropped as silence.", bounds=(0, 1)
    )
    """A probability; 1 writes down everything."""
    compression_ratio_threshold: float = search_option(
        2.4, "Compression ratio threshold", "Above it, a text counts as repetitive.", bounds=(0, 1000)
    )
    """By how much zlib makes a text smaller."""
    logprob_threshold: float = search_option(
        -1.0,
        "Log-probability threshold",
        "Below it (mean over tokens), a text counts as unsure.",
        aliases=("log_prob_threshold",),
    )
    suppress_tokens: tuple[int, ...] | None = search_option(
        None, "Suppressed tokens", "Ids with commas; -1: the model's own list; none: no token."
    )
    """None: those that the model names."""
    max_new_tokens: int = search_option(
        0, "Longest text", "Max tokens per window; 0: no limit.", bounds=_MOST
    )
    audio_context: str = speech_option(
        "auto",
        "Audio context",
        "Encoder input length. Models trained in short-audio mode take the audio's own length, others 30 "
        "seconds: these make errors on shorter input.",
        choices=AUDIO_CONTEXTS,
    )
    vad: bool = search_option(
        True,
        "Skip parts without speech",
        "Voice activity detection: on silence and noise the model may hallucinate.",
        aliases=("vad_filter",),
    )
    batch_size: int = search_option(
        0,
        "Batch size",
        "Windows decoded together; 0: one after the other. On a GPU, more is faster.",
        bounds=_MOST,
    )
    """Windows of one recording or of several."""
    chinese_script: str = speech_option(
        "auto",
        "Chinese script",
        "A model may write both in one recording; one script: the one that most of it is written in.",
        choices=CHINESE_SCRIPTS,
    )

    def __post_init__(self) -> None:
        """Raises ConfigError for the first value that cannot be, whatever the model."""
        check_numbers(self)
        check_values(self)
        if not self.temperature or any(not 0 <= value <= 2 for value in self.temperature):
            raise ConfigError(
                "{name} must be one or more numbers from 0 to 2, got {given!r}.",
                name="temperature",
                given=", ".join(f"{value:g}" for value in self.temperature),
            )

    def written_in(self, language: str) -> str:
        """Code of a text's language where `language` is spoken: what is translated is English."""
        return written_in(language, self.task)

    def as_dict(self) -> dict[str, Any]:
        """For records and previews."""
        return asdict(self)


@dataclass(frozen=True)
class EngineChoice:
    """Which engine plays a model, and in which precision; `check_engine` says whether there is such a one."""

    engine: str = engine_option(
        "auto",
        "Engine",
        "auto: faster-whisper for an export, transformers for the rest.",
        choices=or_auto({name: name for name in ENGINES}),
    )
    precision: str = engine_option(
        "auto", "Precision", "", choices=or_auto({name: name for names in ENGINES.values() for name in names})
    )


FIELDS: dict[str, Field[Any]] = {
    f.name: f for options in (TranscribeOptions, EngineChoice) for f in fields(options)
}
"""Options by name, in the order of the schema."""


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
