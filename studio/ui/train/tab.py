"""A form that becomes a run, and the run as it goes: progress, curves, samples, log, history."""

from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.services import Services
from studio.settings import Settings
from studio.ui.shared.access import why_training_is_off
from studio.ui.shared.following import QUIET
from studio.ui.shared.i18n import _
from studio.ui.shared.visitors import can_log_in, is_owner
from studio.ui.train.data_doctor import build_data_doctor
from studio.ui.train.form import Start, build_form_files, build_train_form, wire_train_form
from studio.ui.train.record_sentences import build_recording_section
from studio.ui.train.run_comparison import build_run_comparison
from studio.ui.train.run_panel import RunPanel, build_run_panel
from studio.ui.train.runs import build_removal, wire_actions, wire_panel, wire_starts


def build_distill_section(*, is_off: bool) -> Start:
    """A folded section; its button starts a run of the form's base model on the form's audio."""
    with gr.Accordion(_("Faster on short clips, without texts"), open=False, elem_id="distill"):
        gr.Markdown(
            _(
                "Whisper pads every clip to 30 seconds. Self-distillation trains an adapter with "
                "which the base takes clips at their own length, several times faster. It needs audio "
                "like yours, without texts: a folder, a list of files or a manifest, as Training data "
                "above. Speed-up and difference from the base are measured at the end, on held-out "
                "clips."
            )
        )
        gr.Markdown(
            _(
                "Note: it also learns the base's mistakes, and is best on clips as long as those it "
                "was trained on. A few hundred clips are enough to begin with."
            ),
            elem_classes="subdued",
        )
        button = gr.Button(_("Distil for short audio"), interactive=not is_off, elem_id="distill-start")
        return Start(button, gr.HTML(elem_id="distill-refused"))


_POLL_SECONDS = 2.0


@dataclass(frozen=True)
class TrainTab:
    """What the page wires to its other parts."""

    form: dict[str, Block]
    filled: gr.HTML
    """What of the form another tab has filled in."""
    panel: RunPanel


def build_train_tab(services: Services, tab: gr.Tab) -> TrainTab:
    """The tab's content; returns what other parts of the page fill and listen to.

    Runs live in their folders, so page and handlers hold nothing of them.
    """
    settings = services.settings
    reason = why_training_is_off(settings)
    gr.Markdown(
        _("Fine-tune Whisper on your own recordings."),
        elem_classes="lead",
    )
    owned: list[Block] = []
    """What opens to the owner, once logged in; the first says to all others that training is off."""
    if reason:
        owned.append(gr.Markdown(_(reason), elem_classes="note note-warning"))
    with gr.Row(elem_classes="train-row"):
        with gr.Column(scale=2, min_width=300, elem_classes="form-column"):
            filled = gr.HTML(elem_id="train-filled")
            made = build_train_form(settings, tab, is_off=bool(reason), owned=owned)
            disk = gr.HTML(elem_id="train-disk")
            distill = build_distill_section(is_off=bool(reason))
            build_data_doctor(services, made.fields)
            if not reason or can_log_in(settings):
                with gr.Column(visible=not reason) as recording:
                    build_recording_section(settings, tab, made.fields)
                owned.append(recording)
            files = build_form_files()
        with gr.Column(scale=3, min_width=320, elem_classes="run-column"):
            plan = gr.HTML(elem_id="train-plan")
            panel = build_run_panel()
            build_run_comparison(services, tab)
            prune, remove = build_removal("prune"), build_removal("remove")
    timer = gr.Timer(_POLL_SECONDS)
    wire_train_form(services, tab, made, files, disk, plan)
    wire_panel(services, tab, timer, made.fields, panel)
    wire_starts(services, made.fields, panel, begin=made.start, distill=distill)
    wire_actions(services, panel, prune, remove)
    made.start.button.click(lambda: "", None, filled, **QUIET)
    if reason and can_log_in(settings):
        _wire_owner(settings, tab, owned, [made.start.button, distill.button])
    return TrainTab(made.fields, filled, panel)


def _wire_owner(settings: Settings, tab: gr.Tab, owned: list[Block], buttons: list[Block]) -> None:
    """Opens the form to the owner; whether they may is asked again of whatever is pressed."""

    def open_form(request: gr.Request) -> list[Any]:
        """Shows the owner what is closed to all others."""
        if not is_owner(settings, request):
            return [gr.skip()] * (len(owned) + len(buttons))
        sections = [gr.update(visible=True)] * (len(owned) - 1)
        return [gr.update(visible=False), *sections, *[gr.update(interactive=True)] * len(buttons)]

    tab.select(open_form, None, [*owned, *buttons], **QUIET)
