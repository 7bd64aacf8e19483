"""The live side of the Train tab: history, the chosen run, its curves, its log. Read anew at each tick."""

import hashlib
import threading
from dataclasses import dataclass, fields
from typing import Any, Literal

import gradio as gr
from gradio.blocks import Block
from gradio.components.plot import PlotData

from studio.publishing.findings import loss_of
from studio.reports.markup import Html, tag
from studio.reports.pieces import button
from studio.runs.comparison import error_change
from studio.runs.manager import MOST_LISTED, JobManager
from studio.runs.oom import ran_out
from studio.runs.status import ACTIVE, JobState, RunStatus
from studio.training.events import RunPhase
from studio.translation import N_, tr
from studio.ui.shared.charts import error_chart, loss_chart
from studio.ui.shared.i18n import _
from studio.ui.shared.light_page import bare
from studio.ui.shared.picking import picking_table
from studio.ui.shared.run_memory import memory_comparison
from studio.ui.train.run_views import (
    STATE_NAMES,
    history_table,
    run_findings,
    run_status,
    run_title,
    samples_table,
)

_ON_LOAD = """
const plain = document.title;
let before = {};
const may = () => 'Notification' in window && Notification.permission === 'granted';
const look = () => {
  const now = element.querySelector('[data-run]');
  if (!now) return;
  const button = element.querySelector('[data-allow]');
  if (button) button.hidden = !('Notification' in window) || Notification.permission !== 'default';
  const {run, active, text} = now.dataset;
  if (before.run === run && before.active === 'yes' && active === 'no') {
    document.title = text;
    element.dataset.ended = run;
    if (may() && document.hidden) new Notification(text);
  } else if (element.dataset.ended !== run) delete element.dataset.ended;
  before = {run, active};
};
new MutationObserver(look).observe(element, {childList: true, subtree: true});
look();
element.addEventListener('click', (event) => {
  if (event.target.closest('[data-allow]')) Notification.requestPermission().then(look);
});
// Nothing jumps at the end: what Start would do next comes back above the run when the form is touched.
for (const touch of ['pointerdown', 'keydown']) {
  document.addEventListener(touch, (event) => {
    if (event.target.closest?.('.form-column')) delete element.dataset.ended;
  });
}
const seen = () => { if (!document.hidden) document.title = plain; };
document.addEventListener('visibilitychange', seen);
document.addEventListener('pointerdown', seen);
"""


def notice_of(status: RunStatus | None, locale: str) -> Html:
    """What the browser watches, and the button that allows notifications while a run is at work."""
    if status is None:
        return Html("")
    is_active = status.state in ACTIVE
    said = " · ".join(
        filter(None, [tr(STATE_NAMES[status.state][0], locale), run_title(status), error_change(status)])
    )
    ask = button(tr("Tell me when it ends", locale), "link-button", data_allow=True, hidden=True)
    watched = tag(
        "span", data_run=status.run_id, data_active="yes" if is_active else "no", data_text=said, hidden=True
    )
    return tag("div", watched, ask if is_active else None)


Seen = dict[str, str]
"""Component → fingerprint of what the visitor's page shows in it, and under `_ANSWER` of which answer.

It stands on the page, not in a `gr.State`: of two answers that cross, the page shows the one that comes last,
and a state has the one that was made last.
"""
_ANSWER = "answer"
_LOG_LINES = 200


class Answers:
    """The answers to one page, numbered in the order in which they were asked for."""

    _lock = threading.Lock()  # of all pages: every page has a copy of the first

    def __init__(self) -> None:
        self._last = 0

    def next(self, seen: Seen) -> tuple[str, bool]:
        """Number of a new answer, and whether the page shows the one before it.

        If not, others are under way or have crossed: what they left out, or will, is not in `seen`.
        """
        with self._lock:
            is_next = seen.get(_ANSWER) == str(self._last)
            self._last += 1
            return str(self._last), is_next


@dataclass(frozen=True)
class RunPanel:
    """The components, in the order in which `render` gives their values, but for the last three."""

    selected: gr.State
    seen: gr.JSON
    notice: gr.HTML
    status: gr.HTML
    stop: gr.Button
    resume: gr.Button
    prune: gr.Button
    remove: gr.Button
    gentler: gr.Button
    reuse: gr.Button
    explain: gr.Button
    transcribe: gr.Button
    compare: gr.Button
    export: gr.Button
    loss: gr.Plot
    errors: gr.Plot
    memory: gr.HTML
    samples: gr.HTML
    findings: gr.HTML
    log_section: gr.Accordion
    log: gr.Textbox
    history: gr.HTML
    answers: gr.State
    search: gr.Textbox
    refused: gr.HTML
    """Why one of the buttons did nothing."""

    def inputs(self) -> list[Block]:
        """What `render` wants to know."""
        return [self.selected, self.seen, self.answers, self.search]

    def outputs(self) -> list[Block]:
        """What it gives values for."""
        others = (self.answers, self.search, self.refused)
        return [component for component in vars(self).values() if component not in others]


def build_run_panel() -> RunPanel:
    """Lays the components out."""
    made: dict[str, Any] = {"selected": gr.State(""), "seen": gr.JSON({}, visible="hidden")}
    made["answers"] = gr.State(Answers())
    made["notice"] = gr.HTML(js_on_load=bare(_ON_LOAD), elem_id="run-notice")
    made["status"] = gr.HTML(elem_id="run-status")
    made |= _buttons()
    made["refused"] = gr.HTML(elem_id="run-refused")
    with gr.Row():
        for name in ("loss", "errors"):
            made[name] = gr.Plot(show_label=False, visible=False, min_width=300, elem_id=f"run-{name}")
    made |= {name: gr.HTML(elem_id=f"run-{name}") for name in ("memory", "samples", "findings")}
    with gr.Accordion(_("Log"), open=False, visible=False) as made["log_section"]:
        made["search"] = gr.Textbox(
            show_label=False, placeholder=_("Search in the log"), max_lines=1, elem_id="run-log-search"
        )
        made["log"] = gr.Textbox(
            show_label=False, lines=12, max_lines=12, autoscroll=True, interactive=False, elem_id="run-log"
        )
    made["history"] = picking_table(elem_id="run-history")
    return RunPanel(**made)


def _buttons() -> dict[str, gr.Button]:
    """What can be done with the run, under the names of the panel; each is shown where it can be done.

    The settings and the removals have a row of their own: a button that comes or goes does not move them.
    """
    with gr.Row(elem_classes="run-buttons"):
        goes_on = {
            "stop": _button("stop", _("Stop and keep a checkpoint"), "stop"),
            "resume": _button("resume", _("Resume"), "primary"),
            "transcribe": _button("transcribe", _("Transcribe with it"), "primary"),
            "compare": _button("compare", _("Compare with its base")),
            "export": _button("export", _("Export")),
            "gentler": _button("gentler", _("Use gentler settings"), "primary"),
            "explain": _button("explain", _("Why did I run out?"), "primary"),
        }
    with gr.Row(elem_classes="run-buttons"):
        return goes_on | {
            "reuse": _button("reuse", _("Use its settings")),
            "prune": _button("prune", _("Remove its checkpoints …")),
            "remove": _button("remove", _("Remove this run …")),
        }


def _button(
    name: str, label: Any, variant: Literal["primary", "secondary", "stop"] = "secondary"
) -> gr.Button:
    return gr.Button(label, variant=variant, visible=False, size="sm", elem_id=f"run-{name}")


def render(
    jobs: JobManager, selected: str, seen: Seen, answers: Answers, locale: str, search: str = ""
) -> list[Any]:
    """Values for `RunPanel.outputs`, with `gr.skip()` for whatever the page shows already."""
    answer, is_next = answers.next(seen)
    runs = jobs.runs(MOST_LISTED)
    if not jobs.has(selected):
        at_work = [run for run in runs if run.state in ACTIVE and run.state is not JobState.QUEUED]
        selected = next((run.run_id for run in (*at_work, *runs)), "")
    status = jobs.status(selected) if selected else None
    values = {
        **_of_run(status, locale),
        "explain": gr.update(visible=status is not None and ran_out(jobs, status)),
        "log_section": gr.update(visible=bool(selected)),
        "log": jobs.log_tail(selected, _LOG_LINES, search) if selected else "",
        "history": history_table(runs, jobs.count(), selected, locale),
    }
    fingerprints = {name: _fingerprint(value) for name, value in values.items()}
    names = [component.name for component in fields(RunPanel)][2:-3]
    shown = seen if is_next else {}
    changed = [gr.skip() if shown.get(name) == fingerprints[name] else values[name] for name in names]
    return [selected, {**fingerprints, _ANSWER: answer}, *changed]


def _of_run(status: RunStatus | None, locale: str) -> dict[str, Any]:
    """Everything about the chosen run, under the names of the panel."""
    loss = tuple(status.loss_points) if status else ()
    points = tuple(status.eval_points) if status else ()
    has_model = status is not None and bool(status.model_id)
    is_over = status is not None and status.state not in ACTIVE
    waits = status is not None and status.state is JobState.QUEUED
    # Both plots come at once, empty as they are at first: one that comes later moves what stands below, and
    # one that shares its row later would keep the width it had alone.
    has_curves = bool(loss or points) or (status is not None and not is_over)
    has_learned = status is not None and status.step > 0
    if waits:
        stop = N_("Remove from the queue")
    elif status is not None and status.phase in (RunPhase.CHECKING, RunPhase.TIMING):
        stop = N_("Skip the rest of the check")
    else:
        stop = "Stop and keep a checkpoint" if has_learned else "Stop"
    return {
        "notice": notice_of(status, locale),
        "status": run_status(status, locale),
        "stop": gr.update(visible=bool(status and status.can_stop), value=tr(stop, locale)),
        "resume": gr.update(visible=bool(status and status.can_resume)),
        "prune": gr.update(visible=bool(is_over and status and status.removable_bytes)),
        "remove": gr.update(visible=is_over),
        "gentler": gr.update(visible=bool(status and loss_of(status.capabilities))),
        "reuse": gr.update(visible=status is not None),
        **dict.fromkeys(("transcribe", "compare", "export"), gr.update(visible=has_model)),
        "loss": _plot(
            loss_chart(
                loss,
                [(point.step, point.loss) for point in points if point.loss is not None],
                locale,
                status.rate_points if status else (),
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
        "memory": memory_comparison(status.memory if status else None, locale),
        "samples": samples_table(status.samples, locale, status.earlier_samples) if status else "",
        "findings": run_findings(status, locale),
    }


def _plot(figure: PlotData, is_visible: bool) -> Any:
    return gr.update(value=figure, visible=True) if is_visible else gr.update(visible=False)


def _fingerprint(value: Any) -> str:
    """Equal for two values that look alike on the page."""
    return hashlib.sha1(str(value).encode(), usedforsecurity=False).hexdigest()
