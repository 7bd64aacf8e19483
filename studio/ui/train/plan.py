"""What a press on Start will do, beside the form and before anything runs."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from studio.actions.plan_run import RunForecast, plan_run
from studio.errors import StudioError
from studio.options.sources import DEMO
from studio.options.training import TrainingConfig
from studio.registry.store import DEMO_ID
from studio.reports.markup import Html, tag
from studio.reports.pieces import facts, note
from studio.services import Services
from studio.training.plan import rehearses
from studio.translation import N_, said, tr
from studio.ui.shared.forms import form_config
from studio.ui.shared.i18n import request_locale
from studio.ui.shared.visitors import services_for
from studio.ui.train.run_views import PHASE_NAMES


def plan_view(plan: RunForecast, config: TrainingConfig, locale: str) -> Html:
    """The figures, and what the run does one after the other."""
    is_demo = config.base_model == DEMO_ID and config.train_data == DEMO
    demo = N_("The demo model learns the demo speech, in about two minutes: watch its word error rate fall.")
    short = plan.verdict == "does_not_fit"
    timeless = N_("How long it takes is known after the first similar run.")
    warned = N_("That is more memory than is free here: the GPU memory tab finds settings that fit.")
    return tag(
        "div",
        tag("h2", tr("What Start will do", locale)),
        tag("p", tr(demo, locale)) if is_demo else None,
        facts([(said(name, locale), said(value, locale)) for name, value in plan.facts()]),
        tag("p", tr(timeless, locale), class_="subdued") if plan.is_timeless and not is_demo else None,
        note(tr(warned, locale), "warning") if short else None,
        note(said(plan.shared, locale), "warning") if plan.shared else None,
        tag("p", " → ".join(tr(PHASE_NAMES[phase], locale) for phase in _phases(config)), class_="subdued"),
        class_="run-plan",
    )


def _phases(config: TrainingConfig) -> list[str]:
    evaluates = config.evaluates
    phases = {
        "reading_data": True,
        "loading_model": True,
        "listening": rehearses(config) or config.distill,
        "evaluating": evaluates,
        "training": True,
        "saving": True,
        "checking": evaluates and config.capability_check,
    }
    return [phase for phase, is_done in phases.items() if is_done]


def planner(services: Services) -> Callable[..., Html]:
    """A handler that says what the form would start; nothing where the form cannot be started."""

    def plan(request: gr.Request, **values: Any) -> Html:
        """What the form's run would do."""
        try:
            config = form_config(values)
            found = plan_run(config, services_for(services, request))
            return plan_view(found, config, request_locale(request))
        except StudioError:  # it stands at the Start button
            return Html("")

    return plan
