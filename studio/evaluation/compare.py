"""Models side by side on one test set: error rates, and whether the differences are more than chance."""

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.example import Example, Manifest, RowProblem, in_order, place_of
from studio.dataset.manifest import read_manifest
from studio.dataset.shared import digest_of
from studio.errors import ConfigError, DataError, ManifestError
from studio.evaluation.corrections import Clip, Corrections, clip_of
from studio.evaluation.kept_texts import KeptClip, KeptSoFar, KeptTexts
from studio.evaluation.metrics import error_rates, paired_bootstrap, token_distances
from studio.evaluation.non_speech import figure_of, hear_non_speech
from studio.evaluation.normalize import normalize
from studio.evaluation.result import (
    ComparisonRow,
    Evaluation,
    ModelRow,
    NonSpeech,
    NormalizerRow,
    UtteranceRow,
)
from studio.evaluation.scripts import scripts_of
from studio.evaluation.side_by_side import require_each_once
from studio.options.checks import check_choice
from studio.options.choices import NORMALIZERS
from studio.registry.spec import ModelSpec
from studio.settings import Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.languages import AUTO, resolve_language
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import ClipText, Transcriber
from studio.watching import OnStep, ShouldStop, never, untold

BATCH_SIZE = 8
KEPT = "evaluations"
"""Folder of the cache with what models wrote."""
COMPARED_METRICS = ("wer", "cer")
PLAIN, ANY_ENGINE = TranscribeOptions(timestamps="none"), EngineChoice()
"""How models are compared unless told otherwise."""
_LONGEST_IN_A_BATCH = 30 * SAMPLING_RATE
_SILENCE = 1e-10
"""Power of what counts as no sound at all: 100 decibels below full scale."""

OnProgress = Callable[[int, int], None]
"""Clips done and clips in all, over all models."""


@dataclass
class _Heard:
    """What one model wrote so far, by place of the clip."""

    model: str
    texts: dict[int, str] = field(default_factory=dict)
    logprobs: dict[int, float | None] = field(default_factory=dict)
    seconds: float = 0.0
    sound_seconds: float = 0.0
    non_speech: NonSpeech | None = None

    @property
    def real_time_factor(self) -> float:
        """Seconds of computing a second of sound."""
        return self.seconds / self.sound_seconds if self.sound_seconds else 0.0


@dataclass
class _TestSet:
    """The clips, and those of them that turned out to be unusable."""

    source: str
    examples: list[Example]
    durations: dict[int, float]
    loudnesses: dict[int, float]
    problems: dict[int, RowProblem]
    longest_seconds: float
    """A longer clip is left out, as where one transcribes."""

    @property
    def left_out(self) -> tuple[RowProblem, ...]:
        """Rows that cannot be used, by their line."""
        return in_order(self.problems.values())

    def batches(self, done: Collection[int]) -> Iterator[list[tuple[int, NDArray[np.float32]]]]:
        """Clips that are not done, with their places, `BATCH_SIZE` at a time; one over 30 s comes alone."""
        batch: list[tuple[int, NDArray[np.float32]]] = []
        for place in [place for place in range(len(self.examples)) if place not in done]:
            samples = self._read(place, self.examples[place])
            if samples is None:
                continue
            if len(samples) > _LONGEST_IN_A_BATCH:
                yield [(place, samples)]
                continue
            batch.append((place, samples))
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
        if batch:
            yield batch

    def kept(self, place: int, heard: "_Heard") -> KeptClip:
        """A clip that was heard, with what was written of it."""
        length, loudness = self.durations[place], self.loudnesses[place]
        return KeptClip(place, heard.texts[place], length, loudness, heard.logprobs[place])

    def _read(self, place: int, example: Example) -> NDArray[np.float32] | None:
        if place in self.problems:
            return None
        try:
            samples = read_audio(
                example.audio_path, example.start_seconds, example.end_seconds, self.longest_seconds
            )
        except DataError as error:
            self.problems[place] = RowProblem.from_error(example, error)
            return None
        self.durations[place] = len(samples) / SAMPLING_RATE
        energy = float(np.dot(samples, samples)) / max(1, len(samples))
        self.loudnesses[place] = 10 * math.log10(energy + _SILENCE)
        return samples


@dataclass(frozen=True)
class EvaluationRequest:
    """Which models hear which clips, and how."""

    models: Sequence[str]
    data: str
    options: TranscribeOptions = PLAIN
    """With the language `auto` the list's is taken where it has one."""
    normalizer: str = "none"
    split: str = "test"
    max_samples: int | None = None
    seconds: tuple[float, float] = (0.0, math.inf)
    """Clips that are shorter or longer are left out."""
    local_files_only: bool = False
    choice: EngineChoice = ANY_ENGINE
    kept: Path | None = None
    """Folder with what was written until an evaluation was stopped or killed: the next one of the same
    models, clips and options goes on there. Of one that came to its end, an evaluation of the same clips with
    other references, as after `corrections` or of the list that was saved with them, hears nothing again."""
    corrections: Corrections = field(default_factory=dict)
    non_speech: bool = False
    """Whether each model is also measured on what it writes where nobody speaks."""
    scores: bool = True
    """Without, there are only texts and speeds."""

    def manifest(self, settings: Settings) -> Manifest:
        """The list of the clips, of whatever length.

        Raises:
            ManifestError, HubUnreachableError: if the data cannot be read.
        """
        return read_manifest(
            self.data,
            settings,
            split=self.split,
            max_rows=self.max_samples,
            local_files_only=self.local_files_only,
        )

    def clips(self, manifest: Manifest) -> list[Example]:
        """Those of the length that is asked for.

        Raises:
            ManifestError: if there are none.
        """
        shortest, longest = self.seconds
        clips = [clip for clip in manifest.examples if shortest <= (clip.duration_seconds or 0.0) <= longest]
        if not clips:
            raise ManifestError(
                "{source} has {count} clips, and none is between {low:g} and {high:g} seconds long."
                if longest < math.inf
                else "{source} has {count} clips, and none lasts {low:g} seconds or more.",
                count=len(manifest.examples),
                source=manifest.source,
                low=shortest,
                high=longest,
            )
        return clips


def evaluate(
    engines: ModelCache,
    asked: EvaluationRequest,
    settings: Settings,
    *,
    on_step: OnStep = untold,
    on_progress: OnProgress = untold,
    should_stop: ShouldStop = never,
) -> Evaluation:
    """Transcribes a test set with each model in turn and compares each with the first.

    Clips are decoded in batches, without times and without judging whether anybody speaks, as in the
    evaluation of a training run. If `should_stop` says so, the rates are over the clips that all models that
    were reached have done.

    Raises:
        ConfigError: if no model is given, or one twice, or a model lacks the language, or there is no such
            normaliser, or the engine that is chosen does not play a model.
        ManifestError: if the data cannot be read, or not one of the clips can be used.
        ModelError, HubUnreachableError: if a model cannot be loaded.
    """
    options, choice, kept = asked.options, asked.choice, asked.kept
    require_each_once(asked.models)
    check_choice("normalizer", asked.normalizer, NORMALIZERS)
    manifest = asked.manifest(settings)
    told = asked.corrections
    read = [replace(clip, text=told.get(clip_of(clip), clip.text)) for clip in asked.clips(manifest)]
    clips, languages, unknown = _spoken(read, options)
    if not clips:
        raise _none_usable(asked.data, unknown[0])
    for model_id in asked.models:  # each of them before the first, which may take hours
        _require_languages(engines.look_up(model_id, choice), options.task, languages, clips, asked.data)
    problems = {-number: problem for number, problem in enumerate((*manifest.problems, *unknown), 1)}
    tests = _TestSet(asked.data, clips, {}, {}, problems, engines.longest_seconds)
    heard: list[_Heard] = []
    total = len(tests.examples) * len(asked.models)
    through: list[tuple[KeptTexts, str]] = []
    before = 0
    sounds = _sounds_of(clips) if kept else ""
    mark = f"{tests.source} {Manifest(tests.source, '', clips, ()).hash}" if kept else ""
    for model_id in asked.models:
        if should_stop():
            break
        way = (engines.state_of(model_id), choice, options, sounds) if kept else ()
        keeping = KeptTexts(kept, mark, *way) if kept else None
        found = keeping.read() if keeping else KeptSoFar()
        heard.append(_Heard(found.model))
        _take_up(found, tests, heard[-1])
        before += len(found.clips)
        if not found.model or len(found.clips) < len(clips) or asked.non_speech:
            with engines.lease(model_id, choice, on_step) as engine:
                heard[-1].model = engine.model_id

                def report(done: int, before: int = len(tests.examples) * (len(heard) - 1)) -> None:
                    """Tells how many clips are done over all models."""
                    on_progress(before + done, total)

                _hear_all(engine, tests, options, heard[-1], report, should_stop, keeping)
                if asked.non_speech:
                    texts = hear_non_speech(engine, language_of(options, clips[0]), should_stop)
                    heard[-1].non_speech = figure_of(texts) if texts else None
        through += [(keeping, heard[-1].model)] if keeping else []
    unscored = _evaluation(tests, heard, asked.normalizer)
    scored = _scored(unscored) if asked.scores else unscored
    evaluation = replace(scored, heard_before=before, task=options.task)
    if not should_stop():
        for keeping, name in through:
            keeping.close(name)
    return evaluation


def _spoken(
    clips: Sequence[Example], options: TranscribeOptions
) -> tuple[list[Example], list[str], list[RowProblem]]:
    """Clips and the language of each; and those whose row names a language that Whisper has not.

    Raises:
        ConfigError: if the language for all is such a one.
    """
    resolve_language(options.language)
    kept, languages, problems = [], [], []
    for clip in clips:
        try:
            languages.append(resolve_language(language_of(options, clip)))
        except ConfigError as error:
            problems.append(RowProblem.from_error(clip, error))
        else:
            kept.append(clip)
    return kept, languages, problems


def _none_usable(source: str, first: RowProblem) -> ManifestError:
    return ManifestError(
        "Not one clip of {source} can be used; the first problem, in {place}: {reason}",
        source=source,
        place=first.place,
        reason=first.reason,
    )


def _sounds_of(clips: Sequence[Example]) -> str:
    """SHA-256 over what decides what is heard of them: the files' sound, times and languages."""
    digest = hashlib.sha256()
    for clip in clips:
        row = (digest_of(clip), clip.language, clip.start_seconds, clip.end_seconds)
        digest.update(repr(row).encode("utf-8"))
    return digest.hexdigest()


def _require_languages(
    model: ModelSpec, task: str, languages: Sequence[str], clips: Sequence[Example], source: str
) -> None:
    if model.is_multilingual:  # which languages those are, only its tokenizer says
        return
    if task == "translate":
        raise ConfigError(
            "{model} knows English only and has nothing to translate: leave it out, or choose the task "
            "transcribe.",
            model=model.id,
        )
    for clip, language in zip(clips, languages, strict=True):
        if language not in (AUTO, "en"):
            raise ConfigError(
                "{model} knows English only, and {place} is to be heard as {language}: leave out this model, "
                "or choose multilingual ones.",
                model=model.id,
                place=place_of(clip.line, clip.source or source),
                language=language,
            )


def _take_up(found: KeptSoFar, tests: _TestSet, heard: _Heard) -> None:
    """What was heard before."""
    heard.seconds = found.seconds
    for clip in found.clips:
        heard.texts[clip.place], heard.logprobs[clip.place] = clip.text, clip.average_logprob
        heard.sound_seconds += clip.duration_seconds
        tests.durations[clip.place], tests.loudnesses[clip.place] = clip.duration_seconds, clip.loudness_db


def _hear_all(
    engine: Transcriber,
    tests: _TestSet,
    options: TranscribeOptions,
    heard: _Heard,
    report: Callable[[int], None],
    should_stop: ShouldStop,
    kept: KeptTexts | None,
) -> None:
    done = len(heard.texts)
    for batch in tests.batches(heard.texts):
        if should_stop():
            return
        began = time.perf_counter()
        for (place, samples), one in zip(batch, _texts(engine, tests, batch, options), strict=True):
            heard.texts[place], heard.logprobs[place] = one.text, one.average_logprob
            heard.sound_seconds += len(samples) / SAMPLING_RATE
        took = time.perf_counter() - began
        heard.seconds += took
        if kept:
            kept.add([tests.kept(place, heard) for place, _ in batch], took)
        done += len(batch)
        report(done)
    report(len(tests.examples))


def _texts(
    engine: Transcriber,
    tests: _TestSet,
    batch: list[tuple[int, NDArray[np.float32]]],
    options: TranscribeOptions,
) -> list[ClipText]:
    languages = [language_of(options, tests.examples[place]) for place, _ in batch]
    samples = [clip for _, clip in batch]
    if len(samples[0]) <= _LONGEST_IN_A_BATCH:
        return engine.hear_batch(samples, options, languages)
    alone = replace(options, language=languages[0], timestamps="none")
    transcript = engine.transcribe_samples(samples, len(samples[0]) / SAMPLING_RATE, alone)
    return [ClipText(transcript.text, None)]


def language_of(options: TranscribeOptions, example: Example) -> str:
    """What is said in a clip, as far as anybody says so."""
    return options.language if resolve_language(options.language) != AUTO else example.language or AUTO


def _evaluation(tests: _TestSet, reached: list[_Heard], normalizer: str) -> Evaluation:
    heard = [model for model in reached if model.texts]
    places = [place for place in sorted(tests.durations) if all(place in model.texts for model in heard)]
    if not heard and reached and not tests.durations:
        raise _none_usable(tests.source, tests.left_out[0])
    if not heard:
        return Evaluation(tests.source, (), (), (), tests.left_out)
    return Evaluation(
        tests.source,
        tuple(
            ModelRow(*(one.model, 0.0, 0.0, 0.0, normalizer, 0, one.real_time_factor, {}, one.non_speech))
            for one in heard
        ),
        (),
        tuple(_utterance(tests, place, model) for place in places for model in heard),
        tests.left_out,
    )


def _scored(found: Evaluation) -> Evaluation:
    """An evaluation with everything in it that follows from what was said and what models wrote."""
    if not found.models:
        return found
    count, normalizer = len(found.models), found.models[0].normalizer
    references = [row.reference for row in found.utterances[::count]]
    hypotheses = [[row.hypothesis for row in found.utterances[n::count]] for n in range(count)]
    normal = cache(partial(normalize, name=normalizer))  # many texts are alike, and each is needed often
    given, *heard = ([normal(text) for text in side] for side in (references, *hypotheses))
    names = [model.id for model in found.models]
    rates = [
        [(errors / np.maximum(1, lengths)).tolist() for errors, lengths in _errors(given, texts)]
        for texts in heard
    ]
    return replace(
        found,
        models=tuple(
            replace(model, **vars(error_rates(given, texts)), scripts=scripts_of(written))
            for model, texts, written in zip(found.models, heard, hypotheses, strict=True)
        ),
        comparisons=tuple(
            ComparisonRow(a=names[0], b=name, **asdict(paired_bootstrap(given, heard[0], texts, metric)))
            for name, texts in zip(names[1:], heard[1:], strict=True)
            for metric in COMPARED_METRICS
        ),
        utterances=tuple(
            replace(row, wer=rates[n % count][0][n // count], cer=rates[n % count][1][n // count])
            for n, row in enumerate(found.utterances)
        ),
        reference_scripts=scripts_of(references),
        normalizers=tuple(every_normalizer(names, references, hypotheses)),
    )


def with_normalizer(found: Evaluation, normalizer: str) -> Evaluation:
    """The same texts, compared after another normalisation."""
    models = tuple(replace(model, normalizer=normalizer) for model in found.models)
    return _scored(replace(found, models=models))


def with_references(
    found: Evaluation, corrections: Corrections, source: str, lines: Mapping[Clip, int] | None = None
) -> Evaluation:
    """The same texts against corrected references, which `source` has, clips in those of its `lines`. Rows
    that could not be used are in no new list.
    """
    is_other = source != found.source
    told, problems = lines or {}, () if is_other else found.problems

    def corrected(row: UtteranceRow) -> UtteranceRow:
        """The row with its corrected reference, if there is one."""
        clip = clip_of(row)
        reference, line = corrections.get(clip, row.reference), told.get(clip, row.line)
        return replace(row, reference=reference, line=line, source="" if is_other else row.source)

    utterances = tuple(map(corrected, found.utterances))
    return _scored(replace(found, source=source, utterances=utterances, problems=problems))


def every_normalizer(
    models: Sequence[str], references: Sequence[str], hypotheses: Sequence[Sequence[str]]
) -> Iterator[NormalizerRow]:
    """The same texts after each text normalisation, model by model: how much of a figure is its doing."""
    for name in NORMALIZERS:
        normal = cache(partial(normalize, name=name))
        given = [normal(text) for text in references]
        first: NDArray[np.int64] | None = None
        for model, texts in zip(models, hypotheses, strict=True):
            heard = [normal(text) for text in texts]
            words, said = token_distances(given, heard, "wer")
            characters, length = token_distances(given, heard, "cer")
            first = characters if first is None else first
            yield NormalizerRow(
                name,
                model,
                float(words.sum() / max(1, said.sum())),
                float(characters.sum() / max(1, length.sum())),
                better=int((characters < first).sum()),
                worse=int((characters > first).sum()),
            )


def _errors(
    given: Sequence[str], heard: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    return (token_distances(given, heard, metric) for metric in COMPARED_METRICS)


def _utterance(tests: _TestSet, place: int, model: _Heard) -> UtteranceRow:
    example = tests.examples[place]
    return UtteranceRow(
        model=model.model,
        audio_path=str(example.audio_path),
        line=example.line,
        start_seconds=example.start_seconds,
        end_seconds=example.end_seconds,
        duration_seconds=tests.durations[place],
        reference=example.text,
        hypothesis=model.texts[place],
        wer=0.0,
        cer=0.0,
        speaker=example.speaker,
        language=example.language,
        loudness_db=round(tests.loudnesses[place], 1),
        average_logprob=model.logprobs.get(place),
        source=example.source,
    )
