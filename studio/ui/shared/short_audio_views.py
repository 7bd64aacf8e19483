"""What short windows gain and cost a model, as it was measured."""

from collections.abc import Mapping
from typing import Any

from studio.reports.markup import Child, Html, table, tag
from studio.translation import N_, tr
from studio.units import format_percent

_CONTEXTS = {"full": N_("30 seconds"), "short": N_("Audio length")}


def short_audio_table(report: Mapping[str, Any] | None, locale: str) -> Html | None:
    """A row a reading: who read, what the encoder saw, how far that is from the first row, how fast."""
    readings = (report or {}).get("readings")
    if not report or not readings:
        return None
    has_texts = any(row["error"] is not None for row in readings)
    heading = N_("Character errors") if report["metric"] == "cer" else N_("Word errors")
    has_base = readings[0]["is_base"]
    headers = [
        tr("Encoder input length", locale),
        tr(N_("Difference from base") if has_base else N_("Difference from the first row"), locale),
        *([tr(heading, locale)] if has_texts else []),
        tr("Clips per second", locale),
    ]
    first = readings[0]["seconds"]
    rows: list[list[Child]] = [
        [
            _way(row, locale),
            format_percent(row["disagreement"]),
            *([format_percent(row["error"])] if has_texts else []),
            f"{report['clips'] / max(row['seconds'], 1e-9):.1f} ({first / max(row['seconds'], 1e-9):.1f} ×)",
        ]
        for row in readings
    ]
    learned = report.get("learned") or 0
    caption = tr(
        N_("Measured on {clips} clips of {seconds:.1f} s on average; {learned} of them were trained on.")
        if learned
        else N_("Measured on {clips} clips that were not learned from, of {seconds:.1f} s on average."),
        locale,
        learned=learned,
        clips=report["clips"],
        seconds=report["sound_seconds"] / max(1, report["clips"]),
    )
    numbers = list(range(1, len(headers)))
    return tag(
        "div",
        tag("h2", tr("Short-audio mode: speed and accuracy", locale)),
        table(headers, rows, numeric=numbers, class_="stacked short-audio"),
        tag("p", caption, class_="subdued"),
    )


def _way(row: Mapping[str, Any], locale: str) -> str:
    """Who read, and what the encoder saw."""
    who = tr(N_("Base") if row["is_base"] else N_("Tuned"), locale)
    return tr("{name}: {value}", locale, name=who, value=tr(_CONTEXTS[row["audio_context"]], locale))
