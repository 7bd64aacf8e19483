"""Distillation for short audio on the Train tab: what it gains, what to watch, and the button."""

import gradio as gr

from studio.ui.i18n import _


def build_distill_section(*, is_off: bool) -> gr.Button:
    """A folded section; its button starts a run of the form's base model on the form's audio."""
    with gr.Accordion(_("Faster on short clips, without texts"), open=False, elem_id="distill"):
        gr.Markdown(
            _(
                "Whisper reads every clip filled up to 30 seconds. Here the base learns from itself to read "
                "clips as long as they are, several times faster; all it needs is audio like yours: a "
                "folder of sound files, a list of them or a manifest, as Training data above. The clips need "
                "no texts. The result is an adapter; what it gains and how far it is from the base is "
                "measured at the end, on clips that were kept back."
            )
        )
        gr.Markdown(
            _(
                "What to watch: it learns the base's mistakes, too, and it is best on clips as long as those "
                "it has learned from. A few hundred clips are enough to begin with."
            ),
            elem_classes="subdued",
        )
        return gr.Button(_("Distil for short audio"), interactive=not is_off, elem_id="distill-start")
