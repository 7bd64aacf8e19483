"""What a run learns from: manifests read, split, checked, and written as token sequences.

Nothing is decoded here. Rows that cannot be used are listed with their line and the reason, and are never
replaced by others.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.dataset.manifest import Example, Manifest, RowProblem, read_manifest
from studio.errors import ConfigError, ManifestError
from studio.evaluation.normalize import normalize, writes_without_spaces
from studio.inference.languages import AUTO, resolve_language
from studio.inference.special_tokens import SECONDS_PER_TOKEN, SpecialTokens
from studio.training.config import TrainingConfig

DEMO = "demo"
WINDOW_SECONDS = 30.0


@dataclass(frozen=True)
class Clip:
    """An example, and what the model should say about it."""

    example: Example
    language: str
    """Code."""
    task: str
    labels: tuple[int, ...]
    """Language, task, no-timestamps, text, end: without the start token, which the model puts in front."""
    timed_labels: tuple[int, ...] = ()
    """The same with the times of its segments; empty where they are unknown or not to be learned."""


@dataclass(frozen=True)
class SourceData:
    """The rows of a run before a model is there."""

    train: Manifest
    train_examples: tuple[Example, ...]
    eval_examples: tuple[Example, ...]
    eval_source: str
    """Where the evaluation clips come from, for people."""
    problems: tuple[RowProblem, ...]
    data_hash: str


@dataclass(frozen=True)
class TrainingData:
    """The clips of a run."""

    train: tuple[Clip, ...]
    evaluation: tuple[Clip, ...]
    problems: tuple[RowProblem, ...]

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the training clips, most frequent first."""
        codes = [clip.language for clip in self.train]
        return tuple(sorted(set(codes), key=lambda code: (-codes.count(code), code)))

    @property
    def train_hours(self) -> float:
        """Length of the training clips."""
        return sum(clip.example.duration_seconds or 0.0 for clip in self.train) / 3600


def read_source(config: TrainingConfig) -> SourceData:
    """Reads the manifests and leaves out clips that are too short or too long.

    Without `test_data`, the demo speech has its own validation part, and of anything else a share is kept
    back, drawn with the seed.

    Raises:
        ManifestError: if a manifest cannot be used, or nothing is left.
        HubUnreachableError: if a Hub dataset cannot be reached.
    """
    train = _read(config, config.train_data, "train")
    examples, problems = _within_length(train.examples, config)
    problems = [*train.problems, *problems]
    _require(examples, config.train_data, problems)
    test_source = config.test_data or (f"{DEMO}:validation" if config.train_data == DEMO else "")
    data_hash = train.hash
    if test_source:
        test = _read(config, test_source, "test")
        held, held_problems = _within_length(test.examples, config)
        problems += [*test.problems, *held_problems]
        _require(held, test_source, problems)
        eval_source = test_source
    else:
        examples, held = _split(examples, config)
        eval_source = f"{config.validation_share:.0%} of {config.train_data}"
    rng = random.Random(config.seed)
    if config.max_train_samples and len(examples) > config.max_train_samples:
        examples = rng.sample(examples, config.max_train_samples)
    if config.max_eval_samples and len(held) > config.max_eval_samples:
        held = rng.sample(held, config.max_eval_samples)
    return SourceData(train, tuple(examples), tuple(held), eval_source, tuple(problems), data_hash)


def undecided(source: SourceData, config: TrainingConfig) -> tuple[Example, ...]:
    """Examples whose language nobody told, up to five of them, for the model to listen to."""
    if resolve_language(config.language) != AUTO:
        return ()
    every = (*source.train_examples, *source.eval_examples)
    return tuple(example for example in every if not example.language)[:5]


def label_data(
    source: SourceData,
    config: TrainingConfig,
    tokens: SpecialTokens,
    encode: Callable[[str], list[int]],
    detected: str | None,
    longest: int,
) -> TrainingData:
    """Writes the labels. `encode` gives the text tokens of a text, `detected` the language of rows that
    name none, `longest` the most tokens a label may have (448).

    Raises:
        ConfigError: if a language is none of the model's, or the task is not.
        ManifestError: if no row is left.
    """
    problems = list(source.problems)
    tokens.checked_task(config.task)
    default = resolve_language(config.language, tokens.languages)
    if default == AUTO:
        default = detected or AUTO

    def clips(examples: Sequence[Example], *, with_times: bool) -> tuple[Clip, ...]:
        kept = []
        for example in examples:
            clip = _clip(example, config, tokens, encode, default, with_times=with_times)
            if max(len(clip.labels), len(clip.timed_labels)) > longest:
                problems.append(
                    RowProblem.of(
                        example.line,
                        str(example.audio_path),
                        "label_too_long",
                        "The label has {count} tokens, and the model takes {longest}: cut the clip in parts.",
                        count=max(len(clip.labels), len(clip.timed_labels)),
                        longest=longest,
                    )
                )
            else:
                kept.append(clip)
        return tuple(kept)

    train = clips(source.train_examples, with_times=config.timestamps)
    evaluation = clips(source.eval_examples, with_times=False)
    _require(train, config.train_data, problems)
    _require(evaluation, source.eval_source, problems)
    # Clips of like length make batches that finish together.
    by_length = sorted(evaluation, key=lambda clip: -len(clip.labels))
    return TrainingData(train, tuple(by_length), tuple(problems))


def _read(config: TrainingConfig, source: str, split: str) -> Manifest:
    cache_dir = Path(config.cache_dir) if config.cache_dir else None
    return read_manifest(source, split=split, cache_dir=cache_dir, local_files_only=config.local_files_only)


def _within_length(
    examples: Sequence[Example], config: TrainingConfig
) -> tuple[list[Example], list[RowProblem]]:
    kept, problems = [], []
    for example in examples:
        seconds = example.duration_seconds or 0.0
        if config.min_audio_len <= seconds <= config.max_audio_len:
            kept.append(example)
            continue
        is_short = seconds < config.min_audio_len
        problems.append(
            RowProblem.of(
                example.line,
                str(example.audio_path),
                "too_short" if is_short else "too_long",
                "The clip lasts {seconds:.2f} s, and {option} is {limit:g} s.",
                seconds=seconds,
                option="min_audio_len" if is_short else "max_audio_len",
                limit=config.min_audio_len if is_short else config.max_audio_len,
            )
        )
    return kept, problems


def _split(examples: list[Example], config: TrainingConfig) -> tuple[list[Example], list[Example]]:
    """Keeps a share back for evaluation, at least one clip and never all."""
    if len(examples) < 2:
        raise ManifestError(
            "{source} has a single usable clip: give at least two, or test_data for evaluation.",
            source=config.train_data,
        )
    count = min(len(examples) - 1, max(1, round(config.validation_share * len(examples))))
    held = set(random.Random(config.seed).sample(range(len(examples)), count))
    return (
        [example for index, example in enumerate(examples) if index not in held],
        [example for index, example in enumerate(examples) if index in held],
    )


def _require(rows: Sequence[object], source: str, problems: Sequence[RowProblem]) -> None:
    if rows:
        return
    raise ManifestError(
        "No clip of {source} can be used: {count} rows have problems. Line {line}: {reason}",
        source=source,
        count=len(problems),
        line=problems[0].line if problems else 0,
        reason=problems[0].reason if problems else "",
    )


def _clip(
    example: Example,
    config: TrainingConfig,
    tokens: SpecialTokens,
    encode: Callable[[str], list[int]],
    default: str,
    *,
    with_times: bool,
) -> Clip:
    language = _language(example, config, tokens, default)
    task = tokens.checked_task(example.task or config.task)
    # Whisper puts a space before each sentence, except in languages that write none.
    spoken = "en" if task == "translate" else language
    space = "" if writes_without_spaces(spoken) else " "

    def text_tokens(text: str) -> list[int]:
        return encode(space + normalize(text, config.normalizer).strip())

    plain = [*tokens.prompt(language, task, with_times=False)[1:], *text_tokens(example.text), tokens.end]
    if not (with_times and example.segments):
        return Clip(example, language, task, tuple(plain))
    timed = tokens.prompt(language, task, with_times=True)[1:]
    for segment in example.segments:
        timed += [_time(tokens, segment.start_seconds), *text_tokens(segment.text)]
        timed.append(_time(tokens, segment.end_seconds))
    return Clip(example, language, task, tuple(plain), (*timed, tokens.end))


def _language(example: Example, config: TrainingConfig, tokens: SpecialTokens, default: str) -> str:
    """An explicit language of the run, else the row's, else the detected one."""
    if resolve_language(config.language) != AUTO:
        return default
    if not example.language:
        return default
    try:
        code = resolve_language(example.language, tokens.languages)
    except ConfigError as error:
        raise ConfigError("Line {line}: {reason}", line=example.line, reason=str(error)) from error
    return default if code == AUTO else code


def _time(tokens: SpecialTokens, seconds: float) -> int:
    within = min(max(seconds, 0.0), WINDOW_SECONDS)
    return tokens.first_time + round(within / SECONDS_PER_TOKEN)
