"""What CUDA does otherwise than a CPU, replayed on meta tensors: autocast, attention, dropout.

A build of PyTorch without CUDA cannot run a backward pass on fake CUDA tensors, so the step runs on meta
tensors, which have sizes, types and storages but no values, and calls what CUDA would have called. The lists
are those of `aten/src/ATen/autocast_mode.h` (PyTorch 2.13), as far as a Whisper meets them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from studio.lazy_imports import patched

_aten = torch.ops.aten
_Tensor = torch.Tensor

_LOWER_PRECISION = {
    *(F.linear, F.conv1d, torch.conv1d, torch.matmul, _Tensor.matmul, _Tensor.__matmul__),
    *(_Tensor.__rmatmul__, torch.mm, _Tensor.mm, torch.bmm, torch.addmm, torch.baddbmm),
}
_FLOAT32 = {F.layer_norm, torch.layer_norm, F.nll_loss, torch.pow, _Tensor.pow, _Tensor.__pow__}
_FLOAT32_RESULT = {
    *(F.softmax, torch.sum, _Tensor.sum, torch.norm, _Tensor.norm),
    *(torch.linalg.norm, torch.linalg.vector_norm),
}
_HALF = (torch.float16, torch.bfloat16)


class _Autocast(TorchFunctionMode):
    """One region of `torch.autocast("cuda", dtype)`, with its cache of casted weights."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._cache: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator as below autocast: the mode is off within itself."""
        kwargs = kwargs or {}
        if func is F.cross_entropy:
            return _cross_entropy(*args, **kwargs)
        if func in _FLOAT32_RESULT:
            return _with_float32_result(func, *args, **kwargs)
        dtype = self._dtype if func in _LOWER_PRECISION else torch.float32 if func in _FLOAT32 else None
        if dtype is not None:
            args = [self._cast(value, dtype) for value in args]
            kwargs = {name: self._cast(value, dtype) for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype == dtype:
            return value
        is_cached = (
            dtype == self._dtype
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and value._base is None
        )
        if not is_cached:
            return value.to(dtype)
        if id(value) not in self._cache:
            self._cache[id(value)] = value.to(dtype)
        return self._cache[id(value)]


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    """`cross_entropy_loss` names the type of its log-softmax, which so stays half; `nll_loss` is float32."""
    log_probabilities = torch.log_softmax(logits, 1, dtype=logits.dtype)
    return F.nll_loss(log_probabilities.to(torch.float32), target)


def _with_float32_result(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator reads half precision and writes float32 (`fp32_set_opt_dtype`)."""
    if args[0].dtype not in _HALF:
        return func(*args, **kwargs)
    if func is F.softmax and args[0].dtype == torch.float16:
        return _SoftmaxOfHalf.apply(args[0])  # type: ignore[no-untyped-call]
    return func(*args, **{**kwargs, "dtype": torch.float32})


class _SoftmaxOfHalf(torch.autograd.Function):
    """CUDA's softmax reads float16 and writes float32 in one kernel; other types are casted before."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(values, dtype=torch.float32)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (result,) = ctx.saved_tensors
        return torch.empty_like(result, dtype=torch.float16)


class AutocastRegion:
    """`torch.autocast("cuda", dtype)` for a step: entered again where a checkpoint computes a layer again."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        """Without a type, autocast is off."""
        self._dtype = dtype
        self._is_entered = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The region, or nothing within itself."""
        if self._dtype is None or self._is_entered:
            yield
            return
        self._is_entered = True
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", self._dtype)
        try:
            with _Autocast(self._dtype):
                yield
        finally:
            torch.set_autocast_enabled("cuda", False)
            self._is_entered = False


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """CUDA's choice: flash attention for half precision without a mask (Ampere and later), else efficient.

    Autocast lowers the precision of all three inputs.
    """
    result: torch.Tensor
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if query.dtype in _HALF and attn_mask is None:
        result = _aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale
        )[0]
        return result
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        bias = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = bias.masked_fill_(attn_mask.logical_not(), float("-inf"))
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    needs_statistics = torch.is_grad_enabled() and query.requires_grad
    result = _aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, needs_statistics, dropout_p, is_causal, scale=scale
    )[0]
    return result


def _dropout(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """CUDA's fused dropout keeps a mask of one byte a number."""
    if not training or p == 0:
        return input
    result: torch.Tensor = torch.native_dropout(input, p, True)[0]
    return result


def rounded(size_bytes: int) -> int:
    """Bytes that the CUDA allocator takes for a request: multiples of 512."""
    return -(-size_bytes // 512) * 512


def _flash_backward_workspace(_grad: Any, query: torch.Tensor, *_args: Any, **_kwargs: Any) -> int:
    """Gradient of the query summed in float32, padded to blocks of 128, and a float32 a row."""
    batch, heads, length, width = query.shape
    rows = batch * heads * (-(-length // 128) * 128)
    return rounded(4 * rows * (-(-width // 32) * 32)) + rounded(4 * rows)


def _efficient_backward_workspace(_grad: Any, query: torch.Tensor, *_args: Any, **_kwargs: Any) -> int:
    """A float32 a row, and at most a float32 copy of the query's gradient."""
    rows = query.numel() // query.shape[-1]
    return rounded(4 * rows) + rounded(4 * query.numel())


WORKSPACES: Mapping[Any, Callable[..., int]] = {
    _aten._scaled_dot_product_flash_attention_backward.default: _flash_backward_workspace,
    _aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward_workspace,
}
"""Bytes that operators allocate within themselves, in `flash_api.cpp` and `attention_backward.cu`."""


def cuda_kernels() -> AbstractContextManager[None]:
    """Within it, attention and dropout are those of CUDA."""
    return patched(F, scaled_dot_product_attention=_attention, dropout=_dropout)
