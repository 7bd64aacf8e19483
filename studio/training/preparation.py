"""From manifests and a loaded base to clips that can be learned from, and their features."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.dataset.example import Example, RowProblem
from studio.dataset.report import write_quarantine
from studio.dataset.sequences import joined
from studio.dataset.usable import HEARD_AT_ONCE, Judged, hear, judge_header, judge_heard, usable
from studio.errors import AudioError
from studio.options.training import TrainingConfig
from studio.training.adapters import Base
from studio.training.augmentation import Augmentation
from studio.training.collator import FeatureSource, fits_in_memory, readable
from studio.training.data import TrainingData, example_language, label_data, teachable, undecided
from studio.training.events import EventLog
from studio.training.made_times import with_made_times
from studio.training.packing import packed
from studio.training.sources import SourceData, require
from studio.training.stop import StopSignal
from studio.training.times_file import TimesFile
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.special_tokens import SpecialTokens

_SHOWN_PROBLEMS = 20
_LISTENED_TO = 5
"""Clips without a language."""
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
        ConfigError: if the model lacks the run's language or its task.
        ManifestError: if no clip is left.
        StopRequested: if a stop was asked for.
    """
    decoder = base.decoder
    longest = int(decoder.model.config.max_target_positions)
    source = _usable(source, config, decoder.tokens, stop)
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
    data = _those_with_features(data, features, stop)
    for clips, name in ((data.train, config.train_data), (data.evaluation, source.eval_source)):
        require(clips, name, data.problems)
    _report(data, source, detected, made_times, events)
    return data, features


def _usable(
    source: SourceData, config: TrainingConfig, tokens: SpecialTokens, stop: StopSignal
) -> SourceData:
    """The rows that can be taught, with their true lengths; the others join the problems."""
    # Of a large dataset only the files' headers are read now, so that training begins soon.
    is_small = len(source.train_examples) + len(source.eval_examples) <= HEARD_AT_ONCE
    bounds = config.min_audio_len, config.max_audio_len
    unteachable = teachable(config, tokens)

    def judge(example: Example) -> Judged:
        stop.check()
        if (problem := unteachable(example)) is not None:
            return problem
        return judge_heard(example, hear(example), *bounds) if is_small else judge_header(example, *bounds)

    found: list[RowProblem] = []
    train = usable(source.train_examples, judge, found)
    require(train, config.train_data, found)
    of_evaluation = len(found)
    evaluation = usable(source.eval_examples, judge, found)
    require(evaluation, source.eval_source, found[of_evaluation:])
    return replace(
        source, train_examples=train, eval_examples=evaluation, problems=(*source.problems, *found)
    )


def _features(data: TrainingData, config: TrainingConfig, decoder: TransformersModel) -> FeatureSource:
    """What makes the clips' features, and keeps them if they are not too many."""
    every = joined([data.train, data.evaluation])
    keep = fits_in_memory(every, decoder.extractor.feature_size * config.processes_per_machine)
    # Features are masked where they are made, by the run's own seed: not by the model once more.
    decoder.model.config.apply_spec_augment = False
    return FeatureSource(decoder.extractor, keep, Augmentation.of(config))


def _those_with_features(data: TrainingData, features: FeatureSource, stop: StopSignal) -> TrainingData:
    """The clips; of a small dataset those of which no features can be made join the problems."""
    if len(data.train) + len(data.evaluation) > HEARD_AT_ONCE:
        return data
    train, train_problems = readable(data.train, features, stop.check)
    evaluation, eval_problems = readable(data.evaluation, features, stop.check)
    return TrainingData(train, evaluation, (*data.problems, *train_problems, *eval_problems))


def set_aside(data: TrainingData, path: Path) -> None:
    """Lists the rows that the run does not learn from in `path`, each with its line and the reason.

    Raises:
        StorageError: if it cannot be written.
    """
    if data.problems:
        write_quarantine(data.problems, path)
        log.info("Rows that are not used are listed in %s.", path)


def _detect_language(source: SourceData, config: TrainingConfig, base: Base) -> str | None:
    """What the base hears in a few of the clips that name no language; None if all do."""
    if not base.decoder.tokens.languages or next(undecided(source, config), None) is None:
        return None
    audio = list(islice(_sounds(undecided(source, config)), _LISTENED_TO))
    if not audio:  # of a large dataset: its batches are made without them
        return next(iter(base.decoder.tokens.languages))
    with torch.no_grad():
        rows = base.decoder.detect_language(base.decoder.encode(audio))
    votes = [next(iter(row)) for row in rows]
    winner = max(votes, key=votes.count)
    log.info("No language named: %s was heard in %s of %s clips.", winner, votes.count(winner), len(votes))
    return winner


def _sounds(examples: Iterable[Example]) -> Iterator[NDArray[np.float32]]:
    """Of those that can be read."""
    for example in examples:
        with suppress(AudioError):
            yield read_audio(example.audio_path, example.start_seconds, example.end_seconds)


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
