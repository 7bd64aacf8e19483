"""Windows of sound to tokens with CTranslate2: the `WindowModel` of exports, read by faster-whisper.

What the library decides by itself, other than torch does here:

- Sampling draws five texts and keeps the likeliest, as faster-whisper does; its source of chance is the
  process's, seeded once when the model is loaded.
- One list of tokens to suppress, one length and one temperature for all windows of a batch.
- `align` has one start sequence for all windows of a batch, and smooths the attention by itself.
- A text's probability that nobody speaks is there whether it is asked for or not.
- The rules of time tokens (they come in pairs, none before the one before it) are inside its search. Here
  only what is later than a window's end is forbidden or moved to it.
- How likely a word is, `align` tells: the probabilities of the tokens of the text that it is given.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.transcription.special_tokens import SECONDS_PER_TOKEN, SpecialTokens
from studio.transcription.window_model import Search, TokenTimes, Written, pad_word
from studio.whisper.audio_context import FRAMES_PER_POSITION, POSITIONS, positions_of
from studio.whisper.constants import TEXT_POSITIONS

_DRAWN = 5
"""Texts that a temperature above zero draws."""
_FRAME_SECONDS = 0.01
_LOG_FLOOR, _DYNAMIC_RANGE = -1.5, 2.0
"""Whisper's features of nothing at all, and how far below the loudest they go at most."""


class CTranslate2Model:
    """An export as a `WindowModel`. `model` is a `faster_whisper.WhisperModel`. Safe to share by threads."""

    usual_beams = 5
    """faster-whisper's own, and a tenth fewer errors."""
    text_context = TEXT_POSITIONS

    def __init__(self, model: Any, tokens: SpecialTokens, suppressed: tuple[int, ...]) -> None:
        """`suppressed` are the tokens that the model names as never to be written."""
        self.model = model.model
        self.tokens = tokens
        self._tokenizer = model.hf_tokenizer
        self._extractor = model.feature_extractor
        self._suppressed = suppressed

    @property
    def vocabulary(self) -> int:
        """How many tokens it has."""
        return self.tokens.last_time + 1

    def tokens_of(self, text: str) -> list[int]:
        """Text tokens of a text, without special ones."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [token for token in ids if token < self.tokens.end]

    def decoded(self, tokens: Sequence[int]) -> str:
        """Text of text tokens, with U+FFFD for a part of a character."""
        text: str = self._tokenizer.decode(list(tokens))
        return text

    def text_of(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; half a character at the end of a cut text is left out."""
        return self.decoded([token for token in tokens if token < self.tokens.end]).rstrip("\ufffd")

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        """Hidden states (clips, positions, d_model) of clips of at most 30 s, padded (see `pad_word`)."""
        longest = max(map(len, clips)) / self._extractor.sampling_rate
        positions = positions_of(longest) if is_short else POSITIONS
        features = np.stack([self._features(clip, FRAMES_PER_POSITION * positions) for clip in clips])
        if not is_short:
            for row, clip in zip(features, clips, strict=True):
                pad_word(row, len(clip))
        return self.model.encode(_view(features))

    def rows(self, encoded: Any, numbers: Sequence[int]) -> Any:
        """The hidden states of some of the windows."""
        import ctranslate2

        if encoded.dtype == ctranslate2.DataType.bfloat16:
            encoded = encoded.to(ctranslate2.DataType.float32)  # NumPy has no such type
        states = np.array(encoded.to_device(ctranslate2.Device.cpu))
        return _view(states[list(numbers)])

    def detect_language(self, encoded: Any) -> list[dict[str, float]]:
        """For each window the probability of each language the model knows, likeliest first."""
        return [
            {token.strip("<|>"): float(odds) for token, odds in row}
            for row in self.model.detect_language(encoded)
        ]

    def generate(
        self,
        encoded: Any,
        prompts: Sequence[Sequence[int]],
        search: Search,
        seconds: Sequence[float] | None = None,
    ) -> list[Written]:
        """A text for each window. The prompts must be of one length, and all ask for times or none does.

        No time is later than the end of the longest window, and what is later than a window's own becomes its
        end, if `seconds` says how long each is.
        """
        room = self.text_context - len(prompts[0])
        named = [*(self._suppressed if search.suppress_tokens is None else search.suppress_tokens)]
        lasts = [self.tokens.time_after(length) for length in seconds or ()] or [self.tokens.last_time] * len(
            prompts
        )
        if self.tokens.no_timestamps not in prompts[0]:
            named += range(max(lasts) + 1, self.tokens.last_time + 1)
        how: dict[str, Any] = {"beam_size": search.num_beams}
        if search.temperature:
            how = {
                "beam_size": 1,
                "num_hypotheses": _DRAWN,
                "sampling_topk": 0,
                "sampling_temperature": search.temperature,
            }
        results = self.model.generate(
            encoded,
            [list(prompt) for prompt in prompts],
            max_length=len(prompts[0]) + min(search.max_new_tokens or room, room),
            suppress_tokens=named,
            return_scores=True,
            return_no_speech_prob=True,
            **how,
        )
        return [self._written(result, last) for result, last in zip(results, lasts, strict=True)]

    def align(
        self, encoded: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]], seconds: Sequence[float]
    ) -> list[TokenTimes]:
        """When each token of each window's text was said."""
        room = self.text_context - len(prompt) - 1
        start = [token for token in prompt if token != self.tokens.no_timestamps]
        cut = [list(text)[:room] for text in texts]
        most = FRAMES_PER_POSITION * encoded.shape[1]
        frames = [max(FRAMES_PER_POSITION, min(most, round(length / _FRAME_SECONDS))) for length in seconds]
        return [
            _times(result, len(text))
            for result, text in zip(self.model.align(encoded, start, cut, frames), cut, strict=True)
        ]

    def _features(self, clip: NDArray[np.float32], frames: int) -> NDArray[np.float32]:
        """Log-mel features (bins, frames); behind the clip is silence as the extractor writes it."""
        # A transform's length of silence keeps its mirrored edge out of the sound.
        found = self._extractor(np.pad(clip, (0, self._extractor.n_fft)), padding=0)[:, :frames]
        silence = max(float(found.max()) - _DYNAMIC_RANGE, _LOG_FLOOR)
        whole = np.full((len(found), frames), silence, np.float32)
        whole[:, : found.shape[1]] = found
        return whole

    def _written(self, result: Any, last: int) -> Written:
        row = [min(token, last) for token in result.sequences_ids[0] if token != self.tokens.end]
        # The score is a mean over the text alone; its sum counts the end token, too.
        average = result.scores[0] * len(row) / (len(row) + 1)
        return Written(row, float(average), float(result.no_speech_prob))


def _times(result: Any, count: int) -> TokenTimes:
    """The first position of each token, and of the end behind them."""
    edges = np.zeros(count + 1)
    for token, position in reversed(result.alignments):
        edges[min(token, count)] = position * SECONDS_PER_TOKEN
    return TokenTimes(edges, np.array(result.text_token_probs[:count]))


def _view(array: NDArray[Any]) -> Any:
    import ctranslate2

    return ctranslate2.StorageView.from_array(np.ascontiguousarray(array))
