"""Ladders, cards, diagnoses and the doctor's report as HTML. Pure functions."""

from collections.abc import Mapping, Sequence
from textwrap import shorten

from studio.actions.fit import FitAnswer, ModelFit
from studio.actions.presets import Preset
from studio.doctor.report import Check, DoctorReport, Health
from studio.memory.fit import FitResult
from studio.memory.gpus import Gpu, Verdict
from studio.memory.ladder import Rung
from studio.memory.myths import Claim
from studio.memory.oom import OomDiagnosis
from studio.memory.oom_text import OomKind
from studio.memory.savings import Saving
from studio.options.choices import METHOD_LABELS, QUANTIZATIONS
from studio.reports.markup import Child, Html, join, table, tag
from studio.reports.pieces import badge, facts, folded, note
from studio.translation import N_, said, tr
from studio.ui.shared.views import known_name
from studio.units import format_bytes

_VERDICT_NAMES = {
    "fits": (N_("Runs on"), "good"),
    "tight": (N_("Tight on"), "warning"),
    "does_not_fit": (N_("Does not fit on"), "bad"),
}
_HEALTH_NAMES = {
    Health.OK: (N_("ok"), "good"),
    Health.NOTE: (N_("note"), "warning"),
    Health.PROBLEM: (N_("problem"), "bad"),
}


STEP_PHASES = {
    "forward": N_("Forward pass"),
    "backward": N_("Backward pass"),
    "optimizer_step": N_("Optimizer step"),
    "evaluation": N_("Evaluation"),
    "resuming": N_("Resuming"),
    "encoding": N_("Encoding"),
    "decoding": N_("Decoding"),
}
"""Moments of a run or a transcription that can be the highest."""


def phases_view(phases: Mapping[str, int], locale: str) -> Html:
    """The most bytes of tensors in each phase, in the order of the run."""
    rows = [
        (tr(name, locale), format_bytes(phases[phase]))
        for phase, name in STEP_PHASES.items()
        if phase in phases
    ]
    text = " · ".join(f"{name} {size}" for name, size in rows)
    return tag("p", tr("Peak tensor memory per phase: {phases}", locale, phases=text), class_="subdued")


def savings_view(savings: Sequence[Saving], locale: str) -> Html | None:
    """What short audio and the loss in chunks save, or would."""
    if not savings:
        return None
    return tag("ul", [tag("li", said(row.sentence, locale)) for row in savings], class_="savings")


def ladder_view(result: FitResult, locale: str) -> Html:
    """From the wish to the plan: each change with a bar of what is left, what it saves and what it costs."""
    top = max(result.wished.device_bytes, 1)
    first = _rung_row(tr("Original plan", locale), result.wished.device_bytes, top, "", "")
    rows = [first, *(_ladder_row(rung, top, locale) for rung in result.rungs)]
    headers = [tr(text, locale) for text in (N_("Change"), N_("Memory"), N_("Saves"), N_("Costs"))]
    return table(headers, rows, numeric=[2], class_="ladder-table stacked")


def _ladder_row(rung: Rung, top: int, locale: str) -> list[Child]:
    saves = format_bytes(rung.saves_bytes) if rung.saves_bytes > 0 else "–"
    return _rung_row(said(rung.change, locale), rung.device_bytes, top, saves, said(rung.cost, locale))


def _rung_row(change: str, size: int, top: int, saves: str, cost: str) -> list[Child]:
    width = max(1.0, min(100.0, 100 * size / top))
    bar = tag("span", class_="rung-bar", style=f"width:{width:.1f}%")
    return [
        change,
        tag("div", tag("span", format_bytes(size), class_="rung-size"), bar, class_="rung"),
        saves,
        cost,
    ]


def models_view(models: Sequence[ModelFit], chosen: str, locale: str) -> Html:
    """What becomes of each model on the GPU."""
    rows: list[list[Child]] = []
    for row in models:
        plan = row.result.plan
        bits = (
            ""
            if plan.quantization == "none"
            else tr(", ", locale) + tr(QUANTIZATIONS[plan.quantization], locale)
        )
        name: Child = tag("b", row.title) if row.base_model == chosen else row.title
        mark = (
            badge(tr("fits", locale), "good") if row.result.fits else badge(tr("does not fit", locale), "bad")
        )
        rows.append(
            [
                name,
                mark,
                tr(METHOD_LABELS[plan.method], locale) + bits,
                str(plan.batch_size),
                tr(N_("on") if plan.gradient_checkpointing else N_("off"), locale),
                format_bytes(row.result.estimate.device_bytes),
            ]
        )
    headers = [
        tr(text, locale)
        for text in (
            N_("Model"),
            N_("Here"),
            N_("Method"),
            N_("Batch size"),
            N_("Gradient checkpointing"),
            N_("Memory"),
        )
    ]
    return table(
        headers, rows, numeric=[3, 5], caption=tr("Models on this GPU", locale), class_="stacked fit-table"
    )


def cards_view(cards: Sequence[tuple[Gpu, Verdict]], locale: str) -> Html:
    """Which cards run a plan, the smallest first; folded, since there are many."""
    fitting = [gpu.name for gpu, verdict in cards if verdict == "fits"]
    head = (
        tr(
            "Fits {count} of {all} GPUs, smallest {name}",
            locale,
            count=len(fitting),
            all=len(cards),
            name=fitting[0],
        )
        if fitting
        else tr("Fits none of {all} GPUs", locale, all=len(cards))
    )
    groups = [
        tag(
            "div",
            tag("b", tr(name, locale)),
            [badge(gpu.name, kind) for gpu, verdict in cards if verdict == key],
            class_="cards",
        )
        for key, (name, kind) in _VERDICT_NAMES.items()
        if any(verdict == key for _gpu, verdict in cards)
    ]
    return folded(head, groups)


def claim_view(claim: Claim, locale: str) -> Html:
    """What guides say, and the truth."""
    text = tr("Guides say: “{said}”", locale, said=said(claim.said, locale))
    return tag("div", tag("div", text), tag("div", said(claim.truth, locale)), class_="note note-info")


def claims_view(claims: Sequence[Claim], locale: str) -> Html:
    """All of them, folded."""
    rows: list[list[Child]] = [[said(each.said, locale), said(each.truth, locale)] for each in claims]
    headers = [tr("What guides say", locale), tr("What is true", locale)]
    return folded(tr("What guides say about memory, and what is true", locale), table(headers, rows))


def presets_view(rows: Sequence[tuple[Preset, FitAnswer]], locale: str) -> Html:
    """Our figures beside what guides say, folded."""
    names = (
        N_("Question"),
        N_("Model"),
        N_("Method"),
        N_("Memory"),
        N_("What guides say"),
        N_("What is true"),
    )
    cells: list[list[Child]] = [
        [
            said(row.title, locale),
            known_name(answer.base_model, locale),
            tr(METHOD_LABELS[answer.result.plan.method], locale),
            tr(
                "{size} of {usable}",
                locale,
                size=format_bytes(answer.result.estimate.device_bytes),
                usable=format_bytes(answer.result.budget_bytes),
            ),
            said(row.claim.said, locale),
            said(row.claim.truth, locale),
        ]
        for row, answer in rows
    ]
    title = tr("Presets: our figures beside what guides say", locale)
    return folded(title, table([tr(name, locale) for name in names], cells, class_="stacked"))


def no_fit(result: FitResult, usable: int, locale: str) -> Html:
    """What to say where nothing fits."""
    text = tr(
        "Nothing fits: the least this model takes is {low} to {high}, and {usable} can be used. Choose a "
        "smaller model below, or another GPU.",
        locale,
        low=format_bytes(result.estimate.low_bytes),
        high=format_bytes(result.estimate.high_bytes),
        usable=format_bytes(usable),
    )
    return note(text, "bad")


def diagnosis_view(diagnosis: OomDiagnosis, locale: str) -> Html:
    """What happened, who held the memory, what helps."""
    report = diagnosis.report
    figures = [
        (N_("Requested"), report.asked_bytes),
        (N_("Free"), report.free_bytes),
        (N_("Size of the GPU"), report.total_bytes),
        (N_("This process"), report.process_bytes or report.reserved_bytes),
        (N_("Other processes"), diagnosis.others_bytes),
    ]
    cells = [(tr(name, locale), format_bytes(size)) for name, size in figures if size is not None]
    kind = "info" if report.kind is OomKind.UNKNOWN else "warning"
    lines = [tag("div", said(sentence, locale)) for sentence in diagnosis.sentences]
    words = (
        tag("code", shorten(report.words, 160, placeholder=" …"), class_="formula") if report.words else None
    )
    ladder = None
    if diagnosis.repaired is not None and diagnosis.repaired.rungs:
        ladder = ladder_view(diagnosis.repaired, locale)
    return join(
        [
            facts(cells) if cells else None,
            tag("div", lines, class_=f"note note-{kind}", role="status"),
            words,
            ladder,
        ]
    )


def doctor_view(report: DoctorReport, locale: str) -> Html:
    """A row a check."""
    headers = [tr(text, locale) for text in (N_("Check"), N_("Result"), N_("Found"))]
    rows = [_check_row(check, locale) for check in report.checks]
    return table(headers, rows, class_="doctor-table stacked")


def _check_row(check: Check, locale: str) -> list[Child]:
    name, kind = _HEALTH_NAMES[check.health]
    advice = tag("div", said(check.advice, locale), class_="subdued") if check.advice else None
    return [
        said(check.name, locale),
        badge(tr(name, locale), kind),
        tag("div", tag("div", said(check.finding, locale)), advice),
    ]
