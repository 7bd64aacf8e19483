"""What an operator makes of tensors without values depends on their shapes alone, and layers are alike.

Most of a trace's time would go into working out the same shapes again, for which PyTorch runs Python.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_aten = torch.ops.aten
_MADE_ANEW = frozenset(
    {
        *(_aten.add.Tensor, _aten.mul.Tensor, _aten.addmm.default),
        *(_aten.native_layer_norm.default, _aten.native_layer_norm_backward.default),
        *(_aten.native_dropout.default, _aten.native_dropout_backward.default),
        *(_aten.gelu.default, _aten.gelu_backward.default),
    }
)
"""Operators that change nothing, and whose results have storages of their own."""


@dataclass(frozen=True)
class _Like:
    """How to make a tensor like one that an operator made."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "_Like":
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def make(self) -> torch.Tensor:
        made: torch.Tensor = _aten.empty_strided.default(
            self.shape, self.stride, dtype=self.dtype, device="meta"
        )
        return made


class RememberedResults:
    """Runs operators; one that was run before on tensors like these gives results like those."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[type, list[_Like | None]]] = {}

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What `func` gives, of which nothing but values may be wanting."""
        key = _key([func, list(args), sorted(kwargs.items())]) if func in _MADE_ANEW else None
        if key is None:
            return func(*args, **kwargs)
        if key in self._known:
            kind, likes = self._known[key]
            made = [like and like.make() for like in likes]
            return made[0] if kind is torch.Tensor else kind(made)
        result = func(*args, **kwargs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        if all(tensor is None or tensor.device.type == "meta" for tensor in several):
            kind = torch.Tensor if several is not result else type(result)
            self._known[key] = kind, [None if tensor is None else _Like.of(tensor) for tensor in several]
        return result


def _key(value: Any) -> Hashable | None:
    """What the shapes of the results depend on; None if that is not known."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype) if value.device.type == "meta" else None
    if isinstance(value, (list, tuple)):
        keys = tuple(map(_key, value))
        return None if None in keys else keys
    return type(value), value
