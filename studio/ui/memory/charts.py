"""Memory as drawings: the parts of an estimate beside the sizes of cards, and the peak over the batch size.

They are HTML and SVG, so that the first view of the page does not wait for plotly, which is two thirds of
what a browser would have to load for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import floor, log2, log10

from studio.reports.markup import Html, tag
from studio.reports.pieces import GREY, TEAL
from studio.translation import tr
from studio.ui.shared.charts import PART_COLOURS
from studio.units import GIB

Point = tuple[int, int, int, int]
"""Batch size, and low, middle and high end of the range in bytes."""
_LEAST_SEEN = 0.003
"""Of a bar's reach; what is narrower has no colour that anybody would look up."""


def parts_chart(
    parts: Mapping[str, int],
    part_names: Mapping[str, str],
    gpu_sizes: Iterable[int],
    chosen_bytes: int,
    locale: str,
) -> Html:
    """One bar of the parts of an estimate (bytes) against the sizes of common GPUs.

    Its legend names the parts that can be seen; the table of parts has the same colours.
    `chosen_bytes` is the size of the GPU that was asked about; its line is drawn bold.
    """
    total_gib = sum(parts.values()) / GIB
    reach = max(total_gib * 1.15, chosen_bytes / GIB * 1.05)
    seen = {part: size / GIB for part, size in parts.items() if size > 0}
    segments, legend, amounts, end = [], [], [], 0.0
    for part, size in seen.items():
        name, colour = part_names.get(part, part), f"background:{PART_COLOURS[part]}"
        place = f"width:{size / reach:.3%};{colour}"
        end += size
        amounts.append(f"{name}: {size:.2f} GiB")
        segments.append(tag("span", class_=_pointed(end / reach), style=place, data_said=amounts[-1]))
        if size > reach * _LEAST_SEEN:
            legend.append(tag("li", tag("i", style=colour), name))
    chosen_gib = round(chosen_bytes / GIB)
    lines = [
        _mark(size / reach, f"{size} GiB", "plot-chosen") if size == chosen_gib else _mark(size / reach, size)
        for size in _thinned(sorted({round(size / GIB) for size in gpu_sizes} | {chosen_gib}), reach)
    ]
    ticks = [_upright(tick / reach, f"{tick:g}") for tick in _ticks(reach)]
    area = tag("div", ticks, tag("div", segments, class_="plot-bar"), lines, class_="plot-area")
    below = tag("div", tr("GiB of GPU memory; on top: sizes of GPUs", locale))
    return tag("figure", area, below, tag("ul", legend), **_drawing("plot", "; ".join(amounts)))


def _thinned(sizes: Sequence[int], reach: float) -> list[int]:
    """Sizes within reach whose labels do not touch; the largest stays."""
    kept: list[int] = []
    for size in reversed([size for size in sizes if size <= reach]):
        if not kept or kept[-1] - size > reach * 0.09:
            kept.append(size)
    return kept


def batch_chart(
    points: Sequence[Point], usable_bytes: int, gpu: str, chosen: int, largest: int, locale: str
) -> Html:
    """Peak against batch size: the middle as a line, the range as a band, the card as a line across.

    `largest` is the largest batch whose whole range is below the card's line, 0 if none is; it and the
    `chosen` one are dots.
    """
    usable = usable_bytes / GIB
    top = max(usable * 1.15, points[0][2] / GIB * 1.5)
    across = {size: log2(size) / log2(points[-1][0]) for size, *_range in points}
    heights = {size: [each / GIB / top for each in its] for size, *its in points}
    low, middle, high = ([(across[size], its[k]) for size, its in heights.items()] for k in range(3))
    dots = [
        tag("span", class_="plot-dot", style=f"{_at(across[size], heights[size][1])};background:{colour}")
        for size, colour in ((chosen, GREY), (largest, TEAL))
        if size in across and heights[size][1] <= 1
    ]
    said = tr("Largest batch that fits: {size}", locale, size=largest)
    title = said if largest else tr("No batch fits", locale)
    area = tag(
        "div",
        [_upright(place, size) for size, place in across.items() if size & (size - 1) == 0],
        [tag("span", tag("i", f"{t:g}"), class_="plot-y", style=_at(0, t / top)) for t in _ticks(top)],
        tag(
            "svg",
            tag("polygon", points=_drawn([*high, *reversed(low)])),
            tag("polyline", points=_drawn(middle), vector_effect="non-scaling-stroke"),
            viewBox="0 0 100 100",
            preserveAspectRatio="none",
            aria_hidden="true",
        ),
        tag("span", tag("i", gpu), class_="plot-y plot-chosen", style=_at(0, usable / top)),
        dots,
        _columns(points, across, tr("Batch size", locale)),
        class_="plot-area",
    )
    upright = tag("span", tr("GiB of GPU memory", locale), class_="plot-upright")
    below = tag("div", tr("Batch size", locale))
    return tag("figure", tag("b", title), upright, area, below, **_drawing("plot plot-high", title))


def _drawing(class_: str, said: str) -> dict[str, str]:
    """Attributes of a drawing; a screen reader says `said` instead of the numbers at its edges."""
    return {"class_": class_, "role": "img", "aria_label": said}


def _columns(points: Sequence[Point], across: Mapping[int, float], name: str) -> list[Html]:
    """The tooltip of each batch size, over the part of the width that is nearest to it."""
    places = list(across.values())
    borders = [0.0, *((left + right) / 2 for left, right in pairwise(places)), 1.0]
    return [
        tag(
            "span",
            class_=_pointed(right),
            style=f"left:{left:.2%};width:{right - left:.2%}",
            data_said=f"{name} {size}: {middle / GIB:.2f} GiB",
        )
        for (size, _low, middle, _high), (left, right) in zip(points, pairwise(borders), strict=True)
    ]


def _pointed(end: float) -> str:
    """The class of what has a tooltip, which opens to the side where there is room."""
    return "plot-said plot-said-left" if end > 0.6 else "plot-said"


def _mark(place: float, label: object, class_: str = "") -> Html:
    """A line across the area, with its name above it."""
    return tag("span", tag("i", str(label)), class_=f"plot-mark {class_}".strip(), style=_at(place, 0))


def _upright(place: float, label: object) -> Html:
    """A line of the grid, with its number below it."""
    return tag("span", tag("i", str(label)), class_="plot-x", style=_at(place, 0))


def _at(across: float, up: float) -> str:
    return f"left:{across:.2%};bottom:{up:.2%}"


def _drawn(points: Iterable[tuple[float, float]]) -> str:
    """Shares of the area as an SVG of 100 by 100 wants them, y from the top."""
    return " ".join(f"{100 * across:.2f},{100 * (1 - up):.2f}" for across, up in points)


def _ticks(reach: float) -> list[float]:
    """At most six round numbers from 0 to `reach`."""
    rough = reach / 6
    ten = 10.0 ** floor(log10(rough))
    step = next(ten * times for times in (1, 2, 5, 10) if ten * times >= rough)
    return [round(step * count, 6) for count in range(int(reach / step) + 1)]
