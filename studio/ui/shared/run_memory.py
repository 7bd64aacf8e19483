"""Predicted against measured memory of a run: pure functions from its record to HTML."""

from collections.abc import Mapping
from typing import Any

from studio.reports.markup import Html, tag
from studio.translation import N_, paragraph, tr
from studio.units import format_bytes

_ON_CARD = (
    ("allocated_bytes", N_("Tensors")),
    ("reserved_bytes", N_("Reserved by the allocator")),
    ("device_bytes", N_("On the card, with the CUDA context")),
)


def memory_comparison(memory: Mapping[str, Any] | None, locale: str) -> Html:
    """Bars of what was predicted and of what was measured so far; nothing before there is a figure."""
    if not memory or not memory.get("measured"):
        return Html("")
    predicted, measured = memory.get("predicted") or {}, memory["measured"]
    is_cpu = measured.get("device") == "cpu"
    rows = _of_process(predicted, measured, locale) if is_cpu else _of_card(predicted, measured, locale)
    top = max((size for _name, _kind, size in rows), default=0)
    if not top:
        return Html("")
    title = tr("Memory: predicted and measured", locale)
    if not is_cpu:
        title = f"{title} · {measured['device']}"
    return tag(
        "div",
        tag("h2", title),
        tag("div", [_bar(name, kind, size, top) for name, kind, size in rows], class_="compared"),
        None
        if measured.get("tensor_bytes")
        else tag("p", _said(predicted, measured, is_cpu, locale), class_="subdued"),
    )


def _of_card(
    predicted: Mapping[str, Any], measured: Mapping[str, Any], locale: str
) -> list[tuple[str, str, int]]:
    rows = []
    for key, name in _ON_CARD:
        if predicted.get(key) and measured.get(key):
            rows.append((tr("{what}: predicted", locale, what=tr(name, locale)), "predicted", predicted[key]))
        if measured.get(key):
            rows.append((tr("{what}: measured", locale, what=tr(name, locale)), "measured", measured[key]))
    return rows


def _of_process(
    predicted: Mapping[str, Any], measured: Mapping[str, Any], locale: str
) -> list[tuple[str, str, int]]:
    rows = []
    if predicted.get("tensor_bytes"):
        rows.append((tr("Tensors of a step: predicted", locale), "predicted", predicted["tensor_bytes"]))
    if measured.get("tensor_bytes"):  # of a measurement that counted them
        return [
            *rows,
            (tr("Tensors of a step: measured", locale), "measured", measured["tensor_bytes"]),
        ]
    if measured.get("process_bytes"):
        rows.append((tr("Process memory growth: measured", locale), "other", measured["process_bytes"]))
    return rows


def _bar(name: str, kind: str, size: int, top: int) -> Html:
    fill = tag("span", class_=f"compared-fill compared-{kind}", style=f"width:{100 * size / top:.1f}%")
    return tag(
        "div",
        tag("span", name, class_="compared-name"),
        tag("span", fill, class_="compared-bar"),
        tag("span", format_bytes(size), class_="compared-size"),
        class_="compared-row",
    )


def _said(predicted: Mapping[str, Any], measured: Mapping[str, Any], is_cpu: bool, locale: str) -> str:
    if is_cpu:
        return tr(
            "Without a GPU only the whole process can be measured: tensors, clips and libraries together. "
            "The two figures cannot be compared.",
            locale,
        )
    if not predicted.get("high_bytes"):
        return tr("There is no prediction for this run.", locale)
    low, high = format_bytes(predicted["low_bytes"]), format_bytes(predicted["high_bytes"])
    said = [tr("Predicted: between {low} and {high} on the card.", locale, low=low, high=high)]
    if label := predicted.get("label_length"):
        said.append(tr("The longest text has {count} tokens.", locale, count=label))
    taken = measured.get("device_bytes")
    if taken and taken > predicted["high_bytes"]:
        said.append(tr("More was taken than the range allows.", locale))
    return paragraph(said, locale)
