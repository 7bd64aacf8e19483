"""Clips into batches: audio is decoded and turned into log-mel features when a batch needs it.

Features are kept in memory if all fit, without their padding and in half precision. Those of a small dataset
are made before the first step, so that a file that cannot be read is reported then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.features import log_mel
from studio.dataset.manifest import Example, RowProblem
from studio.dataset.sequences import chosen
from studio.errors import AudioError
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.training.data.augmentation import Augmentation
from studio.training.data.clips import Clip, with_draw
from studio.training.short_audio.encoder_states import EncoderStates
from studio.training.short_audio.teacher_states import TeacherStates, padded_states
from studio.transcription.windows import WINDOW_SECONDS
from studio.whisper.audio_context import FRAMES_PER_POSITION, positions_for
from studio.whisper.constants import TEXT_POSITIONS
from studio.whisper.loss import IGNORED

CLIPS = "clips"
"""Key under which a batch says which clips it has, for people."""
ENCODED_CLIPS, ENCODER_STATES = "encoded_clips", "encoder_states"
"""Keys of the clips of a batch and of what a frozen encoder has made of them."""
TEACHER_STATES = "teacher_states"
"""Key of the states that a student is to come near."""
CACHE_LIMIT_BYTES = 1024**3
_EDGE_FRAMES = 4
"""A window of the transform reaches this many frames over the end of the sound."""

Features = NDArray[np.float16]


class FeatureSource:
    """Log-mel features of clips, (mel bins, frames); the frames after the last are all like the last."""

    def __init__(self, extractor: Any, keep: bool, augmentation: Augmentation | None = None) -> None:
        """`extractor` is a `WhisperFeatureExtractor`; `keep` remembers what was made without chance."""
        self._extractor = extractor
        self._keep = keep
        self.augmentation = augmentation or Augmentation(TrainingConfig())
        self._kept: dict[Clip, Features] = {}

    def __call__(self, clip: Clip) -> Features:
        """Raises AudioError: if the clip cannot be read."""
        if clip.draw is None:
            return self._unchanged(clip)
        augmentation = clip.draw.by or self.augmentation
        is_new = augmentation.config.changes_sound or clip.no_speech
        changed = augmentation.change(self._sound(clip), clip.draw) if is_new else None
        features = self._unchanged(clip) if changed is None else self._features(changed)
        return augmentation.mask(features, clip.draw)

    def _unchanged(self, clip: Clip) -> Features:
        features = self._kept.get(clip)
        if features is None:
            features = self._features(self._sound(clip))
            if self._keep:
                self._kept[clip] = features
        return features

    def _sound(self, clip: Clip) -> NDArray[np.float32]:
        example = clip.example
        if clip.no_speech:
            return self.augmentation.no_speech(clip.no_speech, clip.draw, example.duration_seconds or 1.0)
        if clip.draw and clip.draw.by:
            return _read_again(example)
        if not example.parts:
            return _read(example)
        return np.concatenate([_as_long_as_said(_read(part), part) for part in example.parts])

    def _features(self, audio: NDArray[np.float32]) -> Features:
        audio = audio[: int(WINDOW_SECONDS * SAMPLING_RATE)]
        features = log_mel(self._extractor, [audio])[0]
        frames = min(features.shape[1], len(audio) // self._extractor.hop_length + _EDGE_FRAMES)
        kept: Features = features[:, :frames].astype(np.float16)
        return kept


def _read(example: Example) -> NDArray[np.float32]:
    return read_audio(example.audio_path, example.start_seconds, example.end_seconds)


_read_again = lru_cache(maxsize=32)(_read)
"""The windows that are rehearsed come again and again, each time changed."""


def _as_long_as_said(audio: NDArray[np.float32], example: Example) -> NDArray[np.float32]:
    """The times of the clips behind this one count on its length in the list."""
    samples = round((example.duration_seconds or 0.0) * SAMPLING_RATE)
    return np.pad(audio[:samples], (0, max(0, samples - len(audio))))


def fits_in_memory(clips: Sequence[Clip], mel_bins: int) -> bool:
    """Whether the features of all clips take less than `CACHE_LIMIT_BYTES`."""
    seconds = 0.0
    for clip in clips:
        seconds += clip.example.duration_seconds or WINDOW_SECONDS
        if seconds * 100 * mel_bins * 2 >= CACHE_LIMIT_BYTES:
            return False
    return True


def readable(
    clips: Sequence[Clip], read: Callable[[Clip], object], on_clip: Callable[[], None]
) -> tuple[Sequence[Clip], list[RowProblem]]:
    """Tries `read` on every clip (the features, or a look at its file); what fails comes back as problems."""
    kept, problems = [], []
    for place, clip in enumerate(clips):
        on_clip()
        try:
            read(clip)
        except AudioError as error:
            problems.append(RowProblem.from_error(clip.example, error))
        else:
            kept.append(place)
    return (clips if len(kept) == len(clips) else chosen(clips, kept)), problems


@dataclass(eq=False)
class Collator:
    """Clips → `{input_features: (batch, mel bins, frames), labels: (batch, tokens), clips: names}`."""

    features: FeatureSource
    frames: int
    """Of a full window: 3000."""
    on_problem: Callable[[Message], None]
    """Told of each clip that is left out, once."""
    is_short: bool = False
    """Whether batches are only a little longer than their longest clip."""
    teacher: TeacherStates | None = None
    """With one, batches of clips that it has read have its states, too."""
    encoder: EncoderStates | None = None
    """With one, batches of clips that it has seen have its states instead of features, and every batch says
    which `encoded_clips` it has."""
    left_out: set[Clip] = field(default_factory=set)

    def __call__(self, clips: Sequence[Clip]) -> dict[str, Any]:
        """A clip that cannot be read is left out; where it was the only one, its error is raised.

        Raises:
            AudioError: if no clip of the batch can be read.
        """
        if self.encoder is not None and (states := self.encoder(clips)) is not None:
            return {ENCODER_STATES: states, **self._described(clips)}
        read: list[tuple[Clip, Features]] = []
        failure: AudioError | None = None
        for clip in clips:
            try:
                read.append((clip, self.features(clip)))
            except AudioError as error:
                failure = error
                if clip not in self.left_out:
                    self.left_out.add(clip)
                    self.on_problem(
                        Message("Line {line} is not used: {reason}", line=clip.example.line, reason=error)
                    )
        if not read and failure is not None:
            raise failure
        frames = self.frames
        if self.is_short:
            longest = max(features.shape[1] for _, features in read)
            frames = min(frames, FRAMES_PER_POSITION * positions_for(longest))
        batch = np.empty((len(read), read[0][1].shape[0], frames), np.float32)
        for row, (_, features) in zip(batch, read, strict=True):
            row[:, : features.shape[1]] = features
            row[:, features.shape[1] :] = features[:, -1:]
        return {"input_features": torch.from_numpy(batch), **self._described([clip for clip, _ in read])}

    def _described(self, clips: Sequence[Clip]) -> dict[str, Any]:
        """What a batch has beside its sound."""
        return {
            **_taught(clips),
            **self._states(clips),
            CLIPS: [f"{clip.example.audio_path} (line {clip.example.line})" for clip in clips],
            **({ENCODED_CLIPS: tuple(clips)} if self.encoder is not None else {}),
        }

    def _states(self, clips: Sequence[Clip]) -> dict[str, torch.Tensor]:
        if self.teacher is None or any(clip not in self.teacher for clip in clips):
            return {}
        return {TEACHER_STATES: padded_states([self.teacher(clip) for clip in clips])}


def _labels(clip: Clip, place: int) -> tuple[int, ...]:
    """The clip's labels, with times at every other place of a batch: from times alone a model forgets to
    write without them. The order of the clips decides, so that a resumed run does the same.
    """
    is_timed = clip.timed_labels and (place + clip.example.line) % 2
    return clip.timed_labels if is_timed else clip.labels


def _taught(clips: Sequence[Clip]) -> dict[str, torch.Tensor]:
    """Labels, and where a clip is taught with the text before it, what the decoder is given, as well.

    The loss passes over the previous text: it is read, not learned.
    """
    places = [place if clip.place is None else clip.place for place, clip in enumerate(clips)]
    labels = list(map(_labels, clips, places))
    before = [clip.before if clip.draw and clip.draw.with_previous else () for clip in clips]
    if not any(before):
        return {"labels": padded_labels(labels)}
    start = next(tokens[-1] for tokens in before if tokens)
    before = [
        _shortened(tokens, len(label)) if tokens else (start,)
        for tokens, label in zip(before, labels, strict=True)
    ]
    rows = list(zip(before, labels, strict=True))
    given = padded_labels([(*tokens, *label[:-1]) for tokens, label in rows])
    taught = padded_labels([(*[IGNORED] * (len(tokens) - 1), *label) for tokens, label in rows])
    end = labels[0][-1]
    return {"labels": taught, "decoder_input_ids": given.masked_fill(given == IGNORED, end)}


def _shortened(before: tuple[int, ...], label_length: int) -> tuple[int, ...]:
    """Leaves out the oldest of the previous text where the decoder has no room for all."""
    room = TEXT_POSITIONS - label_length
    if len(before) <= room:
        return before
    return (before[0], *before[1 - room :]) if room > 1 else before[-1:]


def padded_labels(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Token rows side by side, (rows, longest), filled up with -100, which the loss passes over.

    The rows have no start token: the model shifts them and puts it in front.
    """
    labels = torch.full((len(rows), max(map(len, rows))), IGNORED, dtype=torch.long)
    for index, row in enumerate(rows):
        labels[index, : len(row)] = torch.tensor(row)
    return labels


class Placed(torch.utils.data.Sampler[tuple[int, int]]):
    """What a sampler chooses, each with its place in a batch of `batch_size`, however large batches are."""

    def __init__(self, sampler: Any, batch_size: int) -> None:
        self._sampler = sampler
        self._batch_size = batch_size

    def __getattr__(self, name: str) -> Any:
        """Of the sampler itself, as `set_epoch`."""
        return getattr(self._sampler, name)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for number, index in enumerate(self._sampler):
            yield index, number % self._batch_size


class ClipDataset(torch.utils.data.Dataset[Clip]):
    """Clips by number, for the trainer; with an augmentation, as chance wants them in this epoch."""

    def __init__(
        self, clips: Sequence[Clip], augmentation: Augmentation | None = None, first_time: int = 0
    ) -> None:
        """`first_time` is the token `<|0.00|>`: the times of a label change with its clip's speed."""
        self.clips = clips
        self._augmentation = augmentation
        self._first_time = first_time
        # Shared memory: processes that read audio live for more than one epoch.
        self._epoch = torch.zeros((), dtype=torch.long)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def begin_epoch(self, epoch: int) -> None:
        """Tells which epoch the next clips are drawn for, from 0."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, number: int | tuple[int, int]) -> Clip:
        """The clip of a number; with its place in a batch, if `Placed` has given it one."""
        index, place = number if isinstance(number, tuple) else (number, None)
        clip = replace(self.clips[index], place=place)
        if self._augmentation is None or not (self._augmentation.config.changes_clips or clip.no_speech):
            return clip
        seconds = clip.example.duration_seconds or WINDOW_SECONDS
        draw = self._augmentation.draw(int(self._epoch), index, seconds)
        return with_draw(clip, draw, self._first_time)
