"""The forms of a model: what was made of it, with the proof, and how they do beside each other, from what was
measured or what the model's card kept of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.dataset.example import FEWEST_CLIPS
from studio.messages import Message
from studio.publishing.findings import as_number
from studio.publishing.formats import form_of
from studio.registry.spec import ModelSpec
from studio.reports.markup import Child, Html, table, tag
from studio.reports.pieces import badge, note
from studio.translation import N_, message_from, said, tr
from studio.units import format_bytes, format_percent

COLUMNS = (
    N_("Form"),
    *("WER", "CER"),
    N_("Loss in points (95 %)"),
    N_("Real-time factor"),
    N_("Peak memory"),
    N_("Size on disk"),
)
_PROVEN = ("different_tokens", "tokens", "clips")
_FIGURES = ("wer", "cer", "low", "high", "real_time_factor", "memory_bytes", "size_bytes")

_MOST_WRONG = 0.5
"""Errors of the best form, from which on none is worth anything on these clips."""
_UNSUITED = N_("More than half is wrong in every form: these clips do not suit the model.")
_TOO_FEW = N_("Too few clips to recommend a form: take {fewest} or more.")
SEARCHES = N_(
    "Each engine searches as it does by default: faster-whisper with five beams, the others with one. "
    "The size on disk is that of the files that are played: an int8 export is smaller."
)
_EXPORT_COLUMNS = (N_("Model"), N_("Form"), N_("Weights"), N_("Size"), N_("Proof"))


def proof_of(spec: ModelSpec) -> Message | None:
    """How an export compares with its model; None where its card does not say."""
    rows = spec.card.get("parity")  # each step on the way, and last the model with what was made
    last = rows[-1] if isinstance(rows, list) and rows else None
    figures = {name: as_number(last.get(name)) for name in _PROVEN} if isinstance(last, Mapping) else {}
    if not figures or None in figures.values():
        return None
    if not figures["different_tokens"]:
        return Message("the same output ({clips} clips)", **figures)
    return Message("{different_tokens} of {tokens} tokens differ ({clips} clips)", **figures)


def exports_table(exports: Sequence[ModelSpec], locale: str) -> Html | None:
    """What was made of a model, a row each; None where nothing was."""
    rows: list[list[Child]] = []
    for spec in exports:
        proof = proof_of(spec)
        rows.append(
            [
                tag("code", spec.id),
                tr(form_of(spec).label, locale),
                weights_of(spec),
                format_bytes(spec.size_bytes),
                said(proof, locale) if proof else "",
            ]
        )
    headers = [tr(column, locale) for column in _EXPORT_COLUMNS]
    if not rows:
        return None
    return table(headers, rows, numeric=[3], caption=tr("Exports", locale), class_="stacked forms-table")


def weights_of(spec: ModelSpec) -> str:
    """How an export keeps its weights; empty where its card does not say."""
    kept = spec.card.get("quantization")
    return kept[:20] if isinstance(kept, str) else ""


def form_rows(found: Any) -> list[tuple[list[str], Message | None]]:
    """A row a form: its cells under `COLUMNS`, and why it has no figures, if so. A card that somebody has
    written gives what can be read of it.
    """
    rows = found.get("rows") if isinstance(found, Mapping) else None
    return [_row(row) for row in (rows if isinstance(rows, list) else ()) if isinstance(row, Mapping)]


def _row(row: Mapping[str, Any]) -> tuple[list[str], Message | None]:
    wer, cer, low, high, factor, memory, size = (as_number(row.get(name)) for name in _FIGURES)
    cells = [
        str(row.get("name"))[:60],
        "" if wer is None else format_percent(wer),
        "" if cer is None else format_percent(cer),
        "" if low is None or high is None else f"{100 * low:+.1f} … {100 * high:+.1f}",
        "" if factor is None else f"{factor:.3f}",
        format_bytes(int(memory)) if memory else "",
        format_bytes(int(size)) if size else "",
    ]
    told = row.get("problem")
    if not isinstance(told, Mapping):
        return cells, None
    return cells, message_from(told.get("template"), told.get("values"), str(told.get("text"))[:300])


def recommendation(found: Any) -> Message | None:
    """Which form to deploy, and why; None where none was heard."""
    if not isinstance(found, Mapping):
        return None
    if not found.get("recommended"):
        rows = found["rows"] if isinstance(found.get("rows"), list) else []
        metric = "cer" if found.get("metric") == "cer" else "wer"
        rates = [as_number(row.get(metric)) for row in rows if isinstance(row, Mapping)]
        return why_none(as_number(found.get("clips")), [rate for rate in rates if rate is not None])
    return Message(
        "{form} is the fastest form that loses less than 1 point ({metric}, at the far end of its 95 % "
        "interval; {clips} clips).",
        form=str(found["recommended"])[:60],
        metric=str(found.get("metric")).upper()[:3],
        clips=found.get("clips"),
    )


def why_none(clips: float | None, rates: Sequence[float]) -> Message | None:
    """Why no form can be recommended of so many clips, if each form has that share of them wrong."""
    if clips is not None and clips < FEWEST_CLIPS:
        return Message(_TOO_FEW, fewest=FEWEST_CLIPS)
    return Message(_UNSUITED) if rates and min(rates) >= _MOST_WRONG else None


def forms_table(found: Any, locale: str) -> Html | None:
    """The table, under the form that is recommended; None where nothing was measured."""
    rows = form_rows(found)
    if not rows:
        return None
    best = recommendation(found)
    shown: list[list[Child]] = []
    for cells, problem in rows:
        if problem is None:
            words: list[Child] = [child for word in cells[0].split(":") for child in (tag("code", word), " ")]
            is_best = best is not None and cells[0] == best.values.get("form")
            words += [badge(tr("Recommended", locale), "good")] if is_best else []
            shown.append([tag("span", words), *(cell.replace("… ", "…\u00a0") for cell in cells[1:])])
    headers = [tr(column, locale) for column in COLUMNS]
    reasons = [
        tag("li", tag("code", cells[0]), ": ", said(problem, locale))
        for cells, problem in rows
        if problem is not None
    ]
    of_model = tr("Forms of {model}", locale, model=str(found.get("model"))[:60])
    return tag(
        "div",
        note(said(best, locale), "good" if "form" in best.values else "info") if best else None,
        table(headers, shown, numeric=range(1, len(headers)), caption=of_model, class_="stacked forms-table")
        if shown
        else None,
        tag("p", tr(SEARCHES, locale), class_="subdued") if shown else None,
        tag("ul", reasons, class_="comparisons") if reasons else None,
    )
