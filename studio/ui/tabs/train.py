"""A form that becomes a run, and the run as it goes: progress, curves, samples, log, history."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import StudioError
from studio.jobs.manager import JobManager
from studio.registry.spec import ModelKind
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.arguments import command_line, read_config, write_yaml
from studio.ui.access import require_training, why_training_is_off
from studio.ui.data_preview import build_data_preview
from studio.ui.errors import explain, shows_errors
from studio.ui.forms import LABELS, field_component, folded_groups, form_config, form_updates
from studio.ui.i18n import _, request_locale
from studio.ui.picking import picked_id
from studio.ui.run_panel import RunPanel, Seen, build_run_panel, render
from studio.ui.transcript_views import download_links, language_choices
from studio.ui.views import model_choices

_POLL_SECONDS = 1.5
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "concurrency_limit": None}


@dataclass(frozen=True)
class _Actions:
    """What starts something."""

    start: gr.Button
    upload: gr.UploadButton
    delete: gr.Button
    keep: gr.Button


@dataclass(frozen=True)
class _Preview:
    """The form in other words."""

    command: gr.Textbox
    yaml: gr.HTML


def build_train_tab(
    settings: Settings, registry: ModelRegistry, jobs: JobManager, tab: gr.Tab
) -> dict[str, Block]:
    """The tab's content; returns its form, which other parts of the page may fill.

    Runs live in their folders, so page and handlers hold nothing of them.
    """
    reason = why_training_is_off(settings)
    gr.Markdown(
        _(
            "Fine-tune Whisper on your own speech. As it stands, the form trains the small demo model on the "
            "demo speech: press Start and watch its word errors fall, in about two minutes on an ordinary "
            "computer."
        ),
        elem_classes="lead",
    )
    if reason:
        gr.Markdown(_(reason), elem_classes="note note-warning")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form, start = _form(settings, is_off=bool(reason))
            with gr.Accordion(_("The same as a command or a file"), open=False):
                command = gr.Textbox(
                    label=_("Command"),
                    buttons=["copy"],
                    interactive=False,
                    max_lines=4,
                    elem_id="train-command",
                )
                yaml = gr.HTML()
                upload = gr.UploadButton(
                    _("Load settings from a file"),  # type: ignore[arg-type]
                    file_types=[".yaml", ".yml", ".json"],
                    size="sm",
                )
        with gr.Column(scale=3, min_width=320):
            panel = build_run_panel()
            with gr.Group(visible=False, elem_classes="confirm") as confirm:
                gr.Markdown(_("Remove this run, its log and its checkpoints? The model it made stays."))
                with gr.Row():
                    delete = gr.Button(_("Remove"), variant="stop", size="sm")
                    keep = gr.Button(_("Keep it"), size="sm")
    timer = gr.Timer(_POLL_SECONDS)
    actions = _Actions(start, upload, delete, keep)
    _wire_form(registry, tab, form, actions, _Preview(command, yaml))
    _wire_runs(settings, jobs, tab, timer, form, panel, actions, confirm)
    return form


def _form(settings: Settings, *, is_off: bool) -> tuple[dict[str, Block], gr.Button]:
    """Components under the names of `TrainingConfig`, and the button that starts."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        ["demo"],
        value="demo",
        label=LABELS["base_model"],
        info=_("From the list, or a folder or Hub id."),
        allow_custom_value=True,
        elem_id="train-base_model",
    )
    form["train_data"] = field_component("train_data")
    form["test_data"] = field_component("test_data")
    build_data_preview(settings, form["train_data"])
    with gr.Row():
        form["method"] = field_component("method", min_width=140)
        form["language"] = gr.Dropdown(
            language_choices("en"),
            value="auto",
            label=LABELS["language"],
            info=_("Of the clips; automatic takes each row's."),
            allow_custom_value=True,
            min_width=140,
            elem_id="train-language",
        )
    with gr.Row():
        for name in ("num_train_epochs", "per_device_train_batch_size", "learning_rate"):
            form[name] = field_component(name, min_width=100)
    form["run_name"] = field_component("run_name", placeholder=_("chosen for you if empty"))
    start = gr.Button(_("Start training"), variant="primary", interactive=not is_off, elem_id="train-start")
    folded_groups(form)
    return form, start


def _wire_form(
    registry: ModelRegistry, tab: gr.Tab, form: dict[str, Block], actions: _Actions, preview: _Preview
) -> None:
    """Choices, the command and file that follow the form, and a file that fills it."""

    def refresh(request: gr.Request) -> list[Any]:
        locale = request_locale(request)
        bases = [
            spec
            for spec in registry.all()
            if spec.kind in (ModelKind.BASE, ModelKind.MERGED) and not spec.problem
        ]
        return [gr.update(choices=model_choices(bases, locale)), gr.update(choices=language_choices(locale))]

    def describe(request: gr.Request, **values: Any) -> list[Any]:
        locale = request_locale(request)
        try:
            config = form_config(values)
        except StudioError as error:
            return [explain(error, locale), ""]
        return [
            command_line(config),
            download_links({"yaml": write_yaml(config)}, "whisper-training", locale),
        ]

    @shows_errors
    def load(path: str, request: gr.Request) -> list[Any]:
        del request
        return form_updates(read_config(Path(path)), form)

    tab.select(refresh, None, [form["base_model"], form["language"]], **_QUIET)
    changes = [component.change for component in form.values()]  # type: ignore[attr-defined]
    gr.on(
        [tab.select, *changes],
        describe,
        inputs_kwargs=form,
        outputs=[preview.command, preview.yaml],
        trigger_mode="always_last",
        **_QUIET,
    )
    actions.upload.upload(load, actions.upload, list(form.values()), **_QUIET)


def _wire_runs(
    settings: Settings,
    jobs: JobManager,
    tab: gr.Tab,
    timer: gr.Timer,
    form: dict[str, Block],
    panel: RunPanel,
    actions: _Actions,
    confirm: gr.Group,
) -> None:
    """The panel that follows the chosen run, and what can be done with it."""

    def show(selected: str, seen: Seen, request: gr.Request) -> list[Any]:
        values = render(jobs, selected, seen, request_locale(request))
        # A tick that was asked before a choice and answered after it must not take the choice back.
        return [gr.skip(), *values[1:]] if values[0] == selected else values

    def pick(event: gr.EventData, seen: Seen, request: gr.Request) -> list[Any]:
        return render(jobs, picked_id(event), seen, request_locale(request))

    @shows_errors
    def start(seen: Seen, request: gr.Request, **values: Any) -> list[Any]:
        require_training(settings)
        return render(jobs, jobs.submit(form_config(values)), seen, request_locale(request))

    def act(action: Any) -> Any:
        @shows_errors
        def handler(selected: str, seen: Seen, request: gr.Request) -> list[Any]:
            require_training(settings)
            action(selected)
            return render(jobs, selected, seen, request_locale(request))

        return handler

    at = [panel.selected, panel.seen]
    gr.on([tab.select, timer.tick], show, at, panel.outputs(), **_QUIET)
    panel.history.pick(pick, panel.seen, panel.outputs(), **_QUIET)
    actions.start.click(
        start,
        inputs_kwargs={"seen": panel.seen, **form},
        outputs=panel.outputs(),
        **_QUIET,
    )
    panel.stop.click(act(jobs.stop), at, panel.outputs(), **_QUIET)
    panel.resume.click(act(jobs.resume), at, panel.outputs(), **_QUIET)
    panel.remove.click(lambda: gr.update(visible=True), None, confirm, **_QUIET)
    actions.keep.click(lambda: gr.update(visible=False), None, confirm, **_QUIET)
    removed = actions.delete.click(act(jobs.remove), at, panel.outputs(), **_QUIET)
    removed.then(lambda: gr.update(visible=False), None, confirm, **_QUIET)
