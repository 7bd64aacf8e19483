"""Distillation for short audio: a Whisper learns to read clips as they are from itself reading them padded.

The teacher is the base model. It reads each clip once, filled up to 30 s as it was trained: what it writes
(greedily) becomes the label, and its decoder's last hidden states along that label are kept on disk, so that
training never needs a padded forward pass for it again. No texts are needed. As in FUTO's audio context
fine-tuning (ACFT, https://github.com/futo-org/whisper-acft), the states are what is learned first of all.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import SEEK_END
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from studio.dataset.example import RowProblem
from studio.errors import AudioError, ManifestError
from studio.files import append_json_line, read_json_lines, require_free_space, storage_errors
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.training.adapters import Base
from studio.training.data.clips import Clip, TrainingData
from studio.training.data.collator import Features, FeatureSource
from studio.training.events import EventLog, RunPhase
from studio.training.short_audio.audio_context import padded
from studio.training.short_audio.teacher_states import States, TeacherStates
from studio.training.stop import StopSignal
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.window_model import Search


def distillation_loss(
    states: torch.Tensor,
    taught: torch.Tensor,
    weight: torch.Tensor,
    is_known: torch.Tensor,
    chunk_size: int,
) -> torch.Tensor:
    """How far a student is from its teacher, a mean over tokens: see `DIVERGENCE_WEIGHT`.

    Kullback-Leibler divergence of the words' probabilities (Hinton et al. 2015, arXiv:1503.02531), and the
    squared distance of the hidden states in units of the teacher's variance.

    Args:
        states: of the student, (clips, tokens, d_model).
        taught: of the teacher, the same shape.
        weight: (vocabulary, d_model).
        is_known: (clips, tokens), False where a label is only padding.
        chunk_size: tokens whose probabilities exist at once; 0: all.
    """
    student, teacher = states[is_known], taught[is_known].to(states.dtype)
    distance = functional.mse_loss(student.float(), teacher.float()) / teacher.float().var()
    size = chunk_size or len(student)
    divergence: Any = 0.0
    for first in range(0, len(student), size):
        part = slice(first, first + size)
        divergence = divergence + checkpoint(
            _divergence, student[part], teacher[part], weight, use_reentrant=False
        )
    loss: torch.Tensor = STATES_WEIGHT * distance + DIVERGENCE_WEIGHT * divergence / len(student)
    return loss


STATES_WEIGHT = 1.0
DIVERGENCE_WEIGHT = 1.0


def _divergence(student: torch.Tensor, teacher: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Summed over tokens, in float32."""
    weight = weight.detach().to(student.dtype)
    with torch.no_grad():
        wanted = functional.log_softmax((teacher @ weight.T).float(), dim=-1)
    given = functional.log_softmax((student @ weight.T).float(), dim=-1)
    return functional.kl_div(given, wanted, reduction="sum", log_target=True)


_LIKELY_TOKENS = 40
"""Of a short clip, when room on the disk is estimated."""
log = logging.getLogger("studio.training")


@dataclass(frozen=True)
class _Reading:
    """What the teacher made of a clip."""

    name: str
    """Which clip it is."""
    labels: tuple[int, ...]
    """Empty where it found no end."""
    place: int
    """First row in the file of states."""


class Teacher:
    """Reads clips padded, once; a run that is resumed finds what was read before in its folder."""

    def __init__(
        self, folder: Path, decoder: TransformersModel, features: Callable[[Clip], Features]
    ) -> None:
        """`folder` is for what was read, and the run's own."""
        self._decoder = decoder
        self._features = features
        self._width = int(decoder.model.config.d_model)
        self._states = folder / "states.f16"
        self._readings = folder / "readings.jsonl"
        self._found: dict[str, _Reading] = {}
        self._rows = 0
        self._unreadable: dict[str, AudioError] = {}

    def teach(
        self,
        data: TrainingData,
        batch_size: int,
        max_new_tokens: int,
        on_batch: Callable[[int, int], None],
        *,
        with_times: bool,
    ) -> tuple[TrainingData, TeacherStates]:
        """`data` with what the teacher reads for labels, and its states.

        Clips in which it finds no end are left out and named. `with_times`: every other clip is read with
        its times. `on_batch` is told how many clips of how many are read, and may raise.

        Raises:
            StorageError: if there is no room for the states.
        """
        self._take_up()
        clips = [*data.train, *data.evaluation]
        needed = 2 * self._width * _LIKELY_TOKENS * (len(clips) - len(self._found))
        require_free_space(self._states.parent, max(0, needed))
        timed = {_name(clip) for clip in data.train if with_times and clip.example.line % 2}
        waiting = list({_name(clip): clip for clip in clips if _name(clip) not in self._found}.values())
        for kind in (True, False):
            alike = [clip for clip in waiting if (_name(clip) in timed) is kind]
            alike.sort(key=lambda clip: -(clip.example.duration_seconds or 0.0))
            for first in range(0, len(alike), batch_size):
                on_batch(len(self._found), len(clips))
                self._read(alike[first : first + batch_size], max_new_tokens, with_times=kind)
        on_batch(len(clips), len(clips))
        return self._taught(data)

    def _take_up(self) -> None:
        """What an earlier attempt has read; states that were written last without their line go."""
        with storage_errors(self._states):
            self._states.parent.mkdir(parents=True, exist_ok=True)
            self._states.touch()
        rows = read_json_lines(self._readings)[0] if self._readings.exists() else []
        for row in rows:
            reading = _Reading(row["clip"], tuple(row["labels"]), int(row["place"]))
            self._found[reading.name] = reading
            self._rows = reading.place + len(reading.labels)
        with storage_errors(self._states), self._states.open("r+b") as file:
            if file.seek(0, SEEK_END) < 2 * self._width * self._rows:  # a power failure has taken some
                self._found, self._rows = {}, 0
                self._readings.unlink()
            file.truncate(2 * self._width * self._rows)

    def _heard(self, clips: Sequence[Clip]) -> tuple[list[Clip], list[torch.Tensor]]:
        """The clips that can be read, and their features padded to 30 s."""
        heard, features = [], []
        for clip in clips:
            try:
                features.append(padded(torch.from_numpy(self._features(clip)).float()))
                heard.append(clip)
            except AudioError as error:
                self._unreadable[_name(clip)] = error
        return heard, features

    def _read(self, batch: Sequence[Clip], max_new_tokens: int, *, with_times: bool) -> None:
        decoder, tokens = self._decoder, self._decoder.tokens
        clips, heard = self._heard(batch)
        if not clips:
            return
        prompts = [tokens.prompt(clip.language, clip.task, with_times=with_times) for clip in clips]
        with torch.no_grad():
            features = torch.stack(heard).to(device=decoder.model.device, dtype=decoder.model.dtype)
            encoded = decoder.model.get_encoder()(features).last_hidden_state
            written = decoder.generate(encoded, prompts, Search(max_new_tokens=max_new_tokens))
            rows = [text.tokens for text in written]
            labels = [
                (*prompt[1:], *row, tokens.end) if len(row) < max_new_tokens else ()
                for prompt, row in zip(prompts, rows, strict=True)
            ]
            states = self._forced(encoded, labels)
        with storage_errors(self._states), self._states.open("ab") as file:
            for label, rows_of_clip in zip(labels, states, strict=True):
                file.write(rows_of_clip[: len(label)].tobytes())
        for clip, label in zip(clips, labels, strict=True):
            reading = _Reading(_name(clip), label, self._rows)
            append_json_line(
                self._readings, {"clip": reading.name, "labels": list(label), "place": self._rows}
            )
            self._found[reading.name] = reading
            self._rows += len(label)

    def _forced(self, encoded: Any, labels: Sequence[tuple[int, ...]]) -> States:
        """Last hidden states along the labels, (clips, longest, d_model)."""
        tokens = self._decoder.tokens
        longest = max(1, *map(len, labels))
        given = torch.full((len(labels), longest), tokens.end, device=encoded.device)
        for row, label in zip(given, labels, strict=True):
            shifted = torch.tensor([tokens.start, *label[:-1]], device=encoded.device)
            row[: len(shifted)] = shifted[:longest]
        hidden = self._decoder.model.get_decoder()(
            input_ids=given, encoder_hidden_states=encoded, use_cache=False
        ).last_hidden_state
        states: States = hidden.to(torch.float16).cpu().numpy()
        return states

    def _taught(self, data: TrainingData) -> tuple[TrainingData, TeacherStates]:
        problems = list(data.problems)
        train, evaluation = (self._labelled(clips, problems) for clips in (data.train, data.evaluation))
        places = {clip: self._found[_name(clip)].place for clip in train}
        log.info("The base read %s clips padded.", len(train) + len(evaluation))
        states = TeacherStates(self._states, self._width, places)
        return TrainingData(train, evaluation, tuple(problems)), states

    def _labelled(self, clips: Sequence[Clip], problems: list[RowProblem]) -> tuple[Clip, ...]:
        """The clips with their readings as labels; those without one are named."""
        labelled = []
        for clip in clips:
            name = _name(clip)
            if name in self._unreadable:
                problems.append(RowProblem.from_error(clip.example, self._unreadable[name]))
            elif not self._found[name].labels:
                problems.append(_endless(clip))
            else:
                labelled.append(replace(clip, labels=self._found[name].labels, timed_labels=(), before=()))
        return tuple(labelled)


def taught_by_base(
    config: TrainingConfig,
    folder: Path,
    base: Base,
    prepared: tuple[TrainingData, FeatureSource],
    events: EventLog,
    stop: StopSignal,
) -> tuple[TrainingData, TeacherStates]:
    """The clips with what the base reads in them for labels; `folder` keeps it for a resumption.

    Raises:
        ManifestError: if the base makes nothing of any of them.
        StorageError: if there is no room for its states.
        StopRequested: if a stop was asked for.
    """
    data, features = prepared

    def on_batch(done: int, total: int) -> None:
        """Tells how far it is; a stop ends it."""
        stop.check()
        events.write("eval_progress", done=done, total=total)

    events.write("phase", phase=RunPhase.LISTENING)
    log.info("the base model transcribes the clips, padded to 30 seconds")
    teacher = Teacher(folder, base.decoder, features)
    found, states = teacher.teach(
        data,
        config.per_device_eval_batch_size,
        config.generation_max_length,
        on_batch,
        with_times=config.timestamps,
    )
    left_out = len(found.problems) - len(data.problems)
    if not found.train or not found.evaluation:
        raise ManifestError(
            "The base model's text ends in none of the clips of {source}: they may hold no speech.",
            source=config.train_data,
        )
    if left_out:
        events.warn(
            Message("{count} clips are not used: there the base model's text does not end.", count=left_out)
        )
    return found, states


def _name(clip: Clip) -> str:
    example = clip.example
    return f"{example.audio_path}|{example.start_seconds}|{example.end_seconds}|{clip.language}|{clip.task}"


def _endless(clip: Clip) -> RowProblem:
    return RowProblem.of(
        clip.example,
        "endless",
        "The base model's text of this clip does not end: there is nothing to learn from it.",
    )
