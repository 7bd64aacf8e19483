"""From manifests and a loaded base to clips that can be learned from, and their features."""

import logging

import torch

from studio.dataset.audio import audio_duration, read_audio
from studio.errors import ManifestError
from studio.training.adapters import Base
from studio.training.collator import FeatureSource, fits_in_memory, readable
from studio.training.config import TrainingConfig
from studio.training.data import Clip, SourceData, TrainingData, label_data, undecided
from studio.training.events import EventLog
from studio.training.stop import StopSignal

_SHOWN_PROBLEMS = 20
_CLIPS_MADE_AT_ONCE = 2000
log = logging.getLogger("studio.training")


def prepare(
    config: TrainingConfig, source: SourceData, base: Base, events: EventLog, stop: StopSignal
) -> tuple[TrainingData, FeatureSource]:
    """Labels, and the features of all clips if they are not too many; writes the `data` event.

    Raises:
        ConfigError: if a row's language is unknown.
        ManifestError: if no clip is left.
        StopRequested: if a stop was asked for.
    """
    decoder = base.decoder
    longest = int(decoder.model.config.max_target_positions)
    detected = _detect_language(source, config, base)
    data = label_data(source, config, decoder.tokens, decoder.tokens_of, detected, longest)
    every = (*data.train, *data.evaluation)
    features = FeatureSource(decoder.extractor, keep=fits_in_memory(every, decoder.extractor.feature_size))
    # Of a large dataset only the files' headers are read now, so that training begins soon.
    read = features if len(every) <= _CLIPS_MADE_AT_ONCE else _look_at_file
    train, train_problems = readable(data.train, read, stop.check)
    evaluation, eval_problems = readable(data.evaluation, read, stop.check)
    data = TrainingData(train, evaluation, (*data.problems, *train_problems, *eval_problems))
    if not data.train or not data.evaluation:
        raise ManifestError(
            "No clip of {source} can be read. Line {line}: {reason}",
            source=source.eval_source if data.train else config.train_data,
            line=data.problems[-1].line,
            reason=data.problems[-1].reason,
        )
    _report(data, source, detected, events)
    return data, features


def _look_at_file(clip: Clip) -> None:
    audio_duration(clip.example.audio_path)


def _detect_language(source: SourceData, config: TrainingConfig, base: Base) -> str | None:
    """What the base hears in a few of the clips that name no language; None if all do."""
    examples = undecided(source, config)
    if not examples or not base.decoder.tokens.languages:
        return None
    audio = [read_audio(e.audio_path, e.start_seconds, e.end_seconds) for e in examples]
    with torch.no_grad():
        rows = base.decoder.language_probabilities(base.decoder.encode(audio))
    votes = [next(iter(row)) for row in rows]
    winner = max(votes, key=votes.count)
    log.info("No language named: %s was heard in %s of %s clips.", winner, votes.count(winner), len(votes))
    return winner


def _report(data: TrainingData, source: SourceData, detected: str | None, events: EventLog) -> None:
    skipped = [{"line": p.line, "reason": p.reason} for p in data.problems[:_SHOWN_PROBLEMS]]
    events.write(
        "data",
        train_samples=len(data.train),
        eval_samples=len(data.evaluation),
        train_hours=data.train_hours,
        eval_source=source.eval_source,
        languages=list(data.languages),
        detected_language=detected,
        skipped_count=len(data.problems),
        skipped=skipped,
    )
    log.info("%s clips to train on, %s to evaluate", len(data.train), len(data.evaluation))
    for problem in skipped:
        log.info("not used: line %s: %s", problem["line"], problem["reason"])
