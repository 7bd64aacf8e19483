"""Rehearsal: windows that the base has read, learned again beside the clips of the run.

Fine-tuning forgets what is not practised. So some batches have a window of something else beside them, with
what the base itself writes of it, times included: pseudo-rehearsal (Robins 1995, Catastrophic forgetting,
rehearsal and pseudorehearsal, Connection Science 7). Nobody has to know what is said in it.
"""

import hashlib
import logging
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch

from studio.dataset.example import Example
from studio.dataset.manifest import read_manifest
from studio.dataset.shared import digest_of
from studio.errors import AudioError, ConfigError
from studio.files import read_json, write_json
from studio.options.training import TrainingConfig
from studio.settings import PASSAGES, Settings
from studio.training.data.augmentation import Augmentation
from studio.training.data.clips import Clip, with_draw
from studio.training.data.collator import Features
from studio.training.plan import WINDOW_LABEL_LENGTH
from studio.training.short_audio.audio_context import padded
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.languages import resolve_language
from studio.transcription.loops import is_loop
from studio.transcription.window_model import Search
from studio.transcription.windows import WINDOW_SECONDS

REPLAY_WEIGHT = 0.3
"""How much what is rehearsed counts where the clips of a step count 1, however many windows there are and
however a step is divided. With more, small models learn less (the demo model of its speech: 21 % of words
wrong at 1, 8 % at 0.3), and whisper-tiny keeps no more."""
_MOST_TOKENS = WINDOW_LABEL_LENGTH - 4
"""Beside language, task and end."""
_MOST_WINDOWS = 200
"""Of long recordings: an hour and a half."""
_LEAST_LOGPROB = -1.0
"""A text of which the base is less sure is not worth keeping."""
_BATCH_SIZE = 4
_VARIED = Augmentation(
    TrainingConfig(
        speed_prob=0.75,
        min_speed_rate=0.85,
        max_speed_rate=1.15,
        resample_prob=0.25,
        reverb_prob=0.35,
        noise_prob=0.5,
        min_snr_db=8.0,
        max_snr_db=25.0,
    )
)
"""The passages are of few voices, and clean. Varied, whisper-tiny errs less on the clips that it learns, and
forgets less (`tests/benchmarks/reports/recipe_tried.md`)."""
_VERSION = 2
log = logging.getLogger("studio.training")


@dataclass(frozen=True)
class Windows:
    """Which windows are learned beside which batch: in turn, in an order that seed and round decide."""

    clips: Sequence[Clip]
    per_batch: float
    """Windows for each batch of a process; below 1, only some batches have one."""
    seed: int
    first_time: int | None = None
    """The token `<|0.00|>` if windows are varied: the times of a label change with the speed of its sound."""

    def beside(self, batch: float, rank: int = 0, size: int = 1, until: float | None = None) -> list[Clip]:
        """Those of the batch of that number, counted over all epochs from 0, in the process `rank` of `size`;
        with `until`, of the part of batches from `batch` to there.

        All processes have as many, each its own: they learn from them together.
        """
        if not self.clips:
            return []
        end = batch + 1 if until is None else until
        first, after = int(batch * self.per_batch), int(end * self.per_batch)
        return [self._window(place * size + rank) for place in range(first, after)]

    def _window(self, place: int) -> Clip:
        round_, within = divmod(place, len(self.clips))
        order = list(range(len(self.clips)))
        random.Random(self.seed + round_).shuffle(order)
        clip = self.clips[order[within]]
        if self.first_time is None:
            return clip
        draw = _VARIED.draw(round_, order[within], clip.example.duration_seconds or WINDOW_SECONDS)
        return with_draw(clip, replace(draw, by=_VARIED), self.first_time)


def passages(config: TrainingConfig, settings: Settings) -> Sequence[Example]:
    """What a run rehearses, before anybody has read it: the user's recordings in windows, or the passages
    that come with the studio.

    Raises:
        ManifestError: if the recordings cannot be used.
    """
    source = config.replay_data or str(PASSAGES)
    found = read_manifest(source, settings, needs_text=False, **config.downloads)
    windows = [window for example in found.examples for window in _windows_of(example)]
    if len(windows) > _MOST_WINDOWS:
        windows = random.Random(config.seed).sample(windows, _MOST_WINDOWS)
    return windows


def _windows_of(example: Example) -> Iterator[Example]:
    """The clip in equal parts of at most 30 s."""
    seconds, start = example.duration_seconds or WINDOW_SECONDS, example.start_seconds or 0.0
    count = ceil(seconds / WINDOW_SECONDS)
    if count == 1:
        yield example
        return
    length = seconds / count
    for number in range(count):
        begins = start + number * length
        yield replace(
            example,
            start_seconds=begins,
            end_seconds=begins + length,
            duration_seconds=length,
            segments=(),
        )


def read_by_base(
    examples: Sequence[Example],
    decoder: TransformersModel,
    features: Callable[[Clip], Features],
    kept: Path,
    on_batch: Callable[[int, int], None],
) -> tuple[Clip, ...]:
    """Windows with what the base writes of them for labels; `kept` has what was read before, or gets it.

    Left out are those that cannot be read, and texts that the base is not sure of, that repeat themselves or
    find no end. `on_batch` is told how many windows of how many are read, and may raise.

    Raises:
        StorageError: if `kept` cannot be written.
    """
    path = kept / f"{_fingerprint(examples)}.json"
    rows: list[list[int]] | None = None
    if path.is_file():
        rows = read_json(path)["labels"]
    if rows is None:
        rows = []
        for first in range(0, len(examples), _BATCH_SIZE):
            on_batch(first, len(examples))
            rows += _read(examples[first : first + _BATCH_SIZE], decoder, features)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"schema_version": _VERSION, "labels": rows})
    codes = {token: code for code, token in decoder.tokens.languages.items()}
    clips = tuple(
        Clip(example, codes.get(row[0], "en"), "transcribe", tuple(row))
        for example, row in zip(examples, rows, strict=True)
        if row
    )
    log.info("%s of %s windows are rehearsed.", len(clips), len(examples))
    return clips


def _read(
    examples: Sequence[Example], decoder: TransformersModel, features: Callable[[Clip], Features]
) -> list[list[int]]:
    """The label of each window; none for what is not worth keeping."""
    tokens = decoder.tokens
    labels: list[list[int]] = [[] for _ in examples]
    sounds: dict[int, torch.Tensor] = {}
    known = tokens.languages or ("en",)
    for place, example in enumerate(examples):
        if example.language and not _language(example, known):
            continue  # the base would read it as another language
        try:
            found = features(Clip(example, "", "", ()))
        except AudioError as error:
            log.info("Line %s is not rehearsed: %s", example.line, error)
            continue
        sounds[place] = padded(torch.from_numpy(found).float())
    if not sounds:
        return labels
    with torch.no_grad():
        given = torch.stack(list(sounds.values())).to(decoder.model.device, decoder.model.dtype)
        encoded = decoder.model.get_encoder()(given).last_hidden_state
        heard = decoder.detect_language(encoded) if tokens.languages else [{"en": 1.0}] * len(sounds)
        languages = [
            _language(examples[place], known) or next(iter(odds))
            for place, odds in zip(sounds, heard, strict=True)
        ]
        prompts = [tokens.prompt(code, "transcribe", with_times=True) for code in languages]
        # Whoever asks for a threshold is told how sure a text is.
        search = Search(max_new_tokens=_MOST_TOKENS, logprob_threshold=0.0)
        written = decoder.generate(encoded, prompts, search)
    for place, prompt, text in zip(sounds, prompts, written, strict=True):
        said = decoder.text_of([token for token in text.tokens if token < tokens.end])
        has_end = len(text.tokens) < _MOST_TOKENS
        is_sure = text.average_logprob >= _LEAST_LOGPROB
        if said.strip() and has_end and is_sure and not is_loop(said, was_cut=False):
            labels[place] = [*prompt[1:], *text.tokens, tokens.end]
    return labels


def _language(example: Example, known: Collection[str]) -> str:
    """Code of the language that is named, if the base has it; else nothing."""
    try:
        code = resolve_language(example.language or "", known)
    except ConfigError:
        return ""
    return code if code in known else ""


def _fingerprint(examples: Sequence[Example]) -> str:
    """Of what is read: what the files hold, whatever they are called, and the places in them."""
    rows: list[Any] = [(digest_of(e), e.start_seconds, e.end_seconds, e.language) for e in examples]
    return hashlib.sha256(repr((_VERSION, rows)).encode()).hexdigest()[:24]
