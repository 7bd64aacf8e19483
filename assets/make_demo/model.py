"""The demo model: a small Whisper, its configuration, and an encoder that takes fewer than 3000 frames."""

import math

import torch
from torch.nn import functional
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration, WhisperTokenizer

from .tokenizer import TIMESTAMP_TOKENS, token_id

WIDTH, HEADS, FEED_FORWARD = 128, 4, 512
ENCODER_LAYERS, DECODER_LAYERS = 3, 2
GUIDED_HEADS = 2
"""Cross-attention heads of the last layer that are led to where a token is heard."""
OFFSETS = ((-6, -2, 2, 6), (-12, -4, 4, 12), (-25, -8, 8, 25))
"""Where the heads of each encoder layer look at first, in positions of 20 ms."""
_SHARPNESS = 1.4
_INITIAL_DEVIATION = 0.02


def build_model(tokenizer: WhisperTokenizer, seed: int = 0) -> WhisperForConditionalGeneration:
    """An untrained model for the tokenizer, in float32."""
    torch.manual_seed(seed)
    end = token_id(tokenizer, "<|endoftext|>")
    start = token_id(tokenizer, "<|startoftranscript|>")
    config = WhisperConfig(
        vocab_size=len(tokenizer), num_mel_bins=80, d_model=WIDTH,
        encoder_layers=ENCODER_LAYERS, decoder_layers=DECODER_LAYERS,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=FEED_FORWARD, decoder_ffn_dim=FEED_FORWARD,
        max_source_positions=1500, max_target_positions=448, init_std=_INITIAL_DEVIATION,
        pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=start,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    _widen(model)
    _look_around(model)
    _start_from_sinusoids(model, token_id(tokenizer, "<|0.00|>"))
    model.generation_config = generation_settings(tokenizer)
    return model


def _widen(model: WhisperForConditionalGeneration) -> None:
    """First weights of deviation 1 / sqrt(inputs): the library's 0.02 suits models several times as wide."""
    for module in model.model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv1d):
            inputs = module.weight[0].numel()
            torch.nn.init.normal_(module.weight, std=inputs**-0.5)


def fit_convolutions(model: WhisperForConditionalGeneration, features: torch.Tensor) -> None:
    """Scale the first weights of the convolutions on features (clips, 80, frames): zero mean, unit deviation.

    Log-mel features are mostly a constant; without this, positions drown what is heard.
    """
    encoder = model.model.encoder
    with torch.no_grad():
        for convolution in (encoder.conv1, encoder.conv2):
            output = convolution(features)
            mean, deviation = output.mean((0, 2)), output.std((0, 2))
            convolution.weight /= deviation[:, None, None]
            convolution.bias.copy_((convolution.bias - mean) / deviation)
            features = functional.gelu(convolution(features))


def _look_around(model: WhisperForConditionalGeneration) -> None:
    """Let each encoder head attend, at first, a fixed distance away (`OFFSETS`, positions of 20 ms).

    Positions enter as sines and cosines, and a turn by an angle moves them: with queries turned by `offset` a
    head's score is a sum of cos(w (t - s - offset)), highest at s = t - offset. Sounds are local, and a small
    model needs thousands of steps to find that out.
    """
    size, half = WIDTH // HEADS, WIDTH // 2
    chosen = torch.arange(size // 2) * 2
    speeds = torch.exp(-math.log(10000) / (half - 1) * chosen)
    for layer, offsets in zip(model.model.encoder.layers, OFFSETS, strict=True):
        query, key = torch.zeros(WIDTH, WIDTH), torch.zeros(WIDTH, WIDTH)
        for head, offset in enumerate(offsets):
            sines = head * size + torch.arange(size // 2)
            cosines = sines + size // 2
            key[sines, chosen] = key[cosines, chosen + half] = 1.0
            turn_cos, turn_sin = (speeds * offset).cos(), (speeds * offset).sin()
            query[sines, chosen], query[sines, chosen + half] = turn_cos, -turn_sin
            query[cosines, chosen + half], query[cosines, chosen] = turn_cos, turn_sin
        with torch.no_grad():
            layer.self_attn.out_proj.weight.mul_(0.5)  # so that positions reach the last layer
            layer.fc2.weight.mul_(0.5)
            layer.self_attn.q_proj.weight.mul_(0.3).add_(_SHARPNESS * query)
            layer.self_attn.k_proj.weight.mul_(0.3).add_(_SHARPNESS * key)


def sinusoids(length: int, channels: int) -> torch.Tensor:
    """Whisper's fixed position table (length, channels)."""
    scales = torch.exp(-math.log(10000) / (channels // 2 - 1) * torch.arange(channels // 2))
    angles = torch.arange(length)[:, None] * scales[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _start_from_sinusoids(model: WhisperForConditionalGeneration, first_time: int) -> None:
    """Give time tokens and decoder positions smooth first values.

    A time token stands for one encoder position, 20 ms: with the table of the encoder's positions as its
    first value, reading a time off the cross-attention is learned in minutes.
    """
    scale = _INITIAL_DEVIATION * math.sqrt(2)
    with torch.no_grad():
        decoder = model.model.decoder
        decoder.embed_tokens.weight[first_time:] = scale * sinusoids(TIMESTAMP_TOKENS, WIDTH)
        decoder.embed_positions.weight[:] = scale * sinusoids(448, WIDTH)


def generation_settings(
    tokenizer: WhisperTokenizer, alignment_heads: list[list[int]] | None = None
) -> GenerationConfig:
    """Whisper's generation config; alignment heads are (decoder layer, head)."""
    names = "endoftext startoftranscript translate transcribe startoflm startofprev notimestamps"
    ids = {name: token_id(tokenizer, f"<|{name}|>") for name in names.split()}
    first = ids["startoftranscript"] + 1
    languages = tokenizer.convert_ids_to_tokens(list(range(first, ids["translate"])))
    space = token_id(tokenizer, "\u0120")
    never = ("startoftranscript", "translate", "transcribe", "startoflm", "startofprev")
    return GenerationConfig(  # type: ignore[no-untyped-call]
        alignment_heads=alignment_heads or [[DECODER_LAYERS - 1, head] for head in range(HEADS)],
        begin_suppress_tokens=[space, ids["endoftext"]],
        suppress_tokens=sorted(ids[name] for name in never),
        bos_token_id=ids["endoftext"], eos_token_id=ids["endoftext"], pad_token_id=ids["endoftext"],
        decoder_start_token_id=ids["startoftranscript"], prev_sot_token_id=ids["startofprev"],
        is_multilingual=True,
        lang_to_id={token: first + index for index, token in enumerate(languages)},
        task_to_id={"transcribe": ids["transcribe"], "translate": ids["translate"]},
        no_timestamps_token_id=ids["notimestamps"], max_initial_timestamp_index=50,
        max_length=448, return_timestamps=False,
    )  # fmt: skip


def encode(model: WhisperForConditionalGeneration, features: torch.Tensor) -> torch.Tensor:
    """Encoder states (clips, frames / 2, width) of features (clips, 80, frames) with at most 3000 frames.

    The library's encoder insists on 3000; the arithmetic is the same.
    """
    encoder = model.model.encoder
    hidden = functional.gelu(encoder.conv1(features))
    hidden = functional.gelu(encoder.conv2(hidden)).permute(0, 2, 1)
    hidden = hidden + encoder.embed_positions.weight[: hidden.shape[1]]
    for layer in encoder.layers:
        output = layer(hidden, None)
        hidden = output[0] if isinstance(output, tuple) else output
    states: torch.Tensor = encoder.layer_norm(hidden)
    return states


def logits_at(
    model: WhisperForConditionalGeneration, states: torch.Tensor, inputs: torch.Tensor, where: torch.Tensor
) -> torch.Tensor:
    """Logits (places, vocabulary) at the places (clips, tokens) that are true, given encoder states."""
    decoded = model.model.decoder(input_ids=inputs, encoder_hidden_states=states, use_cache=False)
    logits: torch.Tensor = model.proj_out(decoded.last_hidden_state[where])
    return logits
