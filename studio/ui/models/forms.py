"""The Models tab's answer to which form to deploy: all of them on the user's own clips."""

from dataclasses import replace
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.forms import Forms, compare_forms
from studio.errors import ConfigError
from studio.evaluation.compare import PLAIN, EvaluationRequest
from studio.options.choices import NORMALIZERS
from studio.registry.spec import ModelSpec
from studio.reports.forms_views import forms_table
from studio.reports.markup import join
from studio.reports.pieces import note, progress_bar
from studio.runs.confinement import require_own_data
from studio.services import Services
from studio.serving.waiting import Line
from studio.translation import N_, said, tr
from studio.ui.models.section import Section
from studio.ui.shared.access import require_own_models
from studio.ui.shared.following import QUIET, UNCHECKED, follow_languages, wire_work
from studio.ui.shared.forms import choices_of, clips_at_most, languages_at_first, test_data_field
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.tasks import Task, Tasks, tells_steps
from studio.ui.shared.visitors import settings_for

_FEW = 20
"""Clips, unless told: each form hears them, one after the other."""


def build_forms(choice: Block, services: Services) -> Section:
    """The form, hidden until a model is chosen that the studio plays."""
    with gr.Accordion(_("Which form should I deploy?"), open=False, visible=False) as section:
        gr.Markdown(
            _(
                "Every form that this machine can play hears the same clips: errors, speed, memory and size "
                "side by side. The result stays in the model's card."
            )
        )
        form: dict[str, Block] = {
            "data": test_data_field("models-forms-data"),
            "max_samples": gr.Number(
                _FEW, label=_("Clips at most"), info=_("0 = all."), elem_id="models-forms-clips"
            ),
            "language": gr.Dropdown(languages_at_first(), value="auto", label=_("Language")),
            "normalizer": gr.Dropdown(choices_of(NORMALIZERS), value="none", label=_("Text normalization")),
        }
        with gr.Row():
            start = gr.Button(_("Compare the forms"), size="sm", elem_id="models-forms")
            cancel = gr.Button(_("Cancel"), size="sm", elem_id="models-forms-cancel", elem_classes="outlives")
        status = gr.HTML(elem_id="models-forms-status")
        table = gr.HTML(elem_id="models-forms-table")
        is_filled = gr.State(False)
    tasks = Tasks(Line(at_once=1))

    def compare(request: gr.Request, model: str | None, **values: Any) -> Task[Any, Forms]:
        """The comparison that the form asks for, if who asks may have the model heard on the data."""
        own = settings_for(services.settings, request)
        require_own_models(own)
        require_own_data(own, values["data"] or "")
        if not model:
            raise ConfigError("No model is chosen: choose one, or two to compare them.")
        asked = EvaluationRequest(
            [model],
            values["data"] or "",
            max_samples=clips_at_most(values["max_samples"]) or None,
            options=replace(PLAIN, language=values["language"]),
            normalizer=values["normalizer"],
        )
        return _comparison(services, asked, request_locale(request))

    follow_languages(form["language"], section.expand)
    told = [status, table, is_filled]
    work = tasks.handler(compare, told, {"model": choice, "before": is_filled, **form})
    return Section(
        [section], told, wire_work([start.click], cancel, tasks.stops, **work, **QUIET, **UNCHECKED)
    )


def _comparison(services: Services, asked: EvaluationRequest, locale: str) -> Task[Any, Forms]:
    def finish(found: Forms, was_stopped: bool) -> list[Any]:
        """The table, and that it is not whole if it was cancelled."""
        some = N_("Cancelled: these are the forms measured so far.")
        ended = tr(some if found.rows else N_("Cancelled."), locale)
        table = forms_table(found.to_json(), locale) if found.rows else ""
        told = [
            note(ended, "warning") if was_stopped else None,
            note(said(found.what_stays, locale)) if found.what_stays else None,
        ]
        return [join(told), table, bool(found.rows)]

    return Task(
        work=lambda report, should_stop: compare_forms(
            services, asked, on_step=tells_steps(report), should_stop=should_stop
        ),
        begun=progress_bar(None, tr("Loading the models and the data …", locale)),
        finish=finish,
        others=2,
        engines=services.engines,
        outlives=True,
    )


def offers_forms(spec: ModelSpec | None) -> bool:
    """Whether there is something to compare."""
    return spec is not None and spec.is_played and not spec.problem
