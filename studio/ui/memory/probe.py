"""Measure: two real steps of the form's run on this machine, beside what was predicted for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.estimate import TRAIN, Question, shape_of, training_config
from studio.errors import StudioError
from studio.memory.gpus import detected_gpus
from studio.memory.receipts import CPU, Receipt
from studio.reports.markup import Html, tag
from studio.reports.pieces import note
from studio.services import Services
from studio.training.probe.question import ProbeQuestion
from studio.translation import N_, said, tr
from studio.ui.shared.access import require_machine
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import AT_ONCE, QUIET, UNCHECKED
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.run_memory import memory_comparison
from studio.ui.shared.visitors import services_for, settings_for

NOT_A_RUN = N_("Only a training run can be measured: choose Train it.")


@dataclass(frozen=True)
class ProbeSection:
    """Components of the measurement."""

    measure: gr.Button
    stop: gr.Button
    said: gr.HTML


def build_probe() -> ProbeSection:
    """The buttons, and where the figures will be."""
    with gr.Row(elem_classes="run-buttons"):
        measure = gr.Button(_("Measure two steps on this machine"), size="sm", elem_id="memory-measure")
        stop = gr.Button(
            _("Stop measuring"), variant="stop", size="sm", visible=False, elem_id="memory-measure-stop"
        )
    return ProbeSection(measure, stop, gr.HTML(visible=False, elem_id="memory-measured"))


def wire_probe(services: Services, form: dict[str, Block], probe: ProbeSection) -> None:
    """The measurement goes on in its own process; closing the page does not end it, its button does."""
    asked: set[object] = set()  # those who press, until they are answered

    def measure(request: gr.Request, **values: Any) -> Iterator[list[Any]]:
        """That it is at work, with a button to stop it, then what was measured."""
        locale = request_locale(request)
        asked.add(mine := object())
        try:
            yield [gr.update(visible=True), gr.update(value=_working(locale), visible=True)]
            shown = _measured(services_for(services, request), Question(**values), locale)
        except StudioError as error:
            shown = note(said(error, locale), "bad")
        except Exception:
            yield [gr.update(visible=False), ""]
            raise
        finally:
            asked.discard(mine)
        yield [gr.update(visible=services.prober.is_busy), shown]  # be it another's, or of a page before

    probe.measure.click(
        measure,
        inputs_kwargs=form,
        outputs=[probe.stop, probe.said],
        **{**QUIET, **UNCHECKED, "concurrency_limit": 2},
    )

    def stop(request: gr.Request) -> list[Any]:
        """Ends the measurement, for who may measure here."""
        require_machine(settings_for(services.settings, request))
        if not services.prober.is_busy:  # not yet, or not any more
            return [gr.skip(), gr.skip() if asked else gr.update(visible=False)]
        services.prober.stop()
        said = note(tr("The measurement was stopped.", request_locale(request)))
        return [said, gr.update(visible=False)]

    probe.stop.click(**told_in(probe.said, stop, [probe.said, probe.stop]), inputs=None, **AT_ONCE)


def _measured(services: Services, question: Question, locale: str) -> Html:
    require_machine(services.settings)
    if question.use != TRAIN:
        return note(tr(NOT_A_RUN, locale), "bad")
    dimensions = shape_of(question.base_model, services.registry)
    asked = ProbeQuestion(training_config(question), dimensions, question.label_length)
    receipt, _path = services.prober.measure(asked)
    return receipt_view(receipt, locale)


def _working(locale: str) -> Html:
    if detected_gpus():
        text = tr("Measuring: the model is made without a download and trained for two steps …", locale)
    else:
        text = tr(
            "No GPU: measuring on the processor. Two steps of a small model may take a minute …",
            locale,
        )
    return note(text)


def receipt_view(receipt: Receipt, locale: str) -> Html:
    """Predicted beside measured, and what it changes."""
    if receipt.is_out_of_memory:
        return note(
            tr("Memory ran out on {card}: this run does not fit there.", locale, card=receipt.card), "bad"
        )
    measured = {**receipt.measured, "device": receipt.card}
    bars = memory_comparison({"predicted": receipt.predicted, "measured": measured}, locale)
    if receipt.card == CPU:
        said = tr(
            "Predicted and measured for the processor in {precision}: tensors only. Its kernels keep other "
            "amounts than a GPU's (masks of dropout are four times as large), so this corrects no estimate.",
            locale,
            precision=receipt.plan.precision,
        )
    else:
        said = tr("Kept: estimates for this card are corrected by it from now on.", locale)
    return tag("div", bars, tag("p", said, class_="subdued"))
