"""Several runs in one figure, and what they were told to do otherwise."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from studio.options.training import FIELDS
from studio.reports.markup import Child, Html, table, tag
from studio.runs.comparison import best_rates, differing_options, require_several
from studio.runs.manager import MOST_LISTED
from studio.runs.status import RunStatus
from studio.services import Services
from studio.translation import tr
from studio.ui.shared.charts import runs_chart
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET, UNCHECKED
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.visitors import services_for
from studio.ui.train.run_views import run_title
from studio.units import format_percent, local_time


def build_run_comparison(services: Services, tab: gr.Tab) -> None:
    """A choice of runs; figure and table follow it."""
    with gr.Accordion(_("Compare runs"), open=False, elem_id="run-comparison"):
        chosen = gr.Dropdown(
            [], label=_("Runs to compare"), multiselect=True, interactive=True, elem_id="compare-runs"
        )
        button = gr.Button(_("Compare"), size="sm", elem_id="runs-compare-start")
        chart = gr.Plot(show_label=False, visible=False, elem_id="compare-chart")
        options = gr.HTML(elem_id="compare-options")

    def choices(request: gr.Request) -> Any:
        """The runs to choose from."""
        jobs = services_for(services, request).jobs
        return gr.update(choices=[(_named(run), run.run_id) for run in jobs.runs(MOST_LISTED)])

    def compare(run_ids: list[str] | None, request: gr.Request) -> list[Any]:
        """The figure and the table of the chosen runs."""
        require_several(run_ids or [])
        jobs = services_for(services, request).jobs
        runs = [jobs.status(run_id) for run_id in run_ids or []]
        locale = request_locale(request)
        return [gr.update(value=runs_chart(runs, locale), visible=True), comparison_table(runs, locale)]

    gr.on([tab.select, chosen.focus], choices, None, chosen, **QUIET)
    button.click(**told_in(options, compare, [chart, options]), inputs=chosen, **QUIET, **UNCHECKED)


def comparison_table(runs: Sequence[RunStatus], locale: str) -> Html:
    """A column a run: what came out, then the options that differ."""
    rates = [best_rates(run) for run in runs]
    rows: list[list[Child]] = [
        [tr("WER (words)", locale), *[_percent(wer) for wer, _cer in rates]],
        [tr("CER (characters)", locale), *[_percent(cer) for _wer, cer in rates]],
        [tr("Step", locale), *[str(run.step) for run in runs]],
    ]
    for name, values in differing_options(runs).items():
        label = [tr(FIELDS[name].metadata["label"], locale), " ", tag("span", name, class_="subdued")]
        rows.append([label, *[_shown(value) for value in values]])
    return table([tr("Option", locale), *map(run_title, runs)], rows, class_="runs-compared stacked")


def _named(run: RunStatus) -> str:
    return f"{run_title(run)} ({local_time(run.created)})"


def _percent(share: float | None) -> str:
    return "–" if share is None else format_percent(share)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "–" if value is None else str(value)
