"""How many numbers a Whisper holds, from its dimensions alone.

Names and shapes are those of `transformers`' `WhisperForConditionalGeneration`: key projections have no
bias, the output projection shares the token embedding, the encoder's positions are fixed sines.
"""

from dataclasses import dataclass
from typing import Literal

from studio.registry.spec import ModelDimensions

LINEAR_NAMES = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")

Part = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class Linear:
    """One kind of linear layer and how often the model has it."""

    part: Part
    block: Literal["self_attn", "encoder_attn", "mlp"]
    name: str
    in_features: int
    out_features: int
    has_bias: bool
    count: int

    @property
    def weights(self) -> int:
        """Numbers in one weight matrix."""
        return self.in_features * self.out_features


def linear_layers(dimensions: ModelDimensions) -> tuple[Linear, ...]:
    """Every linear layer of the transformer blocks, grouped by kind."""
    d = dimensions
    rows: list[Linear] = []
    parts: tuple[tuple[Part, int, int], ...] = (
        ("encoder", d.encoder_layers, d.encoder_ffn_dim),
        ("decoder", d.decoder_layers, d.decoder_ffn_dim),
    )
    for part, count, ffn in parts:
        blocks: tuple[Literal["self_attn", "encoder_attn"], ...] = (
            ("self_attn",) if part == "encoder" else ("self_attn", "encoder_attn")
        )
        for block in blocks:
            for name in LINEAR_NAMES[:4]:
                rows.append(Linear(part, block, name, d.d_model, d.d_model, name != "k_proj", count))
        rows.append(Linear(part, "mlp", "fc1", d.d_model, ffn, True, count))
        rows.append(Linear(part, "mlp", "fc2", ffn, d.d_model, True, count))
    return tuple(rows)


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers in each part of a model; a shared embedding is counted once."""

    encoder_layers: int
    decoder_layers: int
    stem: int
    """The two convolutions and the encoder's last norm."""
    encoder_positions: int
    """Fixed: never trained."""
    token_embedding: int
    decoder_positions: int
    decoder_norm: int

    @property
    def encoder(self) -> int:
        """The whole encoder."""
        return self.encoder_layers + self.stem + self.encoder_positions

    @property
    def decoder(self) -> int:
        """The whole decoder with the token embedding."""
        return self.decoder_layers + self.token_embedding + self.decoder_positions + self.decoder_norm

    @property
    def total(self) -> int:
        """Every parameter."""
        return self.encoder + self.decoder


def count_parameters(dimensions: ModelDimensions) -> ParameterCounts:
    """Exact counts for a Whisper of these dimensions."""
    d = dimensions.d_model
    norm = 2 * d
    in_layers = {"encoder": 0, "decoder": 0}
    for linear in linear_layers(dimensions):
        bias = linear.out_features if linear.has_bias else 0
        in_layers[linear.part] += linear.count * (linear.weights + bias)
    return ParameterCounts(
        encoder_layers=in_layers["encoder"] + dimensions.encoder_layers * 2 * norm,
        decoder_layers=in_layers["decoder"] + dimensions.decoder_layers * 3 * norm,
        stem=dimensions.num_mel_bins * d * 3 + d + d * d * 3 + d + norm,
        encoder_positions=dimensions.max_source_positions * d,
        token_embedding=dimensions.vocab_size * d,
        decoder_positions=dimensions.max_target_positions * d,
        decoder_norm=norm,
    )
