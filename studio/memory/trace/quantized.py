"""Linear layers of bitsandbytes 0.50 on meta tensors: what their CUDA kernels allocate, without the kernels.

The classes derive from bitsandbytes' own, so that PEFT puts its own wrappers around them; the packed weights
are plain tensors, because bitsandbytes' parameter classes cannot be made without data.
"""

import math
from typing import Any

import torch
from bitsandbytes.autograd._functions import MatmulLtState
from bitsandbytes.nn.modules import Linear4bit, Linear8bitLt
from torch import nn

_THRESHOLD = 6.0
"""Outliers of LLM.int8, as `BitsAndBytesConfig` has it."""
_BLOCK = 64
_NESTED_BLOCK = 256


class _MatMul8bit(torch.autograd.Function):
    """`MatMul8bitLt` on CUDA with a frozen weight; its input hangs on the context, unseen by checkpoints."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """(…, in) through a packed (out, in) weight and its (out,) scales: (…, out)."""
        flat = inputs.reshape(-1, inputs.shape[-1])
        quantized, rows = _vectorwise_quant(flat.to(torch.float16))
        sums = flat.new_empty((flat.shape[0], packed.shape[0]), dtype=torch.int32)
        half = torch.empty_like(sums, dtype=torch.float16)
        del quantized, rows
        output = half.to(inputs.dtype)
        ctx.kept = flat
        ctx.packed, ctx.scales, ctx.shape, ctx.dtype = packed, scales, inputs.shape, inputs.dtype
        return output.reshape(*inputs.shape[:-1], packed.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """The gradient of the input alone: the weight is frozen."""
        flat = grads[0].reshape(-1, grads[0].shape[-1]).contiguous()
        weight = ctx.packed.to(ctx.dtype, copy=True).mul_(ctx.scales.unsqueeze(1).mul(1.0 / 127.0))
        return torch.matmul(flat.to(ctx.dtype), weight).view(ctx.shape), None, None


def _vectorwise_quant(half: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in int8 with a float32 scale each; outliers are looked for in a copy."""
    rows = half.new_empty(half.shape[0], dtype=torch.float32)
    quantized = torch.empty_like(half, dtype=torch.int8)
    outliers = half.abs() >= _THRESHOLD
    del outliers
    return quantized, rows


class _MatMul4bit(torch.autograd.Function):
    """`MatMul4Bit`: the weight is unpacked for each use, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, layer: "Traced4bit", bias: torch.Tensor | None
    ) -> torch.Tensor:
        """(…, in) through the layer's weight, unpacked for this one use: (…, out)."""
        ctx.layer = layer
        return torch.nn.functional.linear(inputs, layer.unpacked(inputs.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """The gradient of the input alone: the weight is frozen."""
        return torch.matmul(grads[0], ctx.layer.unpacked(grads[0].dtype)), None, None


class Traced8bit(Linear8bitLt):
    """`Linear8bitLt` of a frozen layer: a byte a weight and a float32 a row."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self.weight = _packed(torch.empty(self.out_features, self.in_features, dtype=torch.int8))
        self.scales = _packed(torch.empty(self.out_features))
        self.state = MatmulLtState()
        self.state.has_fp16_weights, self.state.threshold = False, _THRESHOLD
        self.index = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As on CUDA; the bias is added in place within the kernel."""
        result: torch.Tensor = _MatMul8bit.apply(x, self.weight, self.scales)  # type: ignore[no-untyped-call]
        return result

    def unpacked(self, _dtype: torch.dtype) -> torch.Tensor:
        """`int8_vectorwise_dequant`: float32, in two products."""
        return self.weight * self.scales.view(-1, 1) * 7.874015718698502e-3


class Traced4bit(Linear4bit):
    """`Linear4bit` of a frozen layer: NF4 in blocks of 64, whose scales are themselves in 8 bits."""

    def __init__(self, linear: nn.Linear, compute_dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        numbers = self.in_features * self.out_features
        blocks = math.ceil(numbers / _BLOCK)
        self.weight = _packed(torch.empty(math.ceil(numbers / 2), 1, dtype=torch.uint8))
        self.absmax = _packed(torch.empty(blocks, dtype=torch.uint8))
        self.nested_absmax = _packed(torch.empty(math.ceil(blocks / _NESTED_BLOCK)))
        self.codes = _packed(torch.empty(16 + 256 + 1))
        self.compute_dtype = compute_dtype
        # What PEFT reads of a 4-bit weight.
        weight: Any = self.weight
        weight.compress_statistics, weight.quant_type = True, "nf4"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """In the type of the arithmetic, and back in that of the input."""
        bias = self.bias if self.bias is None else self.bias.to(self.compute_dtype)
        output: torch.Tensor = _MatMul4bit.apply(x.to(self.compute_dtype), self, bias)  # type: ignore[no-untyped-call]
        return output.to(x.dtype)

    def unpacked(self, dtype: torch.dtype) -> torch.Tensor:
        """The scales in float32, twice for a moment, then the weight."""
        scales = torch.empty_like(self.absmax, dtype=torch.float32) + self.codes[0]
        weight = self.weight.new_empty((self.out_features, self.in_features), dtype=dtype)
        del scales
        return weight


def _packed(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def quantize(model: nn.Module, bits: str, compute_dtype: torch.dtype) -> None:
    """Replaces the layers' linear layers, as transformers does: all but the output projection."""
    owners = dict(model.named_modules())
    for name, module in owners.items():
        if type(module) is not nn.Linear or name.endswith("proj_out"):
            continue
        owner, _, attribute = name.rpartition(".")
        packed = Traced8bit(module) if bits == "8bit" else Traced4bit(module, compute_dtype)
        setattr(owners[owner], attribute, packed)
    flagged: Any = model
    flagged.is_loaded_in_8bit, flagged.is_loaded_in_4bit = bits == "8bit", bits == "4bit"


def dequantized_weight(module: Any) -> Any:
    """What DoRA takes the norm of: in place of PEFT's `dequantize_module_weight`."""
    if isinstance(module, (Traced8bit, Traced4bit)):
        compute = getattr(module, "compute_dtype", torch.float32)
        return module.unpacked(compute)
    return module.weight
