"""When each word was said: the decoder's cross-attention, aligned with the text by dynamic time warping.

As in OpenAI's Whisper (`whisper/timing.py`): some heads of the decoder look at the sound they write down.
Their attention is computed here from the projections, so the model may run with any attention kernel.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.transcription.decoding import Decoder
from studio.transcription.engine import Word
from studio.transcription.special_tokens import SECONDS_PER_TOKEN

_MEDIAN_WIDTH = 7
"""Positions that the attention is smoothed over."""
_LONGEST_USUAL_SECONDS = 0.7
_SHORTEST_VOICE_SECONDS = 0.2
"""What is left of a voice for less than this is the end of the word before."""
_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "my", "yue", "km", "bo"}
_OPENING = "\"'“¿([{-「『（《【"
_CLOSING = "\"'.。,，!！?？:：”)]}、;；…」』）》】"


@dataclass(frozen=True)
class TokenTimes:
    """Token `i` was said from `edges[i]` to `edges[i + 1]` seconds, with `probabilities[i]`."""

    edges: NDArray[np.float64]
    probabilities: NDArray[np.float64]


def alignment_heads(settings: dict[str, Any], decoder_layers: int, heads: int) -> list[tuple[int, int]]:
    """(layer, head) pairs that follow the sound: those the model names, else all of the upper half."""
    known = [(int(layer), int(head)) for layer, head in settings.get("alignment_heads") or ()]
    inside = [(layer, head) for layer, head in known if layer < decoder_layers and head < heads]
    return inside or [
        (layer, head) for layer in range(decoder_layers // 2, decoder_layers) for head in range(heads)
    ]


def token_times(
    decoder: Decoder, encoded: Any, prompt: Sequence[int], text: Sequence[int], length_seconds: float
) -> TokenTimes:
    """Times of text tokens in one window; `encoded` is (1, 1500, d_model), `length_seconds` its sound.

    `prompt` ends with `<|notimestamps|>`; `text` has no time tokens.
    """
    import torch

    config = decoder.model.config
    heads = alignment_heads(decoder.settings, config.decoder_layers, config.decoder_attention_heads)
    text = list(text)[: decoder.text_context - len(prompt) - 1]
    whole = torch.tensor([[*prompt, *text, decoder.tokens.end]], device=encoded.device)
    with _cross_attention_inputs(decoder.model, {layer for layer, _ in heads}) as seen:
        hidden = decoder.model.get_decoder()(
            input_ids=whole, encoder_hidden_states=encoded, use_cache=False
        ).last_hidden_state
    rows = slice(len(prompt) - 1, len(prompt) - 1 + len(text))
    odds = torch.softmax(decoder.model.proj_out(hidden[0, rows]).float(), dim=-1)
    probabilities = odds.gather(1, whole[0, len(prompt) : len(prompt) + len(text), None])[:, 0]
    positions = max(1, min(encoded.shape[1], round(length_seconds / SECONDS_PER_TOKEN)))
    width = config.d_model // config.decoder_attention_heads
    weights = torch.stack(
        [_attention(seen[layer][0], seen[layer][1], head, width, positions) for layer, head in heads]
    )
    # A row looks at the sound of the token that it predicts: the last is that of the end.
    matrix = _sharpened(weights)[len(prompt) - 1 : -1].double().cpu().numpy()
    return TokenTimes(_row_starts(-matrix) * SECONDS_PER_TOKEN, probabilities.double().cpu().numpy())


@contextmanager
def _cross_attention_inputs(model: Any, layers: set[int]) -> Iterator[dict[int, list[Any]]]:
    """Catches queries (tokens, d_model) and keys (positions, d_model) of the cross-attention, by layer."""
    seen: dict[int, list[Any]] = {layer: [None, None] for layer in layers}

    def catch(layer: int, place: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
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


def words_of(
    decoder: Decoder, language: str, text: Sequence[int], edges: Sequence[float], odds: Sequence[float]
) -> list[Word]:
    """Text tokens of a segment to words; token `i` lasts from `edges[i]` to `edges[i + 1]`.

    Words are split at spaces, and a character each in scripts without; punctuation stays with its word.
    """
    words: list[Word] = []
    for piece, first, after in _pieces(decoder, text):
        odd = float(np.mean(odds[first:after])) if after > first else None
        parts = written_parts(piece)
        length = (edges[after] - edges[first]) / max(1, len(parts))
        for number, part in enumerate(parts):
            begin = edges[first] + number * length
            word = Word(begin, begin + length, part, odd)
            if words and _continues(words[-1].text, part, language):
                words[-1] = _joined(words[-1], word)
            else:
                words.append(word)
    return [replace(word, text=word.text.strip()) for word in words if word.text.strip()]


def _pieces(decoder: Decoder, text: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """The shortest runs of tokens that are whole characters: (text, first token, token after the last)."""
    first = 0
    for after in range(1, len(text) + 1):
        piece = decoder.tokenizer.decode(list(text[first:after]), clean_up_tokenization_spaces=False)
        if "\ufffd" not in piece:
            yield piece, first, after
            first = after


def written_parts(piece: str) -> list[str]:
    """Characters of a piece in a script without spaces, else the piece as it is."""
    if not any(_is_ideograph(char) for char in piece):
        return [piece]
    parts: list[str] = []
    for char in piece:
        if parts and (
            unicodedata.category(char)[0] == "M" or not (_is_ideograph(char) or _is_ideograph(parts[-1][-1]))
        ):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def _is_ideograph(char: str) -> bool:
    """Chinese characters, kana and their marks: each stands for itself, in whatever language."""
    return "\u3005" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff"


def _continues(word: str, part: str, language: str) -> bool:
    """Whether `part` belongs to the word before it."""
    bare = part.strip()
    if not bare:
        return False
    if all(char in _CLOSING for char in bare) or all(char in _OPENING for char in word.strip()):
        return not (part[0].isspace() and bare in _OPENING)
    if part[0].isspace() or language in _WITHOUT_SPACES - {"zh", "ja", "yue"}:
        return False
    return not (_is_ideograph(bare[0]) or _is_ideograph(word[-1]) or word[-1] in "。，！？、；：")


def _joined(word: Word, part: Word) -> Word:
    known = [odd for odd in (word.probability, part.probability) if odd is not None]
    is_letter = any(char.isalnum() for char in part.text)
    probability = float(np.mean(known)) if known and is_letter else word.probability
    return Word(
        word.start_seconds,
        part.end_seconds if is_letter else word.end_seconds,
        word.text + part.text,
        probability,
    )


def spread(start: float, end: float, text: str, probability: float | None) -> list[Word]:
    """A word as one; one of a script without spaces as its characters, each as long as the others."""
    parts = written_parts(text.strip()) if text.strip() else []
    length = (end - start) / max(1, len(parts))
    return [
        Word(start + number * length, start + (number + 1) * length, part.strip(), probability)
        for number, part in enumerate(parts)
        if part.strip()
    ]


def without_stretched(words: Sequence[Word], spans: Sequence[tuple[float, float]] = ()) -> list[Word]:
    """Shortens words that seem to last through a pause, at most twice the usual length beside one.

    The alignment counts a pause as part of the word beside it; after `whisper/timing.py`. `spans` says where
    voices are, (start, end) in seconds: a word that begins in a pause begins with the next voice instead.
    """
    lengths = [
        word.end_seconds - word.start_seconds for word in words if word.end_seconds > word.start_seconds
    ]
    usual = min(_LONGEST_USUAL_SECONDS, float(np.median(lengths))) if lengths else 0.0
    longest = max(2 * usual, 0.2)
    kept = []
    for number, word in enumerate(words):
        if number and word.end_seconds - word.start_seconds > longest:
            word = _after_pause(word, spans)
        if word.end_seconds - word.start_seconds > longest:
            if number == 0:
                word = replace(word, start_seconds=word.end_seconds - longest)
            else:
                word = replace(word, end_seconds=word.start_seconds + longest)
        kept.append(word)
    return kept


def _after_pause(word: Word, spans: Sequence[tuple[float, float]]) -> Word:
    """A word that begins in a pause, from the next voice on: to the alignment, the pause is a part of it."""
    if any(start <= word.start_seconds < end - _SHORTEST_VOICE_SECONDS for start, end in spans):
        return word
    begins = [start for start, _ in spans if word.start_seconds < start < word.end_seconds]
    return replace(word, start_seconds=begins[0]) if begins else word


def within_voice(words: Sequence[Word], spans: Sequence[tuple[float, float]]) -> list[Word]:
    """Begins the first word with the voice and ends the last with it; `spans`: (start, end) of voices, s.

    To the alignment, the silence before the first word of a window is a part of it. Inside of a window the
    alignment is the better judge: what it takes for a word's time may lie beside the voice.
    """
    kept = list(words)
    if not (kept and spans):
        return kept
    first, begin, end = kept[0], spans[0][0], spans[-1][1]
    if first.start_seconds < begin < first.end_seconds:
        kept[0] = replace(first, start_seconds=begin)
    last = kept[-1]
    if last.start_seconds < end < last.end_seconds:
        kept[-1] = replace(last, end_seconds=end)
    return kept
