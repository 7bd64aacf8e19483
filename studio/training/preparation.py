"""From manifests and a loaded base to clips that can be learned from, and their features."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from studio.dataset.audio import audio_duration, read_audio
from studio.dataset.report import write_quarantine
from studio.dataset.sequences import joined
from studio.errors import ManifestError
from studio.training.adapters import Base
from studio.training.augmentation import Augmentation
from studio.training.collator import FeatureSource, fits_in_memory, readable
from studio.training.config import TrainingConfig
from studio.training.data import Clip, TrainingData, example_language, label_data, undecided
from studio.training.events import EventLog
from studio.training.made_times import with_made_times
from studio.training.packing import packed
from studio.training.sources import SourceData
from studio.training.stop import StopSignal
from studio.training.times_file import TimesFile
from studio.transcription.engines.transformers import TransformersModel

_SHOWN_PROBLEMS = 20
_CLIPS_MADE_AT_ONCE = 2000
log = logging.getLogger("studio.training")


def prepare(
    config: TrainingConfig,
    source: SourceData,
    base: Base,
    events: EventLog,
    stop: StopSignal,
    times: TimesFile | None = None,
) -> tuple[TrainingData, FeatureSource]:
    """Labels, and the features of all clips if they are not too many; writes the `data` event.

    `times` keeps the times that are made, if they are asked for.

    Raises:
        ConfigError: if a row's language is unknown.
        ManifestError: if no clip is left.
        StopRequested: if a stop was asked for.
    """
    decoder = base.decoder
    longest = int(decoder.model.config.max_target_positions)
    detected = _detect_language(source, config, base)
    made_times = 0
    if config.make_timestamps:
        language_of = partial(example_language, config=config, tokens=decoder.tokens, default=detected)
        examples, made_times = with_made_times(
            source.train_examples, decoder, language_of, config.task, stop.check, times
        )
        source = replace(source, train_examples=examples)
    if config.pack_clips:
        examples = packed(source.train_examples, decoder.tokens_of, config.max_audio_len, longest)
        source = replace(source, train_examples=examples)
    data = label_data(source, config, decoder.tokens, decoder.tokens_of, detected, longest)
    features = _features(data, config, decoder)
    data = _those_that_can_be_read(data, features, stop)
    if not data.train or not data.evaluation:
        raise ManifestError(
            "No clip of {source} can be read. Line {line}: {reason}",
            source=source.eval_source if data.train else config.train_data,
            line=data.problems[-1].line,
            reason=data.problems[-1].reason,
        )
    _report(data, source, detected, made_times, events)
    return data, features


def _features(data: TrainingData, config: TrainingConfig, decoder: TransformersModel) -> FeatureSource:
    """What makes the clips' features, and keeps them if they are not too many."""
    every = joined([data.train, data.evaluation])
    keep = fits_in_memory(every, decoder.extractor.feature_size * config.processes_per_machine)
    # Features are masked where they are made, by the run's own seed: not by the model once more.
    decoder.model.config.apply_spec_augment = False
    return FeatureSource(decoder.extractor, keep, Augmentation.of(config))


def _those_that_can_be_read(data: TrainingData, features: FeatureSource, stop: StopSignal) -> TrainingData:
    """The clips without those whose sound cannot be read, which join the problems."""
    # Of a large dataset only the files' headers are read now, so that training begins soon.
    is_small = len(data.train) + len(data.evaluation) <= _CLIPS_MADE_AT_ONCE
    read = features if is_small else _look_at_file
    train, train_problems = readable(data.train, read, stop.check)
    evaluation, eval_problems = readable(data.evaluation, read, stop.check)
    return TrainingData(train, evaluation, (*data.problems, *train_problems, *eval_problems))


def set_aside(data: TrainingData, path: Path) -> None:
    """Lists the rows that the run does not learn from in `path`, each with its line and the reason.

    Raises:
        StorageError: if it cannot be written.
    """
    if data.problems:
        write_quarantine(data.problems, path)
        log.info("Rows that are not used are listed in %s.", path)


def _look_at_file(clip: Clip) -> None:
    if not clip.no_speech:
        for part in clip.example.parts or (clip.example,):
            audio_duration(part.audio_path)


def _detect_language(source: SourceData, config: TrainingConfig, base: Base) -> str | None:
    """What the base hears in a few of the clips that name no language; None if all do."""
    examples = undecided(source, config)
    if not examples or not base.decoder.tokens.languages:
        return None
    audio = [read_audio(e.audio_path, e.start_seconds, e.end_seconds) for e in examples]
    with torch.no_grad():
        rows = base.decoder.detect_language(base.decoder.encode(audio))
    votes = [next(iter(row)) for row in rows]
    winner = max(votes, key=votes.count)
    log.info("No language named: %s was heard in %s of %s clips.", winner, votes.count(winner), len(votes))
    return winner


def _report(
    data: TrainingData, source: SourceData, detected: str | None, made_times: int, events: EventLog
) -> None:
    skipped = [{"line": p.line, "reason": p.reason} for p in data.problems[:_SHOWN_PROBLEMS]]
    events.write(
        "data",
        train_samples=len(data.train),
        eval_samples=len(data.evaluation),
        train_hours=data.train_hours,
        eval_source=source.eval_source,
        languages=list(data.languages),
        detected_language=detected,
        made_times=made_times,
        skipped_count=len(data.problems),
        skipped=skipped,
    )
    log.info("%s clips to train on, %s to evaluate", len(data.train), len(data.evaluation))
    for problem in skipped:
        log.info("not used: line %s: %s", problem["line"], problem["reason"])
