"""Results that are remembered are those that the operator itself would give."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from studio.memory.trace.tracker import _MADE_ANEW, RememberedResults

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


X = meta(4, 6, 8)
NORM = (meta(4, 6, 1), meta(4, 6, 1))
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (X, X)),
    (aten.add.Tensor, (X.transpose(1, 2), X.transpose(1, 2))),
    (aten.add.Tensor, (X, meta(8, dtype=torch.bfloat16))),
    (aten.mul.Tensor, (X, 0.5)),
    (aten.mul.Tensor, (meta(4, 1), meta(1, 5))),
    (aten.addmm.default, (meta(5), meta(3, 8), meta(5, 8).t())),
    (aten.native_layer_norm.default, (X, [8], meta(8), meta(8), 1e-5)),
    (aten.native_layer_norm_backward.default, (X, X, [8], *NORM, meta(8), meta(8), [True, True, True])),
    (aten.native_layer_norm_backward.default, (X, X, [8], *NORM, meta(8), meta(8), [True, False, False])),
    (aten.native_dropout.default, (X, 0.1, True)),
    (aten.native_dropout_backward.default, (X, meta(4, 6, 8, dtype=torch.bool), 1.1)),
    (aten.gelu.default, (X,)),
    (aten.gelu_backward.default, (X, X)),
]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers which operators were run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def looks(result: Any) -> list[Any]:
    several = result if isinstance(result, (tuple, list)) else [result]
    return [type(result)] + [t if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in several]


@pytest.mark.parametrize(("operator", "given"), CALLS, ids=lambda value: getattr(value, "_name", None))
def test_a_remembered_result_is_like_the_operators_and_a_tensor_of_its_own(
    operator: Any, given: tuple[Any, ...]
) -> None:
    results = RememberedResults()
    with Watch() as watch:
        first, second = (results.run(operator, given, {}) for _ in range(2))
    assert looks(first) == looks(second) == looks(operator(*given))
    assert watch.seen.count(operator) == 1, "it was remembered"
    one = first[0] if isinstance(first, tuple) else first
    other = second[0] if isinstance(second, tuple) else second
    assert one.untyped_storage()._cdata != other.untyped_storage()._cdata
    assert operator in _MADE_ANEW


def test_what_differs_is_told_apart() -> None:
    results = RememberedResults()
    for given in (
        *((X, X), (X, meta(8)), (X, 1), (X, 1.0)),
        (X.to(torch.bfloat16), X.to(torch.bfloat16)),
        (X.transpose(0, 1), X.transpose(0, 1)),
        (meta(4, 6, 8, dtype=torch.long), 1),
        (meta(4, 6, 8, dtype=torch.long), 1.0),
    ):
        assert looks(results.run(aten.add.Tensor, given, {})) == looks(aten.add.Tensor(*given))
    backward = aten.native_layer_norm_backward.default
    for mask in ([True, True, True], [True, False, False]):
        given = (X, X, [8], *NORM, meta(8), meta(8), mask)
        assert looks(results.run(backward, given, {})) == looks(backward(*given))


def test_operators_with_values_views_and_changes_in_place_are_always_run() -> None:
    results = RememberedResults()
    one = torch.ones(3)
    assert results.run(aten.add.Tensor, (one, one), {}).tolist() == [2, 2, 2]
    assert results.run(aten.add.Tensor, (one, 2 * one), {}).tolist() == [3, 3, 3]
    for _ in range(2):
        assert results.run(aten.t.default, (X[0],), {})._is_view()
        assert results.run(aten.add_.Tensor, (one, one), {}) is one
    assert one.tolist() == [4, 4, 4]
