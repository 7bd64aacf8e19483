"""What can be done with runs on the Train tab: start one, choose one, stop it, resume it, remove it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.start_run import start_run
from studio.runs.manager import JobManager
from studio.runs.status import RunStatus
from studio.services import Services
from studio.training.learning_rate import gentler
from studio.translation import tr
from studio.ui.shared.access import require_training
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import EACH, QUIET
from studio.ui.shared.forms import form_config, form_updates
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.picking import picked_id
from studio.ui.shared.visitors import services_for
from studio.ui.train.form import Start
from studio.ui.train.run_panel import Answers, RunPanel, Seen, render
from studio.ui.train.run_views import prune_question


@dataclass(frozen=True)
class Removal:
    """The question before a run, or what it kept, is removed."""

    run: gr.State
    """The run that is asked about, whichever is shown by then."""
    group: gr.Group
    text: gr.Markdown
    delete: gr.Button
    keep: gr.Button


def build_removal(name: str) -> Removal:
    """Hidden until somebody is about to remove something."""
    with gr.Group(visible=False, elem_classes="confirm") as group:
        text = gr.Markdown(elem_id=f"run-{name}-question")
        with gr.Row():
            delete = gr.Button(_("Remove"), variant="stop", size="sm", elem_id=f"run-{name}-delete")
            keep = gr.Button(_("Keep"), size="sm", elem_id=f"run-{name}-keep")
    return Removal(gr.State(""), group, text, delete, keep)


def wire_starts(
    services: Services, form: dict[str, Block], panel: RunPanel, *, begin: Start, distill: Start
) -> None:
    """Two buttons that make a run of the form; the panel then shows it."""
    for start, more in ((begin, {}), (distill, {"distill": True})):
        started = told_in(start.refused, _starter(services, more), panel.outputs(), form)
        start.button.click(
            **started, inputs_kwargs={"seen": panel.seen, "answers": panel.answers, **form}, **QUIET
        )


def _starter(services: Services, more: dict[str, Any]) -> Callable[..., Any]:
    """A handler that queues what the form says, with some options set otherwise."""

    def start(seen: Seen, answers: Answers, request: gr.Request, **values: Any) -> list[Any]:
        """Queues the run and shows it."""
        own = services_for(services, request)
        require_training(own.settings)
        run_id = start_run(form_config({**values, **more}), own)
        return render(own.jobs, run_id, seen, answers, request_locale(request))

    return start


def wire_panel(
    services: Services, tab: gr.Tab, timer: gr.Timer, form: dict[str, Block], panel: RunPanel
) -> None:
    """The panel follows the chosen run; another is chosen in the history; its options can fill the form."""

    def show(
        selected: str, seen: Seen, answers: Answers, search: str | None, request: gr.Request
    ) -> list[Any]:
        """The chosen run as it is now."""
        jobs = services_for(services, request).jobs
        values = render(jobs, selected, seen, answers, request_locale(request), search or "")
        # A tick that was asked before a choice and answered after it must not take the choice back.
        return [gr.skip(), *values[1:]] if values[0] == selected else values

    def pick(event: gr.EventData, seen: Seen, answers: Answers, request: gr.Request) -> list[Any]:
        """The run that was clicked in the history."""
        jobs = services_for(services, request).jobs
        return render(jobs, picked_id(event), seen, answers, request_locale(request))

    def reuse(selected: str, request: gr.Request) -> list[Any]:
        """The form with the run's options."""
        return form_updates(services_for(services, request).jobs.status(selected).config, form)

    def soften(selected: str, request: gr.Request) -> list[Any]:
        """The form with the run's options, made gentler."""
        run = services_for(services, request).jobs.status(selected)
        return form_updates(gentler(run.config, run.learning_rate), form)

    asked = [tab.select, timer.tick, panel.search.change]
    gr.on(asked, show, panel.inputs(), panel.outputs(), **QUIET)
    panel.history.pick(pick, [panel.seen, panel.answers], panel.outputs(), **EACH)
    for button, fill in ((panel.reuse, reuse), (panel.gentler, soften)):
        button.click(**told_in(panel.refused, fill, list(form.values())), inputs=panel.selected, **QUIET)


def wire_actions(services: Services, panel: RunPanel, prune: Removal, remove: Removal) -> None:
    """What is done to the chosen run; to remove it, or its checkpoints, takes a second click."""

    def act(action: Callable[[JobManager, str], Any]) -> Any:
        """A handler that does it, and shows the run as it is then."""

        def handler(selected: str, seen: Seen, answers: Answers, request: gr.Request) -> list[Any]:
            """Does it to the chosen run."""
            own = services_for(services, request)
            require_training(own.settings)
            action(own.jobs, selected)
            return render(own.jobs, selected, seen, answers, request_locale(request))

        return handler

    at = [panel.selected, panel.seen, panel.answers]
    for button, does in ((panel.stop, act(JobManager.stop)), (panel.resume, act(JobManager.resume))):
        button.click(**told_in(panel.refused, does, panel.outputs()), inputs=at, **QUIET)
    _wire_removal(services, panel, panel.prune, prune, prune_question, act(JobManager.remove_checkpoints))
    _wire_removal(services, panel, panel.remove, remove, _remove_question, act(JobManager.remove))


def _remove_question(run: RunStatus, locale: str) -> str:
    return tr("Remove {run}, its log and its checkpoints? The model it made stays.", locale, run=run.run_id)


def _wire_removal(
    services: Services,
    panel: RunPanel,
    button: gr.Button,
    removal: Removal,
    question: Callable[[RunStatus, str], str],
    act: Callable[..., Any],
) -> None:
    """The button asks; what was asked about is removed, unless another run is chosen before."""

    def ask(selected: str, request: gr.Request) -> list[Any]:
        """The question about the run as it is now."""
        text = question(services_for(services, request).jobs.status(selected), request_locale(request))
        return [selected, gr.update(visible=True), text]

    asked = told_in(panel.refused, ask, [removal.run, removal.group, removal.text])
    button.click(**asked, inputs=panel.selected, **QUIET)
    done = told_in(panel.refused, act, panel.outputs())
    removed = removal.delete.click(**done, inputs=[removal.run, panel.seen, panel.answers], **QUIET)
    for ends in (removed.then, removal.keep.click, panel.history.pick):
        ends(lambda: gr.update(visible=False), None, removal.group, **EACH)
