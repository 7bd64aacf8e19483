"""What tuning broke and what it kept, as it was measured."""

from collections.abc import Mapping
from typing import Any

from studio.evaluation.capabilities import verdict_of
from studio.training.after_check import CHECK_NAMES, name_of_check
from studio.ui.i18n import N_, tr
from studio.ui.markup import Child, Html, table
from studio.ui.views import badge
from studio.units import format_percent

_VERDICTS = {
    "better": (N_("better"), "good"),
    "kept": (N_("kept"), "good"),
    "worse": (N_("worse"), "bad"),
    "unclear": (N_("too few clips to tell"), "plain"),
}


def capabilities_table(found: Mapping[str, Any] | None, locale: str) -> Html | None:
    """What tuning may have broken, before and after."""
    checks = (found or {}).get("checks")
    if not checks:
        return None
    rows: list[list[Child]] = []
    for check in checks:
        word, kind = _VERDICTS[verdict_of(check)]
        rows.append(
            [
                tr(name_of_check(check["check"], found or {}).template, locale),
                format_percent(check["base"]),
                format_percent(check["tuned"]),
                badge(tr(word, locale), kind),
            ]
        )
    for unchecked in (found or {}).get("unchecked", ()):
        title = tr(CHECK_NAMES[unchecked].template, locale)
        rows.append([title, "", "", badge(tr(N_("not checked"), locale), "plain")])
    headers = [tr(text, locale) for text in (N_("What it can do"), N_("Base"), N_("Tuned"), N_("State"))]
    return table(headers, rows, numeric=[1, 2], class_="capabilities")
