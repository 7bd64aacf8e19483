"""Clips into batches: Whisper's target sequences, padding of every amount, masking of features."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import WhisperTokenizer

from .clips import WINDOW_SECONDS, Clip, Segment
from .features import FRAMES, padding_value
from .tokenizer import TEXT_TOKENS, token_id

IGNORED = -100
MAX_TARGET = 448
POSITION_SECONDS = 0.02
SILENCE = TEXT_TOKENS
"""Stands for no token in `Batch.sounds`."""
_GUIDE_MARGIN = 2
"""Encoder positions (20 ms) that the attention may miss a token by."""


@dataclass(frozen=True)
class Batch:
    """One training step's worth."""

    features: torch.Tensor
    """float32 (clips, 80, frames), frames even and at most 3000."""
    inputs: torch.Tensor
    """Decoder inputs (clips, tokens)."""
    targets: torch.Tensor
    """The next token at each place, -100 where there is none to learn."""
    sounds: torch.Tensor
    """What is said at each encoder position (clips, frames / 2): a text token, SILENCE, or -100."""
    guides: torch.Tensor
    """Rows of (clip, target place, first position, last position): where a target token is heard."""


@dataclass(frozen=True)
class Piece:
    """A token and when it is heard."""

    token: int
    start: float | None = None
    """Seconds in the clip; None where espeak-ng did not tell."""
    end: float | None = None


class Targets:
    """Writes what Whisper should say about a clip, in tokens."""

    def __init__(self, tokenizer: WhisperTokenizer) -> None:
        self._tokenizer = tokenizer
        names = ("startoftranscript", "en", "transcribe", "notimestamps", "nospeech", "startofprev", "0.00")
        self._ids = {name: token_id(tokenizer, f"<|{name}|>") for name in names}
        self._words: dict[str, list[int]] = {}
        self._end = token_id(tokenizer, "<|endoftext|>")

    def text(self, text: str) -> list[int]:
        """Tokens of a text, nothing added."""
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def time(self, seconds: float) -> int:
        """The token of a time, rounded to 20 ms and kept within the window."""
        return self._ids["0.00"] + round(min(max(seconds, 0.0), WINDOW_SECONDS) / 0.02)

    def pieces(self, segment: Segment) -> list[Piece]:
        """The tokens of a sentence; those of a word share its time evenly."""
        words = [f" {word}" for word in segment.text.split()]
        if len(segment.word_starts) != len(words):
            return [Piece(token) for word in words for token in self._word(word)]
        ends = [*segment.word_starts[1:], segment.end]
        found = []
        for word, start, end in zip(words, segment.word_starts, ends, strict=True):
            tokens = self._word(word)
            step = (end - start) / len(tokens)
            found += [Piece(t, start + i * step, start + (i + 1) * step) for i, t in enumerate(tokens)]
        return found

    def _word(self, word: str) -> list[int]:
        if word not in self._words:
            self._words[word] = self.text(word)
        return self._words[word]

    def sequence(
        self, clip: Clip, timestamps: bool, rng: random.Random
    ) -> tuple[list[int], list[int], list[Piece]]:
        """Decoder inputs, targets, and the piece that each target is."""
        ids = self._ids
        prompt = [ids["startofprev"], *self.text(clip.previous)[-220:]] if clip.previous else []
        head = [ids["startoftranscript"], ids["en"], ids["transcribe"]]
        body = self._timed(clip) if timestamps else [Piece(ids["notimestamps"]), *self._plain(clip)]
        pieces = [*map(Piece, prompt + head), *body, Piece(self._end)]
        tokens = [piece.token for piece in pieces]
        targets = [*tokens[1:], IGNORED]
        targets[: len(prompt)] = [IGNORED] * len(prompt)
        if not clip.segments:
            # As in Whisper: what follows the start token of a clip without speech is <|nospeech|>; when
            # language and task are forced all the same, the text is empty.
            targets[len(prompt)] = ids["nospeech"]
            targets[len(prompt) + 1] = IGNORED
            targets[len(prompt) + 2] = IGNORED
        elif timestamps and clip.segments[0].start > 1.0 and rng.random() < 0.5:
            # Decoders allow no first time beyond one second: learn to go on after one that is too early.
            place = len(prompt) + len(head)
            tokens[place], targets[place - 1] = self.time(rng.uniform(0.9, 1.0)), IGNORED
        return tokens[:MAX_TARGET], targets[:MAX_TARGET], pieces[1 : MAX_TARGET + 1]

    def _timed(self, clip: Clip) -> list[Piece]:
        """Each sentence between its times; one that the window cuts is only a start time, as in Whisper."""
        if not clip.segments:
            return [Piece(self._ids["0.00"])]
        found: list[Piece] = []
        for segment in clip.segments:
            found.append(Piece(self.time(segment.start), segment.start, segment.start))
            if segment.end <= WINDOW_SECONDS:
                found += self.pieces(segment)
                found.append(Piece(self.time(segment.end), segment.end, segment.end))
        return found

    def _plain(self, clip: Clip) -> list[Piece]:
        """All sentences; without speech <|nospeech|>, since decoders ban an end as the first token."""
        if not clip.segments:
            return [Piece(self._ids["nospeech"])]
        return [piece for segment in clip.segments for piece in self.pieces(segment)]

    def sounds(self, clip: Clip, positions: int) -> list[int]:
        """The token heard at each encoder position (20 ms)."""
        heard = [SILENCE] * positions
        for segment in clip.segments:
            known = segment.end <= WINDOW_SECONDS and self.pieces(segment)
            if not known or known[0].start is None:
                known = [Piece(IGNORED, segment.start, segment.end)]
            for piece in known:
                first, last = (
                    round((second or 0.0) / POSITION_SECONDS) for second in (piece.start, piece.end)
                )
                heard[first:last] = [piece.token] * (min(last, positions) - min(first, positions))
        return heard


def without_cut_sentence(clip: Clip) -> Clip:
    """The clip with a sentence that the window cuts silenced: so is it shown when no times are asked for."""
    last = clip.segments[-1] if clip.segments else None
    if last is None or last.end <= WINDOW_SECONDS:
        return clip
    features = clip.features.copy()
    features[:, int(last.start * 100) :] = padding_value(features)
    return Clip(features, clip.segments[:-1], clip.previous)


def pad_features(clips: Sequence[Clip], frames: int) -> torch.Tensor:
    """Features (clips, 80, frames) as if zero samples had been appended."""
    block = np.empty((len(clips), 80, frames), np.float32)
    for row, clip in zip(block, clips, strict=True):
        count = min(frames, clip.features.shape[1])
        row[:] = padding_value(clip.features)
        row[:, :count] = clip.features[:, :count]
    return torch.from_numpy(block)


def mask_features(features: torch.Tensor, rng: np.random.Generator) -> None:
    """SpecAugment in place: per clip up to two stretches of 30–120 ms, sometimes up to eight mel bands."""
    for row in features:
        for _ in range(rng.integers(0, 3)):
            start = rng.integers(0, max(1, row.shape[1] - 12))
            row[:, start : start + rng.integers(3, 13)] = row.mean()
        if rng.random() < 0.3:
            low = rng.integers(0, 72)
            row[low : low + rng.integers(1, 9)] = row.mean()


def padded_frames(clips: Sequence[Clip], rng: random.Random) -> int:
    """The even number of frames of a batch: half of the time the longest clip, else up to 3 s more."""
    longest = max(int(clip.features.shape[1]) for clip in clips)
    extra = rng.randint(10, 300) if rng.random() < 0.5 else 0
    return min(FRAMES, (longest + extra + 1) // 2 * 2)


def make_batch(clips: Sequence[Clip], frames: int, targets: Targets, rng: random.Random) -> Batch:
    """A batch padded to a number of frames, half of the clips with times, half without."""
    clips = list(clips)
    timestamps = [rng.random() < 0.5 for _ in clips]
    clips = [
        clip if timed else without_cut_sentence(clip) for clip, timed in zip(clips, timestamps, strict=True)
    ]
    features = pad_features(clips, frames)
    mask_features(features, np.random.default_rng(rng.getrandbits(32)))
    rows = [targets.sequence(clip, timed, rng) for clip, timed in zip(clips, timestamps, strict=True)]
    width = max(len(tokens) for tokens, _, _ in rows)
    end = rows[0][0][-1]
    return Batch(
        features,
        inputs=torch.tensor([[*tokens, *[end] * (width - len(tokens))] for tokens, _, _ in rows]),
        targets=torch.tensor([[*nexts, *[IGNORED] * (width - len(nexts))] for _, nexts, _ in rows]),
        sounds=torch.tensor([targets.sounds(clip, frames // 2) for clip in clips]),
        guides=torch.tensor(
            [
                guide
                for index, (_, _, pieces) in enumerate(rows)
                for guide in _guides(index, pieces, frames // 2)
            ],
            dtype=torch.long,
        ).reshape(-1, 4),
    )


def _guides(clip: int, pieces: list[Piece], positions: int) -> list[tuple[int, int, int, int]]:
    """Where each token with a known time may be looked for."""
    found = []
    for place, piece in enumerate(pieces):
        if piece.start is not None and piece.end is not None:
            first = max(0, round(piece.start / POSITION_SECONDS) - _GUIDE_MARGIN)
            last = min(positions - 1, round(piece.end / POSITION_SECONDS) + _GUIDE_MARGIN)
            if first <= last:
                found.append((clip, place, first, last))
    return found
