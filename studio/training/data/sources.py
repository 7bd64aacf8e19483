"""Which clips a run learns from and which it is judged by: manifests read, joined, split and mixed."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from studio.dataset.manifest import Example, Manifest, RowProblem, read_manifest
from studio.dataset.sequences import chosen, joined
from studio.dataset.shared import digest_of
from studio.dataset.usable import HEARD_AT_ONCE, Judged, hear, judge_header, judge_heard, judge_length, usable
from studio.errors import ConfigError, ManifestError
from studio.evaluation.normalize import normalize
from studio.evaluation.other_languages import clips_in_other_languages
from studio.messages import Message
from studio.options.sources import is_demo, sources_of
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.transcription.languages import AUTO, resolve_language

_OTHER_CLIPS = 40
"""At most: of these a recording of a minute is put together, which is heard after the run."""
_LARGEST_GROUP = 1 / 3
"""A speaker with more of the clips than this is not kept back whole."""


@dataclass(frozen=True)
class SourceData:
    """The rows of a run before a model is there."""

    train_examples: Sequence[Example]
    eval_examples: Sequence[Example]
    eval_source: str
    """Where the evaluation clips come from, for people."""
    problems: tuple[RowProblem, ...]
    data_hash: str


def read_source(
    config: TrainingConfig, settings: Settings, on_row: Callable[[], None] = lambda: None
) -> SourceData:
    """Reads the manifests and leaves out the rows that cannot be used, before any are kept back.

    Of few rows each clip is heard, as `check_dataset` does; of many, their lengths are as the list has them.
    `on_row` is called for each, and may raise.

    Without `test_data`, the demo speech has its own validation part, and of anything else a share is kept
    back, drawn with the seed; nobody is heard in both parts whom the manifest names. Where `train_weights`
    are given, each manifest then has its share of an epoch, which has as many clips as before.

    Raises:
        ManifestError: if a manifest cannot be used, or nothing is left.
        HubUnreachableError: if a Hub dataset cannot be reached.
    """
    problems: list[RowProblem] = []
    manifests = [read_list(config, settings, source, "train") for source in sources_of(config.train_data)]
    test_source = config.evaluation_source
    tests = [read_list(config, settings, source, "test") for source in sources_of(test_source) if source]
    is_small = sum(len(manifest.examples) for manifest in (*manifests, *tests)) <= HEARD_AT_ONCE
    judge = row_judge(config, on_row, is_small=is_small)
    lists = len(manifests) + len(tests)
    parts = [_usable(manifest, judge, problems, lists) for manifest in manifests]
    for manifest, part in zip(manifests, parts, strict=True):
        require(part, manifest.source, problems)
    if test_source:
        held = joined([_usable(manifest, judge, problems, lists) for manifest in tests])
        require(held, test_source, problems)
    else:
        parts, held = _split(parts, config)
    examples = mixed(parts, config.weights, config.seed)
    return SourceData(
        _at_most(examples, config.max_train_samples, config.seed),
        _at_most(held, config.max_eval_samples, config.seed),
        test_source or f"{config.validation_share:.0%} of {config.train_data}",
        tuple(problems),
        _hash(manifests),
    )


def other_clips(config: TrainingConfig, settings: Settings, own: Collection[str] = ()) -> list[Example]:
    """Something else than what is trained, in languages other than `own` if there is: what the user named, or
    some English; of the demo speech, which sounds as that does, nothing.

    Raises:
        DataError: if those that were named cannot be used.
        ConfigError: if they name a language that there is not.
    """
    if not config.other_languages_data and any(map(is_demo, sources_of(config.train_data))):
        return []
    return clips_in_other_languages(
        config.other_languages_data, own, _OTHER_CLIPS, settings, **config.downloads
    )


def mixed(parts: Sequence[Sequence[Example]], weights: Sequence[float], seed: int) -> Sequence[Example]:
    """The parts one after the other; with weights, in these shares of as many examples as there are.

    A part whose share is smaller than itself gives a sample; one whose share is larger comes several times.
    """
    whole = joined(parts)
    if not weights:
        return whole
    rng = np.random.default_rng(seed)
    places: list[int] = []
    start = 0
    for part, weight in zip(parts, weights, strict=True):
        wanted = max(1, round(weight / sum(weights) * len(whole)))
        rounds, rest = divmod(wanted, len(part))
        places += [*range(start, start + len(part))] * rounds
        places += sorted((start + rng.permutation(len(part))[:rest]).tolist())
        start += len(part)
    return chosen(whole, places)


def _at_most(examples: Sequence[Example], most: int | None, seed: int) -> Sequence[Example]:
    """Drawn from these examples and the seed alone: how many others there are changes nothing."""
    if not most or len(examples) <= most:
        return examples
    return chosen(examples, random.Random(seed).sample(range(len(examples)), most))


def _hash(manifests: Sequence[Manifest]) -> str:
    if len(manifests) == 1:
        return manifests[0].hash
    return hashlib.sha256(" ".join(manifest.hash for manifest in manifests).encode()).hexdigest()


def read_list(
    config: TrainingConfig, settings: Settings, source: str, split: str, max_rows: int | None = None
) -> Manifest:
    """One list of a run, as the run reads it; its first rows if only those are asked for.

    Raises:
        ManifestError: if it cannot be used.
        HubUnreachableError: if a Hub dataset cannot be reached.
    """
    return read_manifest(
        source,
        settings,
        split=split,
        max_rows=max_rows,
        needs_text=config.needs_texts,
        audio_column=config.audio_column,
        text_column=config.text_column,
        **config.downloads,
    )


def _usable(
    manifest: Manifest, judge: Callable[[Example], Judged], problems: list[RowProblem], lists: int
) -> Sequence[Example]:
    """The examples that can be used; what is wrong with the others goes to `problems`, which name the list
    where there are several.
    """
    found = list(manifest.problems)
    examples = usable(manifest.examples, judge, found)
    named = (row if row.source or lists == 1 else replace(row, source=manifest.source) for row in found)
    problems += named
    return examples


def require_teachable(example: Example, config: TrainingConfig) -> None:
    """Makes sure that a row has something to teach, in a language of Whisper's.

    Raises:
        ConfigError: if it names another and the run none for all rows, or the normalizer leaves nothing of
            its text: its label would be a space.
    """
    if example.language and resolve_language(config.language) == AUTO:
        reason = _why_unknown(example.language)
        if reason is not None:
            raise ConfigError("{reason} Or set language: it holds for all rows.", reason=reason)
    if config.needs_texts and example.text and not normalize(example.text, config.normalizer).strip():
        raise ConfigError(
            "Nothing is left of the text {text!r} with the normalizer {normalizer}: choose another, or "
            "correct the text.",
            text=example.text[:80],
            normalizer=config.normalizer,
        )


@lru_cache(maxsize=256)
def _why_unknown(language: str) -> Message | None:
    try:
        resolve_language(language)
    except ConfigError as error:  # whose search for a name that is near takes a while
        return error.message()
    return None


def row_judge(
    config: TrainingConfig, on_row: Callable[[], None] = lambda: None, *, is_small: bool = False
) -> Callable[[Example], Judged]:
    """What judges a row by its language, if that counts, its text and its sound.

    Of many rows nothing is heard: the length in the list counts, and where that is out of bounds the file's.
    """
    bounds = config.min_audio_len, config.max_audio_len

    def judge(example: Example) -> Judged:
        """How long a row's clip lasts, or why it cannot be used."""
        on_row()
        try:
            require_teachable(example, config)
        except ConfigError as error:
            return RowProblem.from_error(example, error)
        if is_small:
            return judge_heard(example, hear(example), *bounds)
        said = judge_length(example, example.duration_seconds or 0.0, *bounds)
        return judge_header(example, *bounds) if isinstance(said, RowProblem) else said

    return judge


def _split(
    parts: Sequence[Sequence[Example]], config: TrainingConfig
) -> tuple[list[Sequence[Example]], Sequence[Example]]:
    """Keeps a share of all parts together back for evaluation, at least one clip and never all."""
    whole = joined(parts)
    if len(whole) < 2:
        raise ManifestError(
            "{source} has a single usable clip: give at least two, or test_data for evaluation.",
            source=config.train_data,
        )
    count = min(len(whole) - 1, max(1, round(config.validation_share * len(whole))))
    rng = random.Random(config.seed)
    held = _held_groups(whole, count, rng) or set(rng.sample(range(len(whole)), count))
    left = []
    start = 0
    for part in parts:
        left.append(chosen(part, [place for place in range(len(part)) if start + place not in held]))
        start += len(part)
    # A small manifest may have gone wholly to the other side: its weight would have nothing to weigh.
    for part, manifest in zip(left, sources_of(config.train_data), strict=True):
        if not part and config.weights:
            raise ManifestError(
                "All clips of {source} were kept back for evaluation: give more clips, or test_data.",
                source=manifest,
            )
    return left, chosen(whole, sorted(held))


def _held_groups(examples: Sequence[Example], count: int, rng: random.Random) -> set[int]:
    """Places to keep back so that no speaker, recording or copy of a clip is on both sides.

    Where that ties all clips together, a clip counts with its speaker alone, or with its recording if nobody
    is named. Empty where nothing ties clips together, or where the ties leave no fair part.
    """
    ties = list(_ties(examples))
    for firsts in dict.fromkeys((_first_tied(ties), _first_tied([tie[:1] for tie in ties]))):
        groups = defaultdict(list)
        for place, first in enumerate(firsts):
            groups[first].append(place)
        if len(groups) == len(examples):
            break
        waiting = list(groups.values())
        rng.shuffle(waiting)
        held: set[int] = set()
        for group in waiting:
            if len(held) + len(group) <= count:
                held.update(group)
        smallest = min(waiting, key=len)
        if not held and len(smallest) <= _LARGEST_GROUP * len(examples):
            held.update(smallest)
        if held:
            return held
    return set()


def _ties(examples: Sequence[Example]) -> Iterator[tuple[Hashable, ...]]:
    """For each clip what it shares with those that must stay on its side: speaker, and file or its copies."""
    paths: dict[int, set[Path]] = defaultdict(set)
    for example in examples:
        paths[example.audio_bytes].add(example.audio_path)
    for example in examples:
        file = digest_of(example) if len(paths[example.audio_bytes]) > 1 else example.audio_path
        yield (f"speaker {example.speaker}", file) if example.speaker else (file,)


def _first_tied(ties: Sequence[Sequence[Hashable]]) -> tuple[int, ...]:
    """For each clip the first one that it is tied to, through however many others."""
    before, known = list(range(len(ties))), dict[Hashable, int]()

    def first(place: int) -> int:
        while before[place] != place:
            before[place] = place = before[before[place]]
        return place

    for place, own in enumerate(ties):
        for tie in own:
            one, other = sorted((first(known.setdefault(tie, place)), first(place)))
            before[other] = one
    return tuple(map(first, range(len(ties))))


def require(rows: Sequence[object], source: str, problems: Sequence[RowProblem]) -> None:
    """Raises ManifestError: if there is no row; it quotes the first problem."""
    if rows:
        return
    if not problems:
        raise ManifestError("{source} has no rows.", source=source)
    raise ManifestError(
        "No clip of {source} can be used: {count} rows have problems; the first, in {place}: {reason}",
        source=source,
        count=len(problems),
        place=problems[0].place,
        reason=problems[0].reason,
    )
