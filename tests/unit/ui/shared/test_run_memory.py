"""Predicted against measured memory on the page."""

from studio.ui.shared.run_memory import memory_comparison
from studio.units import GIB
from tests.unit.ui.shared.test_views import text_of

PREDICTED = {
    "label_length": 96,
    "tensor_bytes": 3 * GIB,
    "allocated_bytes": 3 * GIB,
    "reserved_bytes": 4 * GIB,
    "low_bytes": 4 * GIB,
    "device_bytes": 5 * GIB,
    "high_bytes": 6 * GIB,
}


def on_card(device_bytes: int | None) -> str:
    measured = {"allocated_bytes": 2 * GIB, "reserved_bytes": 3 * GIB, "device_bytes": device_bytes}
    figures = {"predicted": PREDICTED, "measured": {"device": "RTX <3060>", **measured}}
    return memory_comparison(figures, "en")


def test_a_card_shows_each_figure_twice_and_the_range() -> None:
    shown = text_of(on_card(4 * GIB))
    assert "Tensors: predicted 3.00 GiB Tensors: measured 2.00 GiB" in shown
    assert "CUDA context: measured 4.00 GiB" in shown and "between 4.00 GiB and 6.00 GiB" in shown
    assert "longest text has 96 tokens" in shown and "More was taken" not in shown
    assert "<3060>" not in on_card(4 * GIB)


def test_what_the_driver_hides_is_left_out() -> None:
    assert "CUDA context" not in text_of(on_card(None))


def test_more_than_the_range_is_said() -> None:
    assert "More was taken than the range allows." in text_of(on_card(7 * GIB))


def test_a_processor_compares_nothing() -> None:
    measured = {"device": "cpu", "process_bytes": 4 * GIB}
    shown = text_of(memory_comparison({"predicted": PREDICTED, "measured": measured}, "en"))
    assert "Process memory growth: measured 4.00 GiB" in shown and "figures cannot be compared" in shown


def test_before_the_first_figure_there_is_nothing() -> None:
    assert memory_comparison(None, "en") == memory_comparison({"predicted": PREDICTED}, "en") == ""
