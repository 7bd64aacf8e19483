"""What a run learns from, written as token sequences.

Nothing is decoded here. Rows that cannot be used are listed with their line and the reason, and are never
replaced by others.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from math import fsum
from pathlib import Path

from studio.dataset.manifest import Example, RowProblem
from studio.dataset.sequences import Made, chosen, joined
from studio.dataset.written import written_in
from studio.errors import ConfigError
from studio.evaluation.normalize import normalize, writes_without_spaces
from studio.options.training import TrainingConfig
from studio.training.data.augmentation import Draw
from studio.training.data.sources import SourceData, require
from studio.transcription.languages import AUTO, resolve_language
from studio.transcription.special_tokens import SECONDS_PER_TOKEN, SpecialTokens
from studio.transcription.windows import WINDOW_SECONDS

_LONGEST_PROMPT = 223
"""Half of the decoder's positions, as in Whisper's own decoding."""


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
    before: tuple[int, ...] = ()
    """What the decoder may be given before the label: previous text, start token; empty if none is known."""
    no_speech: int = 0
    """Number of a clip in which nobody speaks, from 1; 0 for one that is in the data."""
    draw: Draw | None = field(default=None, compare=False)
    """How it is augmented this time; None: not at all."""
    place: int | None = field(default=None, compare=False)
    """In a batch of the size that the run began with; None where nobody has put it into one."""

    @property
    def most_tokens(self) -> int:
        """Of the longest label it may be taught."""
        return max(len(self.labels), len(self.timed_labels))


@dataclass(frozen=True)
class TrainingData:
    """The clips of a run."""

    train: Sequence[Clip]
    evaluation: Sequence[Clip]
    problems: tuple[RowProblem, ...]

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the training clips, most frequent first."""
        counts = Counter(clip.language for clip in self.train)
        return tuple(sorted(counts, key=lambda code: (-counts[code], code)))

    @cached_property
    def written_language(self) -> str:
        """Code of the language that most of the training texts are in."""
        counts = Counter(written_in(clip.language, clip.task) for clip in self.train)
        return min(counts, key=lambda code: (-counts[code], code))

    @cached_property
    def train_hours(self) -> float:
        """Length of the training clips, without those that nobody speaks in."""
        return fsum(clip.example.duration_seconds or 0.0 for clip in self.train if not clip.no_speech) / 3600


def undecided(source: SourceData, config: TrainingConfig) -> Iterator[Example]:
    """Examples whose language nobody told, for the model to listen to."""
    if resolve_language(config.language) != AUTO:
        return iter(())
    every = chain(source.train_examples, source.eval_examples)
    return (example for example in every if not example.language)


def teachable(config: TrainingConfig, tokens: SpecialTokens) -> Callable[[Example], RowProblem | None]:
    """Finds rows that cannot be trained on, because the model lacks their language or task.

    Raises:
        ConfigError: if the language of the run is none of the model's, or its task is not.
    """
    tokens.checked_task(config.task)
    default = _default_language(config, tokens, None)

    def problem(example: Example) -> RowProblem | None:
        """Why a row cannot be taught; None if it can."""
        try:
            _language(example, config, tokens, default)
            tokens.checked_task(example.task or config.task)
        except ConfigError as error:
            return RowProblem.from_error(example, error)
        return None

    return problem


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
    make = clip_maker(config, tokens, encode, detected)
    train = partial(make, with_times=config.timestamps)
    evaluation = partial(make, with_times=False)
    train_clips = _fitting(source.train_examples, train, longest, problems)
    eval_clips = _fitting(source.eval_examples, evaluation, longest, problems)
    for clips, name in ((train_clips, config.train_data), (eval_clips, source.eval_source)):
        require(clips, name, problems)
    silent = _silent_clips(train_clips, config, tokens)
    # Clips of like length make batches that finish together.
    lengths = [-len(clip.labels) for clip in eval_clips]
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    train_clips = joined([train_clips, silent]) if silent else train_clips
    return TrainingData(train_clips, chosen(eval_clips, by_length), tuple(problems))


def clip_maker(
    config: TrainingConfig, tokens: SpecialTokens, encode: Callable[[str], list[int]], detected: str | None
) -> Callable[..., Clip]:
    """What makes the clip of an example, `with_times` or without; the arguments are those of `label_data`.

    Raises:
        ConfigError: as `teachable`; what comes back raises it for a row that cannot be taught.
    """
    tokens.checked_task(config.task)
    return partial(_clip, config, tokens, encode, _default_language(config, tokens, detected))


def _fitting(
    examples: Sequence[Example], make: Callable[[Example], Clip], longest: int, problems: list[RowProblem]
) -> Sequence[Clip]:
    """The clips whose labels fit; the others are named. Where there are many, clips are made when read."""
    kept = []
    for place, example in enumerate(examples):
        count = make(example).most_tokens
        if count <= longest:
            kept.append(place)
            continue
        problems.append(
            RowProblem.of(
                example,
                "label_too_long",
                "The label has {count} tokens, and the model takes {longest}: cut the clip in parts.",
                count=count,
                longest=longest,
            )
        )
    usable = chosen(examples, kept)
    return tuple(map(make, usable)) if isinstance(usable, tuple) else Made(usable, make)


def _clip(
    config: TrainingConfig,
    tokens: SpecialTokens,
    encode: Callable[[str], list[int]],
    default: str,
    example: Example,
    *,
    with_times: bool,
) -> Clip:
    language = _language(example, config, tokens, default)
    task = tokens.checked_task(example.task or config.task)
    # Whisper puts a space before each sentence, except in languages that write none.
    space = "" if writes_without_spaces(written_in(language, task)) else " "

    def text_tokens(text: str) -> list[int]:
        """Tokens of a text, at most as many as a label may have."""
        said = normalize(text, config.normalizer).strip()
        return encode(space + said) if said else []  # or nobody speaks

    plain = [*tokens.prompt(language, task, with_times=False)[1:], *text_tokens(example.text), tokens.end]
    before = _before(example, tokens, text_tokens) if config.condition_on_prev_probability else ()
    is_silent = config.needs_texts and not example.text
    if not with_times or not (example.segments or is_silent):
        return Clip(example, language, task, tuple(plain), before=before)
    timed = [*tokens.prompt(language, task, with_times=True)[1:], *([tokens.first_time] * is_silent)]
    for segment in example.segments:
        said = text_tokens(segment.text)
        if said or not segment.text:  # where only marks were, nothing is said
            timed += [_time(tokens, segment.start_seconds), *said, _time(tokens, segment.end_seconds)]
    return Clip(example, language, task, tuple(plain), (*timed, tokens.end), before)


def _before(
    example: Example, tokens: SpecialTokens, text_tokens: Callable[[str], list[int]]
) -> tuple[int, ...]:
    if not example.previous_text or tokens.previous is None:
        return ()
    return (tokens.previous, *text_tokens(example.previous_text)[-_LONGEST_PROMPT:], tokens.start)


def _silent_clips(train: Sequence[Clip], config: TrainingConfig, tokens: SpecialTokens) -> tuple[Clip, ...]:
    """Clips without speech, `no_speech_share` of all and as long as they; their text is its end."""
    count = round(config.no_speech_share / (1 - config.no_speech_share) * len(train))
    rng = random.Random(config.seed)
    made = []
    for number in range(1, count + 1):
        like = rng.choice(train)
        seconds = like.example.duration_seconds or WINDOW_SECONDS
        example = Example(Path("no-speech"), "", like.language, like.task, None, None, seconds, (), number)
        plain = (*tokens.prompt(like.language, like.task, with_times=False)[1:], tokens.end)
        timed = (*tokens.prompt(like.language, like.task, with_times=True)[1:], tokens.first_time, tokens.end)
        made.append(
            Clip(
                example, like.language, like.task, plain, timed if config.timestamps else (), no_speech=number
            )
        )
    return tuple(made)


def with_draw(clip: Clip, draw: Draw, first_time: int) -> Clip:
    """The clip as it is augmented this time; the times of its label follow its speed.

    `first_time` is the token `<|0.00|>`.
    """

    last = round(WINDOW_SECONDS / SECONDS_PER_TOKEN)  # a base may write times beyond the end of the sound

    def followed(label: tuple[int, ...]) -> tuple[int, ...]:
        """A label with its times where they are at that speed."""
        return tuple(
            first_time + min(last, round((token - first_time) / draw.speed)) if token >= first_time else token
            for token in label
        )

    if draw.speed == 1.0:
        return replace(clip, draw=draw)
    return replace(clip, draw=draw, labels=followed(clip.labels), timed_labels=followed(clip.timed_labels))


def example_language(
    example: Example, config: TrainingConfig, tokens: SpecialTokens, default: str | None
) -> str:
    """Code of the language that an example is taught in; `default` is what was heard, if somebody listened.

    Raises:
        ConfigError: if it is none of the model's.
    """
    return _language(example, config, tokens, _default_language(config, tokens, default))


def _default_language(config: TrainingConfig, tokens: SpecialTokens, detected: str | None) -> str:
    said = resolve_language(config.language, tokens.languages)
    return (detected or AUTO) if said == AUTO else said


def _language(example: Example, config: TrainingConfig, tokens: SpecialTokens, default: str) -> str:
    """An explicit language of the run, else the row's, else the detected one."""
    if resolve_language(config.language) != AUTO:
        return default
    if not example.language:
        return default
    code = resolve_language(example.language, tokens.languages)
    return default if code == AUTO else code


def _time(tokens: SpecialTokens, seconds: float) -> int:
    within = min(max(seconds, 0.0), WINDOW_SECONDS)
    return tokens.first_time + round(within / SECONDS_PER_TOKEN)
