"""What many views are made of: remarks, buttons, small figures, bars, colours."""

from collections.abc import Iterable

from studio.reports.markup import Child, Html, tag

BLUE, AMBER, TEAL, ROSE, VIOLET, GREY = "#3b82c4", "#d9912b", "#1d9f8e", "#cf4f74", "#7f6bc9", "#8c9aa5"
"""Of charts, in this order."""


def note(text: str, kind: str = "info", field: str | None = None) -> Html:
    """A framed remark; `kind` is info, good, warning or bad. `field` is the id of the one it is about, which
    is marked as long as the remark stands."""
    return tag("div", text, class_=f"note note-{kind}", role="status", data_field=field)


def button(text: Child, class_: str | None = None, **more: object) -> Html:
    """A button of a view, whose attributes tell the page's scripts what it does."""
    return tag("button", text, type="button", class_=class_, **more)


def folded(title: str, *content: Child, **more: object) -> Html:
    """What is seen once its title is clicked."""
    return tag("details", tag("summary", title), content, **more)


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """A row of small figures, each with its name."""
    cells = [
        tag(
            "div",
            tag("span", name, class_="fact-name"),
            tag(
                "span",
                value.replace(" %", "\u00a0%") if isinstance(value, str) else value,
                class_="fact-value",
            ),
            class_="fact",
        )
        for name, value in pairs
    ]
    return tag("div", cells, class_="facts")


def badge(text: str, kind: str = "plain") -> Html:
    """A short word in a pill; `kind` is plain, good, warning, bad or busy."""
    return tag("span", text, class_=f"badge badge-{kind}")


def definition_list(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Names and values; those without a value are left out."""
    items = [[tag("dt", name), tag("dd", value)] for name, value in pairs if value not in (None, "")]
    return tag("dl", items, class_="details")


def progress_bar(share: float | None, doing: str, amount: str = "") -> Html:
    """A bar filled to `share` (0 to 1) under a line of words; None: nobody knows how far it is."""
    percent = None if share is None else round(100 * min(1.0, max(0.0, share)), 1)
    return tag(
        "div",
        tag("div", tag("span", doing), tag("span", amount), class_="bar-text"),
        tag(
            "div",
            tag(
                "div",
                class_="bar-fill bar-moving" if percent is None else "bar-fill",
                style=None if percent is None else f"width:{percent}%",
            ),
            class_="bar",
            role="progressbar",
            aria_valuenow=percent,
            aria_valuemin=0,
            aria_valuemax=100,
            aria_label=doing,
        ),
        class_="progress",
    )
