"""Every tensor of a Whisper, from its dimensions alone: shapes, and how many numbers they hold.

Names and shapes are those of `transformers`' `WhisperForConditionalGeneration`: key projections have no
bias, the output projection shares the token embedding, the encoder's positions are fixed sines.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from studio.registry.spec import ModelDimensions

Half = Literal["encoder", "decoder"]
Block = Literal["self_attn", "encoder_attn", "mlp"]


@dataclass(frozen=True)
class Linear:
    """One kind of linear layer in the transformer blocks, and how often the model has it."""

    half: Half
    block: Block
    name: str
    in_features: int
    out_features: int
    count: int

    @property
    def has_bias(self) -> bool:
        """All but key projections have one."""
        return self.name != "k_proj"

    @property
    def weights(self) -> int:
        """Numbers in one weight matrix."""
        return self.in_features * self.out_features


def linear_layers(dimensions: ModelDimensions) -> tuple[Linear, ...]:
    """Every linear layer of the transformer blocks, grouped by kind."""
    d = dimensions
    blocks: tuple[tuple[Half, Block, int], ...] = (
        ("encoder", "self_attn", d.encoder_layers),
        ("decoder", "self_attn", d.decoder_layers),
        ("decoder", "encoder_attn", d.decoder_layers),
    )
    rows = [
        Linear(half, block, name, d.d_model, d.d_model, count)
        for half, block, count in blocks
        for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    ]
    feed_forward: tuple[tuple[Half, int, int], ...] = (
        ("encoder", d.encoder_ffn_dim, d.encoder_layers),
        ("decoder", d.decoder_ffn_dim, d.decoder_layers),
    )
    for half, ffn, count in feed_forward:
        rows.append(Linear(half, "mlp", "fc1", d.d_model, ffn, count))
        rows.append(Linear(half, "mlp", "fc2", ffn, d.d_model, count))
    return tuple(rows)


@dataclass(frozen=True)
class TensorGroup:
    """Parameters of one shape, and how many the model has of them."""

    half: Half
    name: str
    shape: tuple[int, ...]
    count: int = 1
    is_embedding: bool = False
    is_layer: bool = False
    """Whether it is in a transformer block."""
    is_linear: bool = False
    """Whether it is the matrix of a linear layer there."""

    @property
    def size(self) -> int:
        """Numbers in one of them."""
        return math.prod(self.shape)

    @property
    def total(self) -> int:
        """Numbers in all of them."""
        return self.size * self.count


def tensors(dimensions: ModelDimensions) -> tuple[TensorGroup, ...]:
    """Every parameter once; the shared output projection is the token embedding."""
    return (*_outside_layers(dimensions), *_in_layers(dimensions))


def count_parameters(dimensions: ModelDimensions) -> int:
    """Exact number of parameters, as `sum(p.numel() for p in model.parameters())` gives it."""
    return sum(group.total for group in tensors(dimensions))


def _outside_layers(dimensions: ModelDimensions) -> Iterator[TensorGroup]:
    d = dimensions.d_model
    yield TensorGroup("encoder", "conv1.weight", (d, dimensions.num_mel_bins, 3))
    yield TensorGroup("encoder", "conv2.weight", (d, d, 3))
    yield TensorGroup("encoder", "conv.bias", (d,), 2)
    yield TensorGroup("encoder", "embed_positions", (dimensions.max_source_positions, d), is_embedding=True)
    yield TensorGroup("encoder", "layer_norm", (d,), 2)
    yield TensorGroup("decoder", "embed_tokens", (dimensions.vocab_size, d), is_embedding=True)
    yield TensorGroup("decoder", "embed_positions", (dimensions.max_target_positions, d), is_embedding=True)
    yield TensorGroup("decoder", "layer_norm", (d,), 2)


def _in_layers(dimensions: ModelDimensions) -> Iterator[TensorGroup]:
    for linear in linear_layers(dimensions):
        shape = (linear.out_features, linear.in_features)
        name = f"{linear.block}.{linear.name}"
        yield TensorGroup(linear.half, f"{name}.weight", shape, linear.count, is_layer=True, is_linear=True)
        if linear.has_bias:
            yield TensorGroup(
                linear.half, f"{name}.bias", (linear.out_features,), linear.count, is_layer=True
            )
    norms: tuple[tuple[Half, int], ...] = (
        ("encoder", 2 * 2 * dimensions.encoder_layers),
        ("decoder", 2 * 3 * dimensions.decoder_layers),
    )
    for half, count in norms:
        yield TensorGroup(half, "layer_norm", (dimensions.d_model,), count, is_layer=True)
