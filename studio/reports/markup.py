"""HTML made from Python values: the one place where text becomes markup, and is escaped.

Gradio's own templates are not used for text: a value put into `{{value.x}}` passes through a JavaScript
template literal afterwards, where `${…}` in a visitor's file name or transcript would be run.
"""

import html
from collections.abc import Iterable


class Html(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


Child = str | Html | float | None | Iterable["Child"]
_VOID = {"br", "img", "input", "hr", "meta"}


def tag(name: str, *children: Child, **attributes: object) -> Html:
    """`tag("td", "a < b", class_="number")` → `<td class="number">a &lt; b</td>`.

    Strings are escaped unless they are `Html`; None and False leave a child or attribute out, True writes
    an attribute without a value; `_` in names of attributes stands for `-`, a trailing one is dropped.
    """
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Children one after another, each escaped unless it is `Html`."""
    return Html("".join(_render(child) for child in children))


def _render(child: Child) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, str):
        return _escaped(child)
    if isinstance(child, (int, float)):
        return str(child)
    return join(child)


def _escaped(text: str) -> str:
    """NUL, which HTML has no way to hold, is shown as the sign that stands for what cannot be shown."""
    return html.escape(text.replace("\0", "\ufffd"))


def table(
    headers: Iterable[str],
    rows: Iterable[Iterable[Child]],
    *,
    numeric: Iterable[int] = (),
    caption: str = "",
    class_: str = "",
) -> Html:
    """A table with a header row; the columns in `numeric` are set flush right."""
    right = set(numeric)

    def style(column: int) -> str | None:
        return "number" if column in right else None

    titles = list(headers)
    head = tag("tr", [tag("th", text, scope="col", class_=style(n)) for n, text in enumerate(titles)])
    body = [
        tag("tr", [tag("td", cell, class_=style(n), data_label=titles[n]) for n, cell in enumerate(row)])
        for row in rows
    ]
    title = tag("caption", caption) if caption else None
    whole = tag(
        "table", title, tag("thead", head), tag("tbody", body), class_=f"studio-table {class_}".strip()
    )
    name = caption or ", ".join(filter(None, titles))
    return tag("div", whole, class_="table-scroll", tabindex="0", role="region", aria_label=name)
