"""From manifests and a loaded base to clips that can be learned from, and their features."""

import hashlib
import logging
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.example import Example, RowProblem, TextSegment, in_order, read_clips
from studio.dataset.report import write_quarantine
from studio.dataset.sequences import joined, store
from studio.dataset.usable import HEARD_AT_ONCE, Judged, hear, judge_header, judge_heard, usable
from studio.dataset.written import written_in
from studio.errors import AudioError
from studio.messages import message_to_plain
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training.adapters import Base
from studio.training.data.augmentation import Augmentation
from studio.training.data.clips import TrainingData, example_language, label_data, teachable, undecided
from studio.training.data.collator import FeatureSource, fits_in_memory, readable
from studio.training.data.sources import SourceData, require
from studio.training.data.times_file import TimesFile
from studio.training.events import EventLog
from studio.training.stop import StopSignal
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.languages import join_texts
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.time_tokens import split_segments
from studio.transcription.window_model import Search
from studio.transcription.windows import WINDOW_SECONDS

_BATCH_SIZE = 8
log = logging.getLogger("studio.training")


def with_made_times(
    examples: Sequence[Example],
    decoder: TransformersModel,
    language_of: Callable[[Example], str],
    task: str,
    on_batch: Callable[[], None],
    kept: TimesFile | None = None,
) -> tuple[Sequence[Example], int]:
    """The examples, those without segments with the segments that the model makes, and how many got some.

    Only where the model writes the letters and digits of the label (case, marks and spaces aside): the
    label's own text is then cut where the model's was. `language_of` gives the code of an example's
    language; `on_batch` is called now and then, and may raise. What `kept` has is not made again.

    Raises:
        StorageError: if `kept` cannot be written.
    """
    made = 0

    def timed() -> Iterator[Example]:
        """All examples; batches that are known are as they were made, so that the others stay the same."""
        nonlocal made
        known = kept.open(_fingerprint(examples, language_of, task)) if kept else iter(())
        for batch in _batches(examples):
            times = next(known, None)
            if times is None:
                on_batch()
                times = _times(batch, decoder, language_of, task)
                if kept:
                    kept.add(times)
            made += sum(map(bool, times))
            for example, segments in zip(batch, times, strict=True):
                yield replace(example, segments=segments) if segments else example

    found = store(timed())
    log.info("The base model gave times to %s of %s texts.", made, len(found))
    return found, made


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    waiting = iter(examples)
    while batch := list(islice(waiting, _BATCH_SIZE)):
        yield batch


def _fingerprint(examples: Sequence[Example], language_of: Callable[[Example], str], task: str) -> str:
    """SHA-256 over what decides, beside the model, which times are made."""
    digest = hashlib.sha256(str(_BATCH_SIZE).encode())
    for example in examples:
        place = (example.audio_path.name, example.audio_bytes, example.start_seconds, example.end_seconds)
        row = (*place, example.text, bool(example.segments), language_of(example), example.task or task)
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _times(
    batch: list[Example], decoder: TransformersModel, language_of: Callable[[Example], str], task: str
) -> list[tuple[TextSegment, ...]]:
    """For each example the segments that the model makes; none where it has some, or the words differ."""
    times: list[tuple[TextSegment, ...]] = [()] * len(batch)
    audio = {place: sound for place, example in enumerate(batch) if (sound := _sound(example)) is not None}
    if not audio:
        return times
    prompts = [
        decoder.tokens.prompt(language_of(batch[place]), batch[place].task or task, with_times=True)
        for place in audio
    ]
    with torch.no_grad():
        seconds = [len(sound) / SAMPLING_RATE for sound in audio.values()]
        encoded = decoder.encode(list(audio.values()))
        search = Search(max_new_tokens=_most_tokens([batch[place].text for place in audio], decoder))
        rows = [text.tokens for text in decoder.generate(encoded, prompts, search, seconds)]
    for (place, sound), row in zip(audio.items(), rows, strict=True):
        pieces, _ = split_segments(row, decoder.tokens, len(sound) / SAMPLING_RATE)
        heard = [
            TextSegment(piece.start_seconds, piece.end_seconds, decoder.text_of(piece.text_tokens))
            for piece in pieces
        ]
        times[place] = cut_like(batch[place].text, heard)
    return times


def _most_tokens(texts: Sequence[str], decoder: TransformersModel) -> int:
    """More than the longest text takes in any spelling, with times and marks: a longer one differs anyway."""
    return 2 * max(len(decoder.tokenizer(text, add_special_tokens=False).input_ids) for text in texts) + 32


def _sound(example: Example) -> NDArray[np.float32] | None:
    """The clip, if it has a text without times and is one window that can be read."""
    if not example.text or example.segments or (example.duration_seconds or 0.0) > WINDOW_SECONDS:
        return None
    try:
        return read_audio(example.audio_path, example.start_seconds, example.end_seconds)
    except AudioError:
        return None  # it is named with its reason when the clips are read for training


def cut_like(text: str, heard: Sequence[TextSegment]) -> tuple[TextSegment, ...]:
    """`text` in segments that have the times, and letter for letter the words, of what was heard.

    Empty where the letters differ.
    """
    if _letters(text) != _letters("".join(segment.text for segment in heard)) or not heard:
        return ()
    segments = []
    for number, segment in enumerate(heard, start=1):
        wanted = len(_letters(segment.text))
        end = len(text) if number == len(heard) else _place_after(text, wanted)
        segments.append(TextSegment(segment.start_seconds, segment.end_seconds, text[:end].strip()))
        text = text[end:]
    return tuple(segment for segment in segments if segment.text)


def _place_after(text: str, letters: int) -> int:
    """The place behind so many letters, and behind the marks that follow them without a space."""
    place = 0
    while place < len(text) and (letters > 0 or not (text[place].isspace() or _letters(text[place]))):
        end = place + 1
        while end < len(text) and _is_one(text[place:end], text[end]):
            end += 1
        letters -= len(_letters(text[place:end]))
        place = end
    return place


def _is_one(text: str, following: str) -> bool:
    """Whether the following sign makes one letter with the text, as an accent does that is written apart."""
    return _plain(text + following) != _plain(text) + _plain(following)


_plain = partial(unicodedata.normalize, "NFKC")


def _letters(text: str) -> str:
    """Letters, digits and their accents, whatever their case and width."""
    return "".join(letter for letter in _plain(text).casefold() if unicodedata.category(letter)[0] in "LNM")


_AROUND = 8
"""Tokens of a label beside its texts and their times."""


def packed(
    examples: Sequence[Example],
    encode: Callable[[str], list[int]],
    longest_seconds: float,
    longest_label: int,
    written: Callable[[Example], str],
) -> Sequence[Example]:
    """Examples whose `parts` are clips of one language, task and speaker, in the order of the list.

    No sound is longer than `longest_seconds`, no label than `longest_label` tokens. A packed example has the
    times of its parts' segments; a part without any is one segment. `written` gives the code of the language
    that an example's text is in.
    """
    groups = _groups(examples, encode, longest_seconds, longest_label)
    return store(_joined(group, written(group[0])) for group in groups)


def _groups(
    examples: Sequence[Example],
    encode: Callable[[str], list[int]],
    longest_seconds: float,
    longest_label: int,
) -> Iterator[list[Example]]:
    open_groups: dict[tuple[str | None, ...], tuple[list[Example], float, int]] = {}
    for example in examples:
        key = (example.language, example.task, example.speaker)
        seconds = example.duration_seconds or longest_seconds
        length = len(encode(f" {example.text}")) + 2 * max(1, len(example.segments))
        group, so_far, tokens = open_groups.get(key, ([], 0.0, _AROUND))
        is_full = so_far + seconds > longest_seconds or tokens + length > longest_label
        if group and is_full:
            yield group
            group, so_far, tokens = [], 0.0, _AROUND
        group.append(example)
        open_groups[key] = (group, so_far + seconds, tokens + length)
    for group, _, _ in open_groups.values():
        yield group


def _joined(parts: list[Example], language: str) -> Example:
    if len(parts) == 1:
        return parts[0]
    segments: list[TextSegment] = []
    start = 0.0
    for part in parts:
        seconds = part.duration_seconds or 0.0
        own = part.segments or ((TextSegment(0.0, seconds, part.text),) if part.text else ())
        segments += [
            TextSegment(start + segment.start_seconds, start + segment.end_seconds, segment.text)
            for segment in own
        ]
        start += seconds
    return replace(
        parts[0],
        text=join_texts([part.text for part in parts if part.text], language),
        start_seconds=None,
        end_seconds=None,
        duration_seconds=start,
        segments=tuple(segments),
        parts=tuple(parts),
    )


_SHOWN_PROBLEMS = 20
_LISTENED_TO = 5
"""Clips without a language."""


def prepare(
    config: TrainingConfig,
    settings: Settings,
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
    language_of = partial(example_language, config=config, tokens=decoder.tokens, default=detected)

    def written(example: Example) -> str:
        """Code of the language that its text is in."""
        return written_in(language_of(example), example.task or config.task)

    if config.make_timestamps:
        examples, made_times = with_made_times(
            source.train_examples, decoder, language_of, config.task, stop.check, times
        )
        source = replace(source, train_examples=examples)
    if config.pack_clips:
        examples = packed(source.train_examples, decoder.tokens_of, config.max_audio_len, longest, written)
        source = replace(source, train_examples=examples)
    data = label_data(source, config, decoder.tokens, decoder.tokens_of, detected, longest)
    features = _features(data, config, settings, decoder, events)
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
        """Whether a clip can be used; a stop ends the reading."""
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


def _features(
    data: TrainingData,
    config: TrainingConfig,
    settings: Settings,
    decoder: TransformersModel,
    events: EventLog,
) -> FeatureSource:
    """What makes the clips' features, and keeps them if they are not too many."""
    every = joined([data.train, data.evaluation])
    keep = fits_in_memory(every, decoder.extractor.feature_size * config.processes_per_machine)
    # Features are masked where they are made, by the run's own seed: not by the model once more.
    decoder.model.config.apply_spec_augment = False
    augmentation = Augmentation.of(config, settings).with_readable_noises(events.warn)
    return FeatureSource(decoder.extractor, keep, augmentation)


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
    audio = [sound for _, sound in islice(read_clips(undecided(source, config)), _LISTENED_TO)]
    if not audio:  # of a large dataset: its batches are made without them
        return next(iter(base.decoder.tokens.languages))
    with torch.no_grad():
        rows = base.decoder.detect_language(base.decoder.encode(audio))
    votes = [next(iter(row)) for row in rows]
    winner = max(votes, key=votes.count)
    log.info("No language named: %s was heard in %s of %s clips.", winner, votes.count(winner), len(votes))
    return winner


def _report(
    data: TrainingData, source: SourceData, detected: str | None, made_times: int, events: EventLog
) -> None:
    skipped = [
        {
            "line": p.line,
            "source": p.source,
            "reason": (told := message_to_plain(p.reason)).pop("text"),
            **told,
        }
        for p in in_order(data.problems)[:_SHOWN_PROBLEMS]
    ]
    events.write(
        "data",
        train_samples=len(data.train),
        eval_samples=len(data.evaluation),
        train_hours=data.train_hours,
        eval_source=source.eval_source,
        data_hash=source.data_hash,
        languages=list(data.languages),
        detected_language=detected,
        made_times=made_times,
        skipped_count=len(data.problems),
        skipped=skipped,
    )
    log.info("%s clips to train on, %s to evaluate", len(data.train), len(data.evaluation))
    for problem in skipped:
        log.info("not used: %s line %s: %s", problem["source"], problem["line"], problem["reason"])
