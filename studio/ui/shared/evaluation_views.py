"""Evaluations as the visitor sees them: pure functions from results to HTML."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studio.evaluation.metrics import AlignedPiece, align
from studio.evaluation.scripts import script_sentences
from studio.evaluation.side_by_side import SideBySide
from studio.reports.markup import Child, Html, table, tag
from studio.translation import N_, said, tr
from studio.units import format_percent


def rates_table(models: Sequence[Mapping[str, Any]], locale: str) -> Html:
    """A row a model; the lowest word error rate is set in bold."""
    headers = [
        tr(text, locale)
        for text in (
            N_("Model"),
            N_("WER (words)"),
            N_("CER (characters)"),
            N_("MER (mixed)"),
            N_("Real-time factor"),
            N_("Clips"),
        )
    ]
    best = min((row["wer"] for row in models), default=None)
    rows: list[list[Child]] = [
        [
            str(row["id"]),
            tag("b" if row["wer"] == best else "span", format_percent(row["wer"])),
            format_percent(row["cer"]),
            format_percent(row["mer"]),
            f"{row['real_time_factor']:.3f}",
            str(row["n"]),
        ]
        for row in models
    ]
    return table(headers, rows, numeric=[1, 2, 3, 4, 5], class_="stacked")


def comparison_sentences(comparisons: Sequence[Mapping[str, Any]], locale: str) -> Html:
    """What the difference between two models is worth, one sentence a pair and metric."""
    return tag("ul", [tag("li", _comparison(row, locale)) for row in comparisons], class_="comparisons")


def _comparison(row: Mapping[str, Any], locale: str) -> str:
    # The difference is b minus a: below zero, b makes fewer errors.
    better, worse = (row["b"], row["a"]) if row["difference"] < 0 else (row["a"], row["b"])
    low, high = row["ci_low"], row["ci_high"]
    if row["significant"]:
        low, high = sorted((abs(low), abs(high)))
    values = {
        "metric": str(row["metric"]).upper(),
        "better": better,
        "worse": worse,
        "points": f"{100 * abs(row['difference']):.1f}",
        "low": f"{100 * low:.1f}",
        "high": f"{100 * high:.1f}",
    }
    if row["significant"]:
        text = N_(
            "{metric}: {better} makes {points} points fewer errors than {worse} (95 % interval {low} to "
            "{high}): a real difference."
        )
    else:
        text = N_(
            "{metric}: {better} and {worse} differ by {points} points (95 % interval {low} to {high}): this "
            "may be chance."
        )
    return tr(text, locale, **values)


def script_note(found: Mapping[str, Any], locale: str) -> Html:
    """Which script each model writes, where the texts are Chinese."""
    sentences = script_sentences(found)
    if not sentences:
        return tag("div")
    return tag("ul", [tag("li", said(one, locale)) for one in sentences], class_="comparisons")


def utterance_table(utterances: Sequence[Mapping[str, Any]], locale: str, limit: int = 200) -> Html:
    """What was said and what each model wrote, differences marked; at most `limit` rows."""
    headers = [tr(text, locale) for text in (N_("Model"), N_("Audio"), N_("Reference"), N_("Model output"))]
    rows: list[list[Child]] = [
        [
            str(row["model"]),
            Path(str(row["audio_path"])).name,
            str(row["reference"]),
            difference(str(row["reference"]), str(row["hypothesis"])),
        ]
        for row in utterances[:limit]
    ]
    return tag("div", difference_legend(locale), table(headers, rows, class_="utterances stacked"))


def difference_legend(locale: str) -> Html:
    """What the marks of `difference` mean."""
    return tag(
        "p",
        tag("del", tr("deleted", locale)),
        " ",
        tag("ins", tr("inserted", locale)),
        " ",
        tag("mark", tr("substituted", locale)),
        class_="diff-legend",
    )


def side_by_side_view(found: SideBySide, locale: str) -> Html:
    """A row a model: what it wrote against the reference, or against the first model, and its error rates."""
    headers = [tr(text, locale) for text in (N_("Model"), N_("Model output"))]
    rates = [tr(text, locale) for text in (N_("WER (words)"), N_("CER (characters)"))]
    rows: list[list[Child]] = []
    for hearing in found.hearings:
        shown = tag("span", [[_piece(piece), " "] for piece in hearing.pieces], class_="diff", dir="auto")
        row: list[Child] = [hearing.transcript.model, shown]
        if hearing.wer is not None and hearing.cer is not None:
            row += [format_percent(hearing.wer), format_percent(hearing.cer)]
        rows.append(row)
    titles = [*headers, *rates] if found.reference else headers
    return tag(
        "div", difference_legend(locale), table(titles, rows, numeric=[2, 3], class_="side-by-side stacked")
    )


def difference(reference: str, hypothesis: str) -> Html:
    """The hypothesis with what was left out, put in or written instead marked."""
    return tag("span", [[_piece(piece), " "] for piece in align(reference, hypothesis)], class_="diff")


def _piece(piece: AlignedPiece) -> Child:
    if piece.kind == "equal":
        return piece.hypothesis
    if piece.kind == "delete":
        return tag("del", piece.reference)
    if piece.kind == "insert":
        return tag("ins", piece.hypothesis)
    return tag("mark", piece.hypothesis, title=piece.reference)
