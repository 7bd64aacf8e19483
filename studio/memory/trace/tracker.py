"""Follows every storage that the step makes, from its allocation to its last reference."""

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from studio.memory.plan import Part, Phase
from studio.memory.trace.ledger import Ledger

_aten = torch.ops.aten
_MADE_ANEW = frozenset(
    {
        *(_aten.add.Tensor, _aten.sub.Tensor, _aten.mul.Tensor, _aten.div.Tensor, _aten.addmm.default),
        *(_aten.eye.default, _aten.sum.dim_IntList, _aten.linalg_vector_norm.default),
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
        """What a tensor looks like."""
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def make(self) -> torch.Tensor:
        """A tensor that looks so."""
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


_WEIGHTS = (Part.WEIGHTS_TRAINABLE, Part.WEIGHTS_FROZEN, Part.WEIGHTS_QUANTIZED)

Workspace = Callable[..., int]


@dataclass(frozen=True)
class _Sum:
    """A sum of gradients of which it is not known yet whether it would have been made in place."""

    mark: int
    """Number of the first event that belongs to it."""
    operand: int
    """Key of the first operand's storage, and its block."""
    operand_block: int
    made: int
    """Key of the result's storage."""


class StorageTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Books the storages of all results into a ledger.

    `round_bytes` gives the bytes that the allocator takes for a request; `workspaces` what an operator
    allocates within itself beside its results, from its arguments; `vocab_size` tells logits from other
    activations.
    """

    def __init__(
        self,
        ledger: Ledger,
        round_bytes: Callable[[int], int],
        workspaces: Mapping[Any, Workspace],
        vocab_size: int,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ledger = ledger
        self.part = Part.ACTIVATIONS
        """What new storages are for, unless it shows in the operator."""
        self.operations = 0
        self._round_bytes = round_bytes
        self._workspaces = workspaces
        self._vocab_size = vocab_size
        self._blocks: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._pending: _Sum | None = None
        self._results = RememberedResults()

    def book(self, tensor: torch.Tensor, part: Part) -> None:
        """Counts the tensor's storage as `part`, whether it is known or not."""
        known = self._blocks.get(tensor.untyped_storage()._cdata)
        if known is None:
            self._add(tensor.untyped_storage(), part)
        else:
            self.ledger.move(known[0], part)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and books what is new in its result."""
        self.settle()
        self.operations += 1
        mark = len(self.ledger.events)
        result = self._results.run(func, args, kwargs or {})
        made = [
            key
            for tensor in (result if isinstance(result, (tuple, list)) else (result,))
            if isinstance(tensor, torch.Tensor) and (key := self._book_result(func, tensor, args))
        ]
        if made and self._may_be_in_place(func, args):
            operand = args[0].untyped_storage()._cdata
            self._pending = _Sum(mark, operand, self._blocks[operand][0], made[0])
        elif func in self._workspaces:
            self.ledger.observe(self._workspaces[func](*args, **(kwargs or {})))
        elif made:
            self.ledger.observe()
        return result

    def settle(self) -> None:
        """Decides whether the sum before would have been made in place; also to be called at the end."""
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        known = self._blocks.get(pending.operand)
        made = self._blocks.get(pending.made)
        if made is not None and (known is None or known[0] != pending.operand_block):
            self.ledger.forget_out_of_place(pending.mark, pending.operand_block, made[0])
            self._blocks[pending.made] = (pending.operand_block, made[1])
        self.ledger.observe()

    def _may_be_in_place(self, func: Any, args: Any) -> bool:
        """Under a dispatch mode the autograd engine adds gradients out of place, where it else adds in place.

        It adds into a buffer that nobody else holds, so whether it would have shows once the operand is
        gone; a view (the transposed gradient of a linear layer) it really adds out of place.
        """
        return (
            self.ledger.phase is Phase.BACKWARD
            and func is _aten.add.Tensor
            and not args[0]._is_view()
            and args[0].untyped_storage()._cdata in self._blocks
        )

    def _book_result(self, func: Any, tensor: torch.Tensor, args: Any) -> int | None:
        storage = tensor.untyped_storage()
        if storage._cdata in self._blocks:
            return None
        part = self.part
        if func is _aten._to_copy.default and args and self._is_weight(args[0]):
            part = Part.WEIGHT_CASTS
        elif tensor.dim() >= 2 and tensor.shape[-1] == self._vocab_size:
            part = Part.LOGITS_AND_LOSS
        return self._add(storage, part)

    def _is_weight(self, tensor: Any) -> bool:
        block = self._blocks.get(tensor.untyped_storage()._cdata)
        return block is not None and self.ledger.part_of(block[0]) in _WEIGHTS

    def _add(self, storage: Any, part: Part) -> int | None:
        size = self._round_bytes(storage.nbytes())
        if size == 0:
            return None
        key: int = storage._cdata

        def forget(_reference: Any) -> None:
            """The memory of a tensor that is gone is free again."""
            self.ledger.release(self._blocks.pop(key)[0])

        self._blocks[key] = (self.ledger.allocate(size, part), weakref.ref(storage, forget))
        return key
