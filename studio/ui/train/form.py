"""What a run is told, on the Train tab: the form, presets, and the same as a command or a file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.presets import MACHINE, PRESETS, preset_config
from studio.dataset.manifest import read_manifest
from studio.errors import StudioError
from studio.files import free_bytes
from studio.options.arguments import command_line, parse_training_arguments
from studio.registry.spec import ModelKind
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.reports.data_views import manifest_preview
from studio.reports.language_names import language_choices
from studio.reports.markup import Html
from studio.runs.confinement import most_rows, require_own_data
from studio.services import Services
from studio.settings import Settings
from studio.training.launch import launch_command
from studio.ui.shared.errors import Fields, fields_of, refusal, remarks, told_in
from studio.ui.shared.following import LATEST, QUIET, changes_of, copyable, follow_form
from studio.ui.shared.forms import (
    field_component,
    folded_groups,
    form_config,
    form_updates,
    languages_at_first,
    run_files,
    shown_value,
)
from studio.ui.shared.handover import PLAN_OPTIONS
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.views import model_choices
from studio.ui.shared.visitors import can_log_in, models_for, settings_for
from studio.ui.train.plan import planner
from studio.ui.train.run_views import disk_note
from studio.ui.train.upload_data import build_upload_section


def _wire_data_preview(settings: Settings, form: dict[str, Block], button: gr.Button, shown: gr.HTML) -> None:
    """The first rows of the data, read as the form says, until it says otherwise."""
    asked = {name: form[name] for name in ("train_data", "audio_column", "text_column")}

    def preview(request: gr.Request, train_data: str, **columns: Any) -> Html:
        """The first rows, and what is wrong with the data."""
        own = settings_for(settings, request)
        require_own_data(own, train_data)
        found = read_manifest(train_data, own, max_rows=most_rows(own, 0), **columns)
        return manifest_preview(found, request_locale(request))

    quiet: dict[str, Any] = {"api_visibility": "private", "concurrency_limit": 2}
    button.click(**told_in(shown, preview, [shown]), inputs_kwargs=asked, **quiet)
    # In the browser, at once: an answer of the server might come after the preview and take it away.
    gr.on(changes_of(asked), None, None, shown, js="() => ''", api_visibility="private")


@dataclass(frozen=True)
class Start:
    """A button that makes a run of the form, and why it did not."""

    button: gr.Button
    refused: gr.HTML


@dataclass(frozen=True)
class TrainForm:
    """Components under the names of `TrainingConfig`, what starts it, and ready-made settings."""

    fields: dict[str, Block]
    start: Start
    preset: gr.Dropdown
    preset_refused: gr.HTML


@dataclass(frozen=True)
class FormFiles:
    """The form in other words, and a file that fills it."""

    command: gr.Textbox
    launch: gr.Textbox
    yaml: gr.HTML
    upload: gr.UploadButton
    refused: gr.HTML
    """Why the file cannot fill it, or what of it is read otherwise than it was written."""


def build_train_form(settings: Settings, tab: gr.Tab, *, is_off: bool, owned: list[Block]) -> TrainForm:
    """What most runs need to be told, then all other options, folded. Where training is off, what of it opens
    to an owner is put into `owned`."""
    form: dict[str, Block] = {}
    preset, preset_refused = _preset_choice(), gr.HTML(elem_id="train-preset-refused")
    form["base_model"] = field_component(
        "base_model",
        choices=[(_("Demo model"), DEMO_ID)],
        info=_("From the list, or a folder or Hub id."),
        allow_custom_value=True,
    )
    form["train_data"] = field_component("train_data")
    if not is_off or can_log_in(settings):
        with gr.Column(visible=not is_off) as upload:
            build_upload_section(settings, tab, form["train_data"])
        owned.append(upload)
    form["test_data"] = field_component("test_data")
    preview = gr.Button(_("Preview and check the data"), size="sm", elem_id="data-check")
    previewed = gr.HTML(elem_id="data-preview")
    with gr.Row():
        # Two of 180 have no room side by side on a phone, where the method's name would lie under the arrow.
        form["method"] = field_component("method", min_width=180)
        form["language"] = field_component(
            "language",
            choices=languages_at_first(),
            info=_("Automatic: as each row says."),
            allow_custom_value=True,
            min_width=180,
        )
    with gr.Row():
        for name in ("num_train_epochs", "per_device_train_batch_size", "learning_rate"):
            form[name] = field_component(name, min_width=100)
    form["gradient_checkpointing"] = field_component(
        "gradient_checkpointing", info=_("Saves the most memory of all; costs about a third more time.")
    )
    form["run_name"] = field_component("run_name", placeholder=_("chosen for you if empty"))
    button = gr.Button(_("Start training"), variant="primary", interactive=not is_off, elem_id="train-start")
    start = Start(button, gr.HTML(elem_id="train-refused"))
    gr.Markdown(_("More options"), elem_classes="subdued")
    folded_groups(form)
    _wire_data_preview(settings, form, preview, previewed)
    return TrainForm(form, start, preset, preset_refused)


def _preset_choice() -> gr.Dropdown:
    with gr.Row():
        return gr.Dropdown(
            [(_("Choose …"), ""), (_("For this machine"), MACHINE)]
            + [(_(row.title.template), row.key) for row in PRESETS],
            value="",
            label=_("Begin with a preset"),
            info=_("Sets model, method, batch size and quantization; your data stays."),
            elem_id="train-preset",
        )


def build_form_files() -> FormFiles:
    """A folded section below the form."""
    with gr.Accordion(_("The same as a command or a file"), open=False):
        return FormFiles(
            command=copyable(_("Command"), "train-command"),
            launch=copyable(_("What a run starts"), "train-launch"),
            yaml=gr.HTML(),
            upload=gr.UploadButton(
                _("Load settings from a file"),  # type: ignore[arg-type]
                file_types=[".yaml", ".yml", ".json"],
                size="sm",
            ),
            refused=gr.HTML(elem_id="train-file-refused"),
        )


def wire_train_form(
    services: Services, tab: gr.Tab, made: TrainForm, files: FormFiles, disk: gr.HTML, plan: gr.HTML
) -> None:
    """Choices, presets, the command, file and plan that follow the form, and a file that fills it."""
    form, settings, registry = made.fields, services.settings, services.registry

    def load(path: str, request: gr.Request) -> list[Any]:
        """The form as the file has it, and what of the file is read otherwise."""
        config, notes = parse_training_arguments(["--config", path])
        return [*form_updates(config, form), remarks(notes, request_locale(request))]

    tab.select(_refresher(registry), None, [form["base_model"], form["language"]], **QUIET)
    described = [files.command, files.launch, files.yaml, disk, made.start.refused]
    describe = _describer(settings, fields_of(form))
    told = follow_form(form, describe, described, tab.select, is_filled=True, **QUIET)
    # Clips are counted and earlier runs looked at: the command does not wait for that.
    told.then(planner(services), inputs_kwargs=form, outputs=plan, trigger_mode="always_last", **QUIET)
    loaded = told_in(files.refused, load, [*form.values(), files.refused])
    files.upload.upload(**loaded, inputs=files.upload, **LATEST)
    _wire_preset(registry, made)


def _refresher(registry: ModelRegistry) -> Callable[..., Any]:
    """A handler that gives the choices of models and languages, in the visitor's language."""

    def refresh(request: gr.Request) -> list[Any]:
        """What can be trained now, and the languages."""
        locale = request_locale(request)
        bases = [
            spec
            for spec in models_for(registry, request)
            if spec.kind in (ModelKind.BASE, ModelKind.MERGED) and not spec.problem
        ]
        return [gr.update(choices=model_choices(bases, locale)), gr.update(choices=language_choices(locale))]

    return refresh


def _describer(settings: Settings, fields: Fields) -> Callable[..., Any]:
    """A handler that says what the form says: as a command, as what is started, as files; and the disk."""

    def describe(request: gr.Request, **values: Any) -> list[Any]:
        """The form as commands and files, or what is wrong with it."""
        locale = request_locale(request)
        disk = disk_note(free_bytes(settings.runs), locale)
        try:
            config = form_config(values)
        except StudioError as error:
            return ["", "", "", disk, refusal(error, fields, locale)]
        return [
            command_line(config),
            launch_command(config, "RUN_DIR"),
            download_links(run_files(config, settings), "whisper-training", locale),
            disk,
            "",
        ]

    return describe


def _wire_preset(registry: ModelRegistry, made: TrainForm) -> None:
    """A preset fills in what it decides and leaves the rest of the form alone."""

    def fill(key: str, base_model: str, request: gr.Request) -> list[Any]:
        """The preset's options; the others stay."""
        del request
        if not key:
            return [gr.skip() for _name in made.fields]
        config = preset_config(key, base_model, registry)
        return [
            shown_value(getattr(config, name)) if name in PLAN_OPTIONS else gr.skip() for name in made.fields
        ]

    filled = told_in(made.preset_refused, fill, list(made.fields.values()))
    made.preset.input(**filled, inputs=[made.preset, made.fields["base_model"]], **LATEST)
