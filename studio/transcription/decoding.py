"""One window of sound to tokens: what a Whisper hears in 30 seconds, and how sure it is.

transformers searches (greedy, sampling, beams); the prompt, the rules for time tokens and the judgement are
given to it from here, so that each choice of the user reaches the model, and nothing of a model's saved
generation config overrides it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.features import log_mel
from studio.lazy_imports import transformers_library
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.time_rules import WithinTheSound
from studio.transcription.token_rules import ChosenLogprobs, Forbidden
from studio.transcription.windows import cut_loop
from studio.whisper.audio_context import FRAMES_PER_POSITION, audio_context, positions_of

_LATEST_FIRST_TIME = 50
"""A window's first time token is at most 1 s, as in Whisper's own decoding."""
_SEED = 0
"""Sampling, the way out of loops, gives the same text each time."""


@dataclass(frozen=True)
class Scores:
    """How a model judges a text."""

    average_logprob: float
    """Mean natural logarithm of the probability of each token, the end token included."""
    no_speech_probability: float


@dataclass(frozen=True)
class Written:
    """What a model wrote of a clip."""

    tokens: list[int]
    """Text and times, without prompt and end token."""
    average_logprob: float | None = None
    """As in `Scores`, where the search found it by the way: greedy, and not broken off for want of room."""


BEAMS = 1
"""Unless told, as in transformers itself."""


@dataclass(frozen=True)
class Search:
    """How to look for the best text."""

    num_beams: int = BEAMS
    temperature: float = 0.0
    """0: the most likely token each time; above: sampling."""
    max_new_tokens: int = 0
    """0: as many as fit."""
    suppress_tokens: tuple[int, ...] | None = None
    """Tokens that are never written; None: those that the model names."""


class Decoder:
    """A loaded Whisper for one window at a time. Not thread-safe: whoever calls holds the model's lock.

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

    @property
    def text_context(self) -> int:
        """Positions of the decoder, 448: prompt and text together."""
        return int(self.model.config.max_target_positions)

    @property
    def prompt_room(self) -> int:
        """Tokens of the prompt for text that comes before, 223: half the context without its first token."""
        return self.text_context // 2 - 1

    def hint(self, text: str) -> list[int]:
        """Tokens of text that comes before; it begins with a space, as in Whisper's own decoding."""
        return self.tokens_of(f" {text.strip()}") if text.strip() else []

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        """Hidden states (clips, 1500, d_model) of clips of at most 30 s, each padded with silence.

        `is_short`: only a little longer than the longest clip, for a model that was trained so.
        """
        import torch

        features = torch.from_numpy(log_mel(self.extractor, clips))
        positions = features.shape[-1] // FRAMES_PER_POSITION
        if is_short:
            longest = max((len(clip) for clip in clips), default=0)
            positions = min(positions, positions_of(longest / self.extractor.sampling_rate))
        features = features[..., : FRAMES_PER_POSITION * positions]
        features = features.to(device=self.model.device, dtype=self.model.dtype)
        encoder = self.model.get_encoder()
        with audio_context(encoder, positions):
            return encoder(features).last_hidden_state

    def language_probabilities(self, encoded: Any) -> list[dict[str, float]]:
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
    ) -> list[list[int]]:
        """The text and time tokens for each clip, without prompt and end token.

        The prompts must be of one length; a prompt without `<|notimestamps|>` asks for time tokens. None is
        later than the clip's end, if `seconds` says how long each is.
        """
        return [written.tokens for written in self.hear(encoded, prompts, search, seconds)]

    def hear(
        self,
        encoded: Any,
        prompts: Sequence[Sequence[int]],
        search: Search,
        seconds: Sequence[float] | None = None,
    ) -> list[Written]:
        """The same as `generate`, with how likely the model found its words."""
        import torch
        from transformers import GenerationMixin, LogitsProcessorList
        from transformers.modeling_outputs import BaseModelOutput

        length = len(prompts[0])
        prompt = torch.tensor([list(p) for p in prompts], device=encoded.device)
        room = self.text_context - length
        wanted = min(search.max_new_tokens or room, room)
        config = self._generation_config(search, max_length=length + wanted)
        is_greedy = search.num_beams == 1 and not search.temperature
        odds = ChosenLogprobs() if is_greedy else None
        rules = self._rules(prompts[0], search, config, seconds)
        with torch.random.fork_rng(devices=[encoded.device] if encoded.device.type == "cuda" else []):
            torch.manual_seed(_SEED)
            rows: Any = GenerationMixin.generate(
                self.model,
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                decoder_input_ids=prompt,
                generation_config=config,
                logits_processor=LogitsProcessorList([odds, *rules] if odds else rules),
            )
        texts = [self._until_end(row[length:]) for row in rows.tolist()]
        averages = odds.averages(rows, length, self.tokens.end) if odds else [None] * len(texts)
        return [Written(text, average) for text, average in zip(texts, averages, strict=True)]

    def write(self, encoded: Any, prompts: Sequence[Sequence[int]], search: Search) -> list[list[int]]:
        """As `generate` for prompts without times; a text stuck in a loop ends after its first round."""
        room = self.text_context - len(prompts[0])
        limit = min(search.max_new_tokens or room, room)
        rows = self.generate(encoded, prompts, search)
        return [cut_loop(self.text_of(row), row, self.tokens, was_cut=len(row) >= limit) for row in rows]

    def score(self, encoded: Any, prompt: Sequence[int], text: Sequence[int]) -> Scores:
        """Judges one text (tokens as from `generate`) in a single pass; `encoded` is (1, 1500, d_model)."""
        import torch

        whole = [*prompt, *text, self.tokens.end][: self.text_context]
        logits = self._logits(encoded, torch.tensor([whole], device=encoded.device))[0].float()
        targets = torch.tensor(whole[len(prompt) :], device=encoded.device)
        logprobs = torch.log_softmax(logits[len(prompt) - 1 : len(whole) - 1], dim=-1)
        chosen = logprobs.gather(1, targets[:, None])
        place = list(prompt).index(self.tokens.start)
        silence = torch.softmax(logits[place], dim=-1)[self.tokens.no_speech]
        return Scores(float(chosen.mean()) if len(targets) else 0.0, float(silence))

    def text_of(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; half a character at the end of a cut text is left out."""
        plain = [token for token in tokens if token < self.tokens.end]
        text: str = self.tokenizer.decode(plain, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")

    def tokens_of(self, text: str) -> list[int]:
        """Text tokens of a text, without special ones."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [token for token in ids if token < self.tokens.end]

    def _logits(self, encoded: Any, tokens: Any) -> Any:
        hidden = self.model.get_decoder()(
            input_ids=tokens, encoder_hidden_states=encoded, use_cache=False
        ).last_hidden_state
        return self.model.proj_out(hidden)

    def _generation_config(self, search: Search, *, max_length: int) -> Any:
        make = transformers_library().GenerationConfig
        sampling = {"do_sample": True, "temperature": search.temperature, "top_k": 0}
        return make(
            max_length=max_length,
            num_beams=1 if search.temperature else search.num_beams,
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
        limits: list[Any] = [WithinTheSound(self.tokens.first_time, seconds)] if seconds else []
        return [forbidden, *limits, *rules]

    def _until_end(self, row: list[int]) -> list[int]:
        return row[: row.index(self.tokens.end)] if self.tokens.end in row else row
