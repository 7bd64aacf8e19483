"""Times for texts that have none: the base model's own, where its words are those of the label."""

import hashlib
import logging
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.example import Example, TextSegment
from studio.dataset.sequences import store
from studio.errors import AudioError
from studio.training.times_file import TimesFile
from studio.transcription.engines.transformers import TransformersModel
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
    import torch

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
        rows = [text.tokens for text in decoder.generate(encoded, prompts, Search(), seconds)]
    for (place, sound), row in zip(audio.items(), rows, strict=True):
        pieces, _ = split_segments(row, decoder.tokens, len(sound) / SAMPLING_RATE)
        heard = [
            TextSegment(piece.start_seconds, piece.end_seconds, decoder.text_of(piece.text_tokens))
            for piece in pieces
        ]
        times[place] = cut_like(batch[place].text, heard)
    return times


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
        letters -= len(_letters(text[place]))
        place += 1
    return place


def _letters(text: str) -> str:
    """Letters, digits and their accents, whatever their case and width."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter for letter in plain if unicodedata.category(letter)[0] in "LNM")
