"""What the check of a data set found: as part of a page, and as a report in one HTML file."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from studio.dataset.report import WARNINGS, DatasetReport, Histogram
from studio.errors import in_short
from studio.evaluation.suspicious import HeardLabel, doubted
from studio.messages import Message
from studio.reports.data_views import SHOWN_CHARACTERS, place_of_row, problems_table
from studio.reports.language_names import language_name
from studio.reports.markup import Child, Html, join, table, tag
from studio.reports.pieces import BLUE, TEAL, facts, note
from studio.translation import N_, said, tr
from studio.units import duration_message, format_percent

KIND_NAMES = {
    "unusable": N_("missing or broken"),
    "too_short": N_("too short"),
    "too_long": N_("too long"),
    "label_too_long": N_("label too long"),
    "silent": N_("silent"),
    "incomplete": N_("cut off or damaged"),
    "clipped": N_("clipped"),
    "duplicate": N_("duplicate"),
    "speaking_rate": N_("unusual speaking rate"),
    "mixed_script": N_("simplified and traditional mixed"),
    "mixed_punctuation": N_("with and without punctuation"),
    "capitals": N_("in capitals"),
    "tags": N_("with tags"),
    "other_script": N_("letters of another language"),
    "leakage": N_("in the test data, too"),
    "suspicious_label": N_("the model transcribes something else"),
    "other_language": N_("another language is detected"),
}
_SHOWN_LABELS = 20
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; vertical-align: top;
overflow-wrap: anywhere; }
h2 { font-size: 1em; } .number { text-align: right; }
.charts { display: flex; flex-wrap: wrap; gap: 2rem; } figure { flex: 1 1 20rem; margin: 0; }
svg text { font-size: 11px; fill: currentColor; } figcaption { text-align: center; }
.facts { margin: .5rem 0; } .fact-name { opacity: .7; margin-right: .5em; }
@media (prefers-color-scheme: dark) { body { background: #15191d; color: #e4e7ea; } }
@media (max-width: 640px) {
body { margin: 1rem auto; } .stacked thead { display: none; }
.stacked tr { display: block; border-bottom: 1px solid #8884; padding: .5rem 0; }
.stacked td { display: block; border: 0; text-align: start; padding: .1rem 0; }
.stacked td + td::before { content: attr(data-label) " "; opacity: .7; }
}
"""


def report_view(
    report: DatasetReport, labels: Sequence[HeardLabel], examples: Sequence[tuple[str, str]], locale: str
) -> Html:
    """Figures, kinds of problems, the rows, what the model heard, and labels before and after."""
    bad = report.rows - report.good_rows
    rows = [problem for problem in report.problems if problem.kind != "suspicious_label"]
    told = Message(
        "{good} of {rows} rows can be used, {length}.",
        good=report.good_rows,
        rows=report.rows,
        length=duration_message(3600 * report.hours),
    )
    summary = said(told, locale)
    stopped = tr("Stopped: only the rows checked so far are in this report.", locale)
    return tag(
        "div",
        note(summary, "warning" if bad else "good"),
        None if report.is_complete else note(stopped, "warning"),
        note(said(report.shared.sentence, locale), "warning")
        if report.shared and report.shared.count
        else None,
        facts(_figures(report, locale)),
        _kinds(report, locale) if report.problems else None,
        problems_table(rows, locale, 50) if rows else None,
        labels_table(labels, locale) if labels else None,
        before_and_after(examples, locale) if examples else None,
        class_="data-report",
    )


def _figures(report: DatasetReport, locale: str) -> list[tuple[str, Child]]:
    shares = {language: format_percent(n / report.good_rows) for language, n in report.languages.items()}
    unnamed = tr("none named", locale)
    named = [
        tr("{name} ({share})", locale, name=language_name(code, locale) or unnamed, share=share)
        for code, share in shares.items()
    ]
    rate = f"{report.median_characters_per_second:.1f}"
    languages = tr(N_(", "), locale).join(named) or "–"
    return [(tr("Languages", locale), languages), (tr("Characters per second", locale), rate)]


def _kinds(report: DatasetReport, locale: str) -> Html:
    rows: list[list[Child]] = [
        [
            tr(KIND_NAMES.get(kind, kind), locale),
            count,
            tr(N_("to check") if kind in WARNINGS else N_("cannot be used"), locale),
        ]
        for kind, count in report.kinds.items()
    ]
    headers = [tr("Problem", locale), tr("Rows", locale), tr("What it means", locale)]
    return table(headers, rows, numeric=[1], class_="data-kinds stacked")


def labels_table(labels: Sequence[HeardLabel], locale: str) -> Html:
    """Labels and what the model heard instead, the worst first."""
    if not (shown := doubted(labels)[:_SHOWN_LABELS]):
        text = N_("The model transcribes what the labels say ({count} clips).")
        return note(tr(text, locale, count=len(labels)), "good")
    headers = [tr(text, locale) for text in (N_("Line"), N_("Label"), N_("Model output"), N_("Errors"))]
    rows: list[list[Child]] = [
        [place_of_row(label), *map(_cut, (label.text, label.heard)), format_percent(label.error_rate)]
        for label in shown
    ]
    title = tr("Labels the model disagrees with most", locale)
    return tag("div", tag("h2", title), table(headers, rows, numeric=[0, 3], class_="stacked"))


def _cut(text: str) -> str:
    return str(in_short(text, SHOWN_CHARACTERS))


def before_and_after(examples: Sequence[tuple[str, str]], locale: str) -> Html:
    """Labels as they are and as the chosen normalization makes them."""
    headers = [tr("Label", locale), tr("Training text", locale)]
    rows: list[list[Child]] = [[before, after] for before, after in examples]
    return tag("div", tag("h2", tr("Text normalization", locale)), table(headers, rows))


def label_title(report: DatasetReport, locale: str) -> str:
    """What the lengths of labels are counted in."""
    in_tokens = report.label_unit == "tokens"
    return tr(
        N_("Length of the labels (tokens)") if in_tokens else N_("Length of the labels (characters)"), locale
    )


def html_report(
    report: DatasetReport, labels: Sequence[HeardLabel], examples: Sequence[tuple[str, str]], locale: str
) -> str:
    """The same as one file that needs nothing else and holds no script; every text in it is escaped."""
    title = f"{tr('Check of the data', locale)}: {Path(report.source).name}"
    charts = [
        _drawn(report.durations, tr("Length of the clips (seconds)", locale), BLUE),
        _drawn(report.label_lengths, label_title(report, locale), TEAL),
    ]
    view = report_view(report, labels, examples, locale)
    body = join([tag("h1", title), tag("p", report.source), tag("div", charts, class_="charts"), view])
    return report_file(title, body, locale)


def report_file(title: str, body: Html, locale: str, style: str = "") -> str:
    """A whole HTML file that fetches nothing and fits a telephone; `style` is CSS of its own."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(_STYLE + style)),
    ]
    return f'<!doctype html>\n<html lang="{locale}"><head>{join(head)}</head><body>{body}</body></html>\n'


def _drawn(histogram: Histogram, title: str, colour: str) -> Html | None:
    """A histogram as a drawing, 400 by 160 with room for the numbers of its axis."""
    if not histogram.counts:
        return None
    width, highest = 400 / len(histogram.counts), max(histogram.counts)
    bars = [
        tag(
            "rect",
            tag("title", f"{low:g} – {high:g}: {count}"),
            x=f"{place * width:.1f}",
            y=f"{160 - 150 * count / highest:.1f}",
            width=f"{max(1.0, width - 1):.1f}",
            height=f"{150 * count / highest:.1f}",
            fill=colour,
        )
        for place, ((low, high), count) in enumerate(
            zip(pairwise(histogram.edges), histogram.counts, strict=True)
        )
    ]
    ends = [
        tag("text", f"{histogram.edges[0]:g}", x="0", y="176"),
        tag("text", f"{histogram.edges[-1]:g}", x="400", y="176", text_anchor="end"),
        tag("text", str(highest), x="2", y="8"),
    ]
    drawing = tag("svg", bars, ends, viewBox="0 -4 400 184", role="img", aria_label=title)
    return tag("figure", drawing, tag("figcaption", title))
