"""A plan as the part of an address after `?`: written into links, read when the page is opened by one."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from studio.actions.estimate import ASKED_OF, TRAIN, TRANSCRIBE, Question, gpu_named, precisions
from studio.actions.fit import AUTO, FitQuestion
from studio.errors import ConfigError
from studio.options.choices import ENGINES, METHOD_LABELS
from studio.options.training import FIELDS
from studio.reports.markup import Html, tag
from studio.translation import tr

SECTION = "section"
FIT = "fit"
_LONGEST = 1000
_CHOICES: dict[str, Collection[str]] = {
    **{name: f.metadata["choices"] for name, f in FIELDS.items() if f.metadata["choices"]},
    "use": (TRAIN, TRANSCRIBE),
    "engine": ENGINES,
}


def link_query(question: Question | FitQuestion) -> str:
    """What opens the page with this question: what is not at its default."""
    if isinstance(question, FitQuestion):
        defaults: Any = FitQuestion()
        names = [f.name for f in fields(question)]
        section = {SECTION: FIT}
    else:
        defaults, names, section = Question(""), list(ASKED_OF[question.use]), {}
    values = {name: getattr(question, name) for name in names}
    return urlencode(section | {k: value for k, value in values.items() if value != getattr(defaults, k)})


def linked_values(query: Mapping[str, str]) -> tuple[str, dict[str, str | int | float | bool]]:
    """The section of the page that an address names (or nothing), and the values for its form.

    Raises:
        ConfigError: if a value is none that the form could have.
    """
    section = query.get(SECTION, "")
    kind = FitQuestion if section == FIT else Question
    kinds = {f.name: f.type for f in fields(kind)}
    known = ("auto", *precisions(query.get("use", TRAIN), query.get("engine", "transformers")))
    choices = _CHOICES | {"precision": known} | ({"method": (AUTO, *METHOD_LABELS)} if section == FIT else {})
    values = {name: _value(name, kinds[name], text, choices) for name, text in query.items() if name in kinds}
    return section, values


def _value(
    name: str, kind: object, text: str, choices: Mapping[str, Collection[str]]
) -> str | int | float | bool:
    if kind is bool and text in ("True", "False"):
        return text == "True"
    if kind is int and re.fullmatch(r"[0-9]{1,7}", text):
        return int(text)
    if kind is float and re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,17})?(e-[0-9]{1,3})?", text):
        return float(text)
    if kind is str and len(text) <= _LONGEST and name == "gpu":
        return gpu_named(text).name
    if kind is str and len(text) <= _LONGEST and text in choices.get(name, (text,)):
        return text
    raise ConfigError("The link has an invalid value, {name}={value!r}.", name=name, value=text[:80])


def plan_link(question: Question | FitQuestion, request: gr.Request, locale: str) -> Html:
    """A link to the page as this visitor sees it, with the question filled in; a press copies its address."""
    referer = request.headers.get("referer", "") if hasattr(request, "headers") else ""
    page = referer.partition("?")[0].partition("#")[0] if referer.startswith("http") else "/"
    address = f"{page}?{link_query(question)}"
    label, copied = tr("Copy the link to this plan", locale), tr("Copied", locale)
    return tag("a", label, href=address, data_copied=copied, class_="studio-download plan-link")
