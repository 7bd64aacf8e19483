"""The live side of the Train tab: history, the chosen run, its curves, its log. Read anew at each tick."""

import hashlib
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.components.plot import PlotData

from studio.jobs.manager import JobManager
from studio.jobs.status import ACTIVE, RunStatus
from studio.ui.charts import error_chart, loss_chart
from studio.ui.i18n import _
from studio.ui.picking import picking_table
from studio.ui.run_views import history_table, run_status, samples_table

Seen = dict[str, str]
"""Component → fingerprint of what the visitor's page shows in it."""
_LOG_LINES = 200


@dataclass(frozen=True)
class RunPanel:
    """The components, in the order in which `render` gives their values."""

    selected: gr.State
    seen: gr.State
    status: gr.HTML
    stop: gr.Button
    resume: gr.Button
    remove: gr.Button
    loss: gr.Plot
    errors: gr.Plot
    samples: gr.HTML
    log_section: gr.Accordion
    log: gr.Textbox
    history: gr.HTML

    def outputs(self) -> list[Block]:
        """Every component."""
        return list(vars(self).values())


def build_run_panel() -> RunPanel:
    """Lays the components out."""
    selected, seen = gr.State(""), gr.State({})
    status = gr.HTML(elem_id="run-status")
    with gr.Row(elem_classes="run-buttons"):
        stop = gr.Button(
            _("Stop and keep a checkpoint"), variant="stop", visible=False, size="sm", elem_id="run-stop"
        )
        resume = gr.Button(_("Resume"), variant="primary", visible=False, size="sm", elem_id="run-resume")
        remove = gr.Button(_("Remove this run …"), visible=False, size="sm", elem_id="run-remove")
    with gr.Row():
        loss = gr.Plot(show_label=False, visible=False, min_width=300, elem_id="run-loss")
        errors = gr.Plot(show_label=False, visible=False, min_width=300, elem_id="run-errors")
    samples = gr.HTML(elem_id="run-samples")
    with gr.Accordion(_("Log"), open=False, visible=False) as log_section:
        log = gr.Textbox(
            show_label=False, lines=12, max_lines=12, autoscroll=True, interactive=False, elem_id="run-log"
        )
    history = picking_table(elem_id="run-history")
    return RunPanel(
        selected, seen, status, stop, resume, remove, loss, errors, samples, log_section, log, history
    )


def render(jobs: JobManager, selected: str, seen: Seen, locale: str) -> list[Any]:
    """Values for `RunPanel.outputs`, with `gr.skip()` for whatever the page shows already."""
    runs = jobs.runs()
    ids = [run.run_id for run in runs]
    if selected not in ids:
        selected = next((run.run_id for run in runs if run.state in ACTIVE), ids[0] if ids else "")
    status = jobs.status(selected) if selected else None
    values = {
        **_of_run(status, locale),
        "log_section": gr.update(visible=bool(selected)),
        "log": jobs.log_tail(selected, _LOG_LINES) if selected else "",
        "history": history_table(runs, selected, locale),
    }
    fingerprints = {name: _fingerprint(value) for name, value in values.items()}
    changed = [gr.skip() if seen.get(name) == fingerprints[name] else value for name, value in values.items()]
    return [selected, fingerprints, *changed]


def _of_run(status: RunStatus | None, locale: str) -> dict[str, Any]:
    """Everything about the chosen run, under the names of the panel."""
    loss = tuple(status.loss_points) if status else ()
    points = tuple(status.eval_points) if status else ()
    # Both plots come at once: one that shares its row later would keep the width it had alone.
    has_curves = bool(loss or points)
    is_over = status is not None and status.state not in ACTIVE
    return {
        "status": run_status(status, locale),
        "stop": gr.update(visible=bool(status and status.can_stop)),
        "resume": gr.update(visible=bool(status and status.can_resume)),
        "remove": gr.update(visible=is_over),
        "loss": _plot(
            loss_chart(
                loss, [(point.step, point.loss) for point in points if point.loss is not None], locale
            ),
            has_curves,
        ),
        "errors": _plot(
            error_chart(
                [(point.step, point.wer) for point in points],
                [(point.step, point.cer) for point in points],
                locale,
            ),
            has_curves,
        ),
        "samples": samples_table(status.samples if status else (), locale),
    }


def _plot(figure: PlotData, is_visible: bool) -> Any:
    return gr.update(value=figure, visible=True) if is_visible else gr.update(visible=False)


def _fingerprint(value: Any) -> str:
    """Equal for two values that look alike on the page."""
    return hashlib.sha1(str(value).encode(), usedforsecurity=False).hexdigest()
