"""Several models on one recording: what each wrote, and where they differ from what was said."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.evaluation.metrics import AlignedPiece, align, error_rates, metric_for
from studio.evaluation.scripts import other_script_sentences
from studio.messages import Message
from studio.transcription.engine import EngineChoice, OnProgress, Progress, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.watching import OnStep, ShouldStop, never, untold

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ModelTranscript:
    """What one model wrote."""

    transcript: Transcript
    against: str
    """What it is compared with: the reference if one was given, else the first model's text."""
    pieces: tuple[AlignedPiece, ...]
    wer: float | None
    """Word error rate against the reference; None without one."""
    cer: float | None


@dataclass(frozen=True)
class SideBySide:
    """All models on one recording."""

    audio_path: str
    reference: str
    hearings: tuple[ModelTranscript, ...]

    @property
    def metric(self) -> str:
        """`wer` or `cer`: which one counts for the reference. What it is written in tells: a model that knows
        one language hears every recording in that.
        """
        return metric_for("", [self.reference])

    def script_sentences(self, name: Callable[[str], str] = str) -> list[Message]:
        """Whose characters count as errors because they are of another script; `name` gives what the model of
        an id is called.
        """
        written = {row.transcript.model: row.transcript.text for row in self.hearings}
        return other_script_sentences(self.reference, written, name)

    def to_json(self) -> dict[str, Any]:
        """For programs: a row a model with its text, rates and alignment."""
        return {
            "schema_version": SCHEMA_VERSION,
            "audio_path": self.audio_path,
            "reference": self.reference,
            "models": [
                {
                    "id": hearing.transcript.model,
                    "text": hearing.transcript.text,
                    "wer": hearing.wer,
                    "cer": hearing.cer,
                    "alignment": [asdict(piece) for piece in hearing.pieces],
                    "transcript": hearing.transcript.to_json(),
                }
                for hearing in self.hearings
            ],
        }


def hear_side_by_side(
    engines: ModelCache,
    model_ids: Sequence[str],
    audio_path: Path,
    options: TranscribeOptions,
    reference: str = "",
    on_progress: OnProgress = untold,
    should_stop: ShouldStop = never,
    *,
    choice: EngineChoice | None = None,
    on_step: OnStep = untold,
) -> SideBySide:
    """Transcribes one recording with each model in turn; `on_progress` counts the sound once a model.

    If `should_stop` says so, only the models that were finished are in the answer.

    Raises:
        ConfigError: if no model is given, or one twice, or a model lacks the language or the task.
        AudioError: if the recording cannot be read.
        ModelError, HubUnreachableError: if a model cannot be loaded.
    """
    require_each_once(model_ids)
    heard: list[Transcript] = []
    for place, model_id in enumerate(model_ids):

        def report(step: Progress, place: int = place) -> None:
            """Counts the sound once a model."""
            total = step.total_seconds
            on_progress(Progress(place * total + step.done_seconds, len(model_ids) * total, step.segments))

        transcript = engines.transcribe(
            model_id, audio_path, options, report, should_stop, choice=choice, on_step=on_step
        )
        if should_stop():
            break
        heard.append(transcript)
    return side_by_side(heard, reference, str(audio_path))


def require_each_once(model_ids: Sequence[str]) -> None:
    """Refuses to compare no model, or one with itself.

    Raises:
        ConfigError: if there is none, or one is given twice.
    """
    if not model_ids:
        raise ConfigError("No model is given: name one, or more to compare them.")
    twice = next((name for place, name in enumerate(model_ids) if name in model_ids[:place]), None)
    if twice is not None:
        raise ConfigError("The model {name} is given twice: name each once.", name=twice)


def side_by_side(transcripts: Sequence[Transcript], reference: str, audio_path: str = "") -> SideBySide:
    """Aligns each text with the reference, or with the first text if there is none."""
    reference = " ".join(reference.split())
    hearings = []
    for transcript in transcripts:
        against = reference or transcripts[0].text
        rates = error_rates([reference], [transcript.text]) if reference else None
        pieces = tuple(align(against, transcript.text))
        hearings.append(
            ModelTranscript(
                transcript, against, pieces, rates.wer if rates else None, rates.cer if rates else None
            )
        )
    return SideBySide(audio_path, reference, tuple(hearings))


def marked(pieces: Sequence[AlignedPiece]) -> str:
    """An alignment in plain text, as `wdiff` writes it: [-left out-] {+put in+}."""
    shown = []
    for piece in pieces:
        if piece.kind == "equal":
            shown.append(piece.hypothesis)
            continue
        shown += [f"[-{piece.reference}-]"] if piece.reference else []
        shown += [f"{{+{piece.hypothesis}+}}"] if piece.hypothesis else []
    return " ".join(shown)
