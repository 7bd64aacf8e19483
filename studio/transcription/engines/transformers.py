"""Windows of sound to tokens with transformers: the `WindowModel` that torch computes.

transformers searches (greedy, sampling, beams); the prompt, the rules for time tokens and the judgement are
given to it from here, so that each choice of the user reaches the model, and nothing of a model's saved
generation config overrides it.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.features import log_mel
from studio.lazy_imports import transformers_library
from studio.transcription.special_tokens import SECONDS_PER_TOKEN, SpecialTokens
from studio.transcription.time_tokens import WithinTheSound
from studio.transcription.window_model import Search, TokenTimes, Written, pad_word
from studio.whisper.audio_context import FRAMES_PER_POSITION, audio_context, positions_of
from studio.whisper.constants import ENGLISH_VOCABULARY
from studio.whisper.shared_sound import can_share, shared_sound


class Forbidden:
    """Tokens that are never written, and some that do not come first; as a logits processor."""

    def __init__(self, always: Sequence[int], first: Sequence[int], begin: int) -> None:
        """`first` are not written at position `begin`, the end of the prompt."""
        self._always = tuple(always)
        self._first = tuple({*always, *first})
        self._begin = begin

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores (clips × beams, tokens) with those of forbidden tokens at minus infinity."""
        import torch

        tokens = self._first if input_ids.shape[-1] == self._begin else self._always
        if not tokens:
            return scores
        return scores.index_fill(1, torch.tensor(tokens, device=scores.device), -math.inf)


class ChosenLogprobs:
    """Notes how likely each token was that a greedy search wrote, before any rule forbade another.

    A logits processor that changes nothing and comes before all others. One step's probabilities are kept.
    """

    def __init__(self) -> None:
        self._step: Any = None
        self._chosen: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Takes scores (clips, tokens) that nothing was done to."""
        import torch

        self._note(input_ids[:, -1])
        self._step = torch.log_softmax(scores.float(), dim=-1)
        return scores

    def averages(self, rows: Any, length: int, end: int) -> list[float | None]:
        """Mean natural logarithm over each row's tokens behind a prompt of `length`, its end token included.

        None where a row ended for want of room. `rows` (clips, tokens) are what the search gave.
        """
        import torch

        self._note(rows[:, -1])
        self._step = None
        odds = torch.stack(self._chosen, dim=1).tolist()
        found: list[float | None] = []
        for row, chosen in zip(rows[:, length:].tolist(), odds, strict=True):
            count = row.index(end) + 1 if end in row else 0
            found.append(sum(chosen[:count]) / count if count else None)
        return found

    def _note(self, tokens: Any) -> None:
        if self._step is not None:
            self._chosen.append(self._step.gather(1, tokens[:, None])[:, 0])


_LATEST_FIRST_TIME = 50
"""A window's first time token is at most 1 s, as in Whisper's own decoding."""
_SEED = 0
"""Sampling, the way out of loops, gives the same text each time."""
_MEDIAN_WIDTH = 7
"""Positions that the attention is smoothed over."""


class TransformersModel:
    """A loaded Whisper as a `WindowModel`. Not thread-safe: whoever calls holds the model's lock.

    `model` is a `WhisperForConditionalGeneration` (with LoRA layers inside or not) on its device,
    `settings` what its generation config said.
    """

    def __init__(
        self, model: Any, tokenizer: Any, extractor: Any, tokens: SpecialTokens, settings: dict[str, Any]
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.extractor = extractor
        self.tokens = tokens
        self.settings = settings

    @classmethod
    def of(cls, model: Any, folder: Path) -> "TransformersModel":
        """A `WhisperForConditionalGeneration` with the tokenizer and the features in its folder. The model is
        left an empty generation config, so that this class alone decides.

        Raises:
            ModelBrokenError: if the tokenizer is none of a Whisper.
        """
        transformers = transformers_library()
        tokenizer = transformers.WhisperTokenizer.from_pretrained(folder, local_files_only=True)
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True)
        settings = model.generation_config.to_dict()
        model.generation_config = transformers.GenerationConfig()
        is_multilingual = settings.get("is_multilingual")
        if is_multilingual is None:
            is_multilingual = model.config.vocab_size != ENGLISH_VOCABULARY
        tokens = SpecialTokens.of(tokenizer, is_multilingual=bool(is_multilingual))
        return cls(model, tokenizer, extractor, tokens, settings)

    usual_beams = 1
    """As in transformers itself."""

    @property
    def vocabulary(self) -> int:
        """How many tokens it has."""
        return int(self.model.config.vocab_size)

    @property
    def text_context(self) -> int:
        """Positions of the decoder, 448: prompt and text together."""
        return int(self.model.config.max_target_positions)

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        """Hidden states (clips, 1500, d_model) of clips of at most 30 s, each padded (see `pad_word`).

        `is_short`: only a little longer than the longest clip, for a model that was trained so.
        """
        import torch

        found = log_mel(self.extractor, clips)
        positions = found.shape[-1] // FRAMES_PER_POSITION
        if is_short:
            longest = max((len(clip) for clip in clips), default=0)
            positions = min(positions, positions_of(longest / self.extractor.sampling_rate))
        else:
            for row, clip in zip(found, clips, strict=True):
                pad_word(row, len(clip))
        features = torch.from_numpy(found[..., : FRAMES_PER_POSITION * positions])
        features = features.to(device=self.model.device, dtype=self.model.dtype)
        encoder = self.model.get_encoder()
        with audio_context(encoder, positions):
            return encoder(features).last_hidden_state

    def rows(self, encoded: Any, numbers: Sequence[int]) -> Any:
        """The hidden states of some of the windows."""
        return encoded[list(numbers)]

    def detect_language(self, encoded: Any) -> list[dict[str, float]]:
        """For each clip the probability of each language the model knows, likeliest first."""
        import torch

        first = torch.full((len(encoded), 1), self.tokens.start, device=encoded.device)
        ids = list(self.tokens.languages.values())
        rows = torch.softmax(self._logits(encoded, first)[:, 0, ids].float(), dim=-1).tolist()
        codes = list(self.tokens.languages)
        return [
            dict(sorted(zip(codes, row, strict=True), key=lambda item: item[1], reverse=True)) for row in rows
        ]

    def generate(
        self,
        encoded: Any,
        prompts: Sequence[Sequence[int]],
        search: Search,
        seconds: Sequence[float] | None = None,
    ) -> list[Written]:
        """A text for each window. The prompts must be of one length.

        A prompt without `<|notimestamps|>` asks for time tokens: none is later than the window's end, if
        `seconds` says how long each is.
        """
        import torch
        from transformers import GenerationMixin, LogitsProcessorList
        from transformers.modeling_outputs import BaseModelOutput

        length = len(prompts[0])
        device = encoded.device
        prompt = torch.tensor([list(p) for p in prompts], device=device)
        room = self.text_context - length
        wanted = min(search.max_new_tokens or room, room)
        config = self._generation_config(search, max_length=length + wanted)
        is_judged = search.logprob_threshold is not None
        is_greedy = search.num_beams == 1 and not search.temperature
        odds = ChosenLogprobs() if is_judged and is_greedy else None
        rules = self._rules(prompts[0], search, config, seconds)
        forked = [device] if device.type in ("cuda", "xpu") else []  # MPS has no state a device
        with torch.random.fork_rng(forked, device_type=device.type if forked else "cuda"):
            torch.manual_seed(_SEED)
            shares = can_share(self.model, config.num_beams)
            with shared_sound(self.model, encoded) if shares else nullcontext() as shared:
                rows: Any = GenerationMixin.generate(
                    self.model,
                    encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                    decoder_input_ids=prompt,
                    generation_config=config,
                    logits_processor=LogitsProcessorList([odds, *rules] if odds else rules),
                    past_key_values=shared,
                )
        texts = [self._until_end(row[length:]) for row in rows.tolist()]
        averages = odds.averages(rows, length, self.tokens.end) if odds else [None] * len(texts)
        if not is_judged:
            return [Written(text) for text in texts]
        return [
            self._judged(encoded[number : number + 1], prompts[number], text, average, search)
            for number, (text, average) in enumerate(zip(texts, averages, strict=True))
        ]

    def align(
        self, encoded: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]], seconds: Sequence[float]
    ) -> list[TokenTimes]:
        """When each token of each window's text was said: where some heads of the decoder look.

        As in OpenAI's Whisper (`whisper/timing.py`). The attention is computed here from the projections, so
        the model may run with any attention kernel.
        """
        return [
            self._aligned(encoded[number : number + 1], prompt, text, length)
            for number, (text, length) in enumerate(zip(texts, seconds, strict=True))
        ]

    def decoded(self, tokens: Sequence[int]) -> str:
        """Text of text tokens, with U+FFFD for a part of a character."""
        text: str = self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)
        return text

    def text_of(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; half a character at the end of a cut text is left out."""
        return self.decoded([token for token in tokens if token < self.tokens.end]).rstrip("\ufffd")

    def tokens_of(self, text: str) -> list[int]:
        """Text tokens of a text, without special ones."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [token for token in ids if token < self.tokens.end]

    def _judged(
        self, encoded: Any, prompt: Sequence[int], text: list[int], average: float | None, search: Search
    ) -> Written:
        """One text with its scores; a pass of the decoder where the search did not find them by the way."""
        import torch

        assert search.logprob_threshold is not None
        if average is not None and average >= search.logprob_threshold:
            return Written(text, average)
        whole = [*prompt, *text, self.tokens.end][: self.text_context]
        logits = self._logits(encoded, torch.tensor([whole], device=encoded.device))[0].float()
        targets = torch.tensor(whole[len(prompt) :], device=encoded.device)
        logprobs = torch.log_softmax(logits[len(prompt) - 1 : len(whole) - 1], dim=-1)
        chosen = logprobs.gather(1, targets[:, None])
        place = list(prompt).index(self.tokens.start)
        silence = torch.softmax(logits[place], dim=-1)[self.tokens.no_speech]
        return Written(text, float(chosen.mean()) if len(targets) else 0.0, float(silence))

    def _aligned(
        self, encoded: Any, prompt: Sequence[int], text: Sequence[int], seconds: float
    ) -> TokenTimes:
        import torch

        config = self.model.config
        heads = alignment_heads(self.settings, config.decoder_layers, config.decoder_attention_heads)
        text = list(text)[: self.text_context - len(prompt) - 1]
        whole = torch.tensor([[*prompt, *text, self.tokens.end]], device=encoded.device)
        with _cross_attention_inputs(self.model, {layer for layer, _ in heads}) as seen:
            hidden = self.model.get_decoder()(
                input_ids=whole, encoder_hidden_states=encoded, use_cache=False
            ).last_hidden_state
        places = slice(len(prompt) - 1, len(prompt) - 1 + len(text))
        odds = torch.softmax(self.model.proj_out(hidden[0, places]).float(), dim=-1)
        probabilities = odds.gather(1, whole[0, len(prompt) : len(prompt) + len(text), None])[:, 0]
        positions = max(1, min(encoded.shape[1], round(seconds / SECONDS_PER_TOKEN)))
        width = config.d_model // config.decoder_attention_heads
        weights = torch.stack(
            [_attention(seen[layer][0], seen[layer][1], head, width, positions) for layer, head in heads]
        )
        # A row looks at the sound of the token that it predicts: the last is that of the end.
        matrix = _sharpened(weights)[len(prompt) - 1 : -1].cpu().double().numpy()
        return TokenTimes(_row_starts(-matrix) * SECONDS_PER_TOKEN, probabilities.cpu().double().numpy())

    def _logits(self, encoded: Any, tokens: Any) -> Any:
        hidden = self.model.get_decoder()(
            input_ids=tokens, encoder_hidden_states=encoded, use_cache=False
        ).last_hidden_state
        return self.model.proj_out(hidden)

    def _generation_config(self, search: Search, *, max_length: int) -> Any:
        make = transformers_library().GenerationConfig
        beams = 1 if search.temperature else search.num_beams
        sampling = {"do_sample": True, "temperature": search.temperature, "top_k": 0}
        return make(
            max_length=max_length,
            num_beams=beams,
            # As Whisper's own search and CTranslate2's: it ends with as many texts as beams. One that goes on
            # finds longer texts, whose mean is better; behind a single word a sentence.
            early_stopping=beams > 1,
            eos_token_id=self.tokens.end,
            pad_token_id=self.tokens.end,
            decoder_start_token_id=self.tokens.start,
            **(sampling if search.temperature else {"do_sample": False}),
        )

    def _rules(
        self, prompt: Sequence[int], search: Search, config: Any, seconds: Sequence[float] | None
    ) -> list[Any]:
        """What may be written: no suppressed tokens, and times as Whisper's rules have them."""
        from transformers import WhisperTimeStampLogitsProcessor

        asked, named = search.suppress_tokens, self.settings.get("suppress_tokens") or []
        first = self.settings.get("begin_suppress_tokens") or []
        forbidden = Forbidden(named if asked is None else asked, first, len(prompt))
        if self.tokens.no_timestamps in prompt:
            return [forbidden]
        config.no_timestamps_token_id = self.tokens.no_timestamps
        config.max_initial_timestamp_index = _LATEST_FIRST_TIME
        rules: list[Any] = [WhisperTimeStampLogitsProcessor(config, begin_index=len(prompt))]
        # Before the others: they weigh times that may be written against text.
        limits: list[Any] = (
            [WithinTheSound([self.tokens.time_after(length) for length in seconds])] if seconds else []
        )
        return [forbidden, *limits, *rules]

    def _until_end(self, row: list[int]) -> list[int]:
        return row[: row.index(self.tokens.end)] if self.tokens.end in row else row


def alignment_heads(settings: dict[str, Any], decoder_layers: int, heads: int) -> list[tuple[int, int]]:
    """(layer, head) pairs that follow the sound: those the model names, else all of the upper half."""
    known = [(int(layer), int(head)) for layer, head in settings.get("alignment_heads") or ()]
    inside = [(layer, head) for layer, head in known if layer < decoder_layers and head < heads]
    return inside or [
        (layer, head) for layer in range(decoder_layers // 2, decoder_layers) for head in range(heads)
    ]


@contextmanager
def _cross_attention_inputs(model: Any, layers: set[int]) -> Iterator[dict[int, list[Any]]]:
    """Catches queries (tokens, d_model) and keys (positions, d_model) of the cross-attention, by layer."""
    seen: dict[int, list[Any]] = {layer: [None, None] for layer in layers}

    def catch(layer: int, place: int) -> Any:
        """A hook that keeps what a projection gives."""

        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            """Keeps it by layer and place."""
            seen[layer][place] = output[0].detach()

        return keep

    hooks = []
    for layer in layers:
        attention = model.get_decoder().layers[layer].encoder_attn
        hooks.append(attention.q_proj.register_forward_hook(catch(layer, 0)))
        hooks.append(attention.k_proj.register_forward_hook(catch(layer, 1)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _attention(queries: Any, keys: Any, head: int, width: int, positions: int) -> Any:
    """Weights (tokens, positions) of one head, over the part of the window that holds sound."""
    part = slice(head * width, (head + 1) * width)
    scores = queries[:, part].float() @ keys[:positions, part].float().T
    return (scores * width**-0.5).softmax(dim=-1)


def _sharpened(weights: Any) -> Any:
    """(heads, tokens, positions) → (tokens, positions): standardised, smoothed along time, averaged."""
    import torch

    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    standard = (weights - mean) / deviation.clamp_min(1e-9)
    if standard.shape[-1] > _MEDIAN_WIDTH // 2:
        padded = torch.nn.functional.pad(standard, [_MEDIAN_WIDTH // 2] * 2, mode="reflect")
        standard = padded.unfold(-1, _MEDIAN_WIDTH, 1).median(dim=-1).values
    return standard.mean(dim=0)


def _row_starts(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row the first column that the cheapest monotonic path gives it.

    Dynamic time warping an anti-diagonal at a time: all cells of one depend only on the two before it.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    step = np.zeros((rows + 1, columns + 1), dtype=np.int8)
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        ways = np.stack([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        best = ways.argmin(axis=0)
        step[i, j] = best
        total[i, j] = cost[i - 1, j - 1] + ways[best, np.arange(len(i))]
    starts = np.zeros(rows)
    row, column = rows, columns
    while row > 0 and column > 0:
        starts[row - 1] = column - 1
        move = step[row, column]
        row -= int(move in (0, 1))
        column -= int(move in (0, 2))
    return starts
