"""Fit for me: a GPU, a model and hours of speech in, the best run out, with the ladder that leads to it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.estimate import remedies
from studio.actions.fit import AUTO, FIELDS, FitAnswer, FitQuestion, find_fit
from studio.actions.presets import PRESETS, Preset, preset, preset_answers
from studio.memory.fit import cards_for
from studio.memory.gpus import usable_bytes, verdict
from studio.memory.myths import claims
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html, join, tag
from studio.reports.pieces import note
from studio.translation import N_, said
from studio.ui.memory.form import PlanSection, gpu_field, share_choices, wire_answers
from studio.ui.memory.views import (
    cards_view,
    claim_view,
    claims_view,
    ladder_view,
    models_view,
    no_fit,
    presets_view,
    savings_view,
)
from studio.ui.shared.following import LATEST, QUIET, copyable, follow_models
from studio.ui.shared.forms import component
from studio.ui.shared.handover import handed, handover
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.links import plan_link
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.views import memory_verdict, model_choices

_OWN = ""
_ANY_MODEL = N_("Automatic: the most accurate that fits")


def build_fit(registry: ModelRegistry, receipts: Path, tab: gr.Tab) -> PlanSection:
    """The section's content; it answers at every change of a value.

    `receipts` is the folder of what was measured on this machine.
    """
    with gr.Row(elem_classes="fit-row"):
        with gr.Column(scale=2, min_width=300):
            choice = gr.Dropdown(
                [(_("Custom"), _OWN), *((_(row.title.template), row.key) for row in PRESETS)],
                value=_OWN,
                label=_("Preset"),
                elem_id="fit-preset",
            )
            form = _form(registry)
            told = gr.HTML(elem_id="fit-claim")
        with gr.Column(scale=3, min_width=320):
            head = gr.HTML(elem_id="fit-verdict")
            use = handover("fit-use")
            figures = [gr.HTML(elem_id=f"fit-{name}") for name in ("ladder", "more")]
            command = copyable(_("This run on the command line"), "fit-command", lines=2)
            answers = [head, *figures, command, gr.HTML(elem_id="fit-links")]  # as `_show` gives them
    share_choices(tab, form)
    section = PlanSection(form, use)
    follow_models(registry, tab, form["base_model"], (_ANY_MODEL, AUTO))
    wire_answers(section, answers, tab, _answerer(registry, receipts), **QUIET)
    _wire_presets(choice, told, form)
    return section


def _form(registry: ModelRegistry) -> dict[str, Block]:
    """Components under the names of `FitQuestion`."""
    form: dict[str, Block] = {"gpu": gpu_field(elem_id="fit-gpu"), "memory_gib": _field("memory_gib")}
    models = [(_(_ANY_MODEL), AUTO), *model_choices(registry.all(), "en")]
    form["base_model"] = _field("base_model", choices=models, info=None, allow_custom_value=True)
    form["hours"] = _field("hours")
    form["method"] = _field("method", info=None)
    with gr.Row():
        form |= {name: _field(name, min_width=120) for name in ("effective_batch_size", "label_length")}
    return form


def _field(name: str, **more: Any) -> Block:
    return component(FIELDS[name], value=FIELDS[name].default, **{"elem_id": f"fit-{name}", **more})


def _question(values: Mapping[str, Any]) -> FitQuestion:
    return FitQuestion(**{**values, **{name: values[name] or 0 for name in ("memory_gib", "hours")}})


def _answerer(registry: ModelRegistry, receipts: Path) -> Callable[..., list[Any]]:
    """A handler that finds the best run for the question."""

    def answer(request: gr.Request, **values: Any) -> list[Any]:
        """The best run, beside the presets."""
        locale, question = request_locale(request), _question(values)
        found = find_fit(question, registry, receipts)
        return _show(found, known(), plan_link(question, request, locale), locale)

    @cache
    def known() -> tuple[tuple[Preset, FitAnswer], ...]:
        """The presets with the runs that fit."""
        # Cards of the table do not change while the page is up.
        return preset_answers(registry)

    return answer


def _wire_presets(choice: gr.Dropdown, told: gr.HTML, form: dict[str, Block]) -> None:
    """A ready-made question fills the form; its note stays until another is taken."""

    def fill(key: str, request: gr.Request) -> list[Any]:
        """The preset's claim, and its question in the form."""
        if key == _OWN:
            return ["", *[gr.skip() for _name in form]]
        row = preset(key)
        values = {name: getattr(row.question, name) for name in form}
        values["gpu"] = row.question.gpu or gr.skip()
        return [claim_view(row.claim, request_locale(request)), *values.values()]

    choice.input(fill, choice, [told, *form.values()], **LATEST)


def _show(answer: FitAnswer, known: Sequence[tuple[Preset, FitAnswer]], link: Html, locale: str) -> list[Any]:
    result = answer.result
    estimate = result.estimate
    usable = usable_bytes(answer.gpu)
    head = memory_verdict(
        verdict(estimate, usable),
        answer.gpu.name,
        usable,
        estimate,
        remedies(result.plan.batch_size, answer.config),
        locale,
    )
    more = [
        models_view(answer.models, answer.base_model, locale),
        cards_view(cards_for(result.elsewhere), locale),
        presets_view(known, locale),
        claims_view(claims(), locale),
    ]
    rows = json.dumps(answer.to_json(), indent=2, ensure_ascii=False)
    return [
        join(
            [
                head if result.fits else no_fit(result, usable, locale),
                note(said(answer.advice.reason, locale)),
            ]
        ),
        join([ladder_view(result, locale), savings_view(result.savings, locale)]),
        join(more),
        answer.command if result.fits else "",
        tag("div", link, download_links({"json": rows}, "whisper-fit", locale), class_="downloads"),
        *handed(answer.config if result.fits else None),
    ]
