"""What every way of transcribing asks for: the model, the language, the task, and a clip to try."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
from gradio.blocks import Block

from studio.dataset.audio import SAMPLING_RATE, VIDEO_FILES, save_sound
from studio.options.choices import TIMESTAMPS
from studio.registry.spec import ModelSource
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.settings import DEMO_SPEECH
from studio.translation import N_
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import LATEST, QUIET, offered
from studio.ui.shared.forms import choices_of, languages_at_first
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import option_field
from studio.ui.shared.views import model_choices
from studio.ui.shared.visitors import models_for

NO_MODEL = N_("No model is chosen yet: wait until the list is there, or type one in.")
_SAMPLES = {
    "kitchen-light.flac": _("Kitchen light"),
    "long.ogg": _("Long"),
    "silence.flac": _("Silence"),
}
"""File of a sample → what its button says."""


def recording_field(longest_seconds: float, prefix: str = "transcribe") -> gr.Audio:
    """Where a file or the microphone's sound goes, with the clips that come with the studio below it."""
    audio = gr.Audio(
        sources=["upload", "microphone"],
        type="filepath",
        label=_("Recording"),
        elem_id=f"{prefix}-audio",
        # The browser brings a recording to this rate before it uploads it: no model hears more of it, and
        # 44,100 Hz would be encoded, sent and converted back before anybody reads a word.
        waveform_options={"show_recording_waveform": True, "sample_rate": SAMPLING_RATE},
        buttons=["download"],
    )
    gr.Markdown(
        _("Browsers allow the microphone only on https and on this machine (localhost)."),
        elem_classes=["subdued", "insecure-only"],
    )
    sample_buttons(audio)
    video_button(audio, longest_seconds)
    return audio


def video_button(audio: Block, longest_seconds: float) -> None:
    """Puts the sound of a video where a recording goes: that field takes nothing that is no sound.

    What is dropped there and is none comes here, too (`other_files.js`).
    """

    def sound_of(video: str, request: gr.Request) -> str:
        """The sound of a video, as a file beside it."""
        del request
        path = Path(video)
        return str(save_sound(path, path.with_suffix(".flac"), longest_seconds))

    button = gr.UploadButton(
        _("Sound of a video …"),  # type: ignore[arg-type]
        file_types=list(VIDEO_FILES),
        type="filepath",
        size="sm",
        elem_id=f"{audio.elem_id}-film",
        elem_classes="video-button",
    )
    gr.HTML(
        _("That is neither sound nor video: give a recording, or a video of which the sound is taken."),
        elem_id=f"{audio.elem_id}-neither",
    )
    refused = gr.HTML(elem_classes="refused")
    button.upload(**told_in(refused, sound_of, [audio]), inputs=button, **LATEST)


def sample_buttons(audio: Block) -> None:
    """A button a sample clip, which puts it where a recording goes."""
    # One after the other, in the order of the clicks: the last one counts.
    in_turn = {**QUIET, "concurrency_limit": 1, "concurrency_id": "samples"}
    with gr.Row(elem_classes="samples"):
        gr.HTML(_("Or a sample:"), elem_classes="subdued", scale=0, min_width=86)
        for name, title in _SAMPLES.items():
            path = functools.partial(str, DEMO_SPEECH / "samples" / name)
            gr.Button(title, size="sm", min_width=90).click(path, None, audio, **in_turn)


class ModelChoice(NamedTuple):
    """The model with which the whole tab transcribes; what `choices` fills."""

    field: gr.Dropdown
    known: gr.State
    """Runs whose models the visitor has been offered: what was trained since is chosen when the tab opens."""


def model_choice(registry: ModelRegistry, tab: gr.Tab) -> ModelChoice:
    """One for all sections of `tab`; a folder or Hub id may be typed in."""
    with gr.Row(elem_id="transcribe-with"):
        field = gr.Dropdown(
            [(_("Demo model"), DEMO_ID)],
            value=DEMO_ID,
            label=_("Model"),
            info=_("From the list, or a folder or Hub id."),
            interactive=True,
            allow_custom_value=True,
            scale=2,
            min_width=300,
            elem_id="transcribe-model",
        )
        with gr.Column(scale=3, min_width=320):
            gr.Markdown(
                _(
                    "Say to the demo model “turn on the kitchen light” or “set a timer for ten minutes”; to "
                    "one that was trained on the demo speech, “captain reboot the airlock”. They know a "
                    "few commands, learned from a speech synthesizer, and may mishear you. For everyday "
                    "speech choose a released model: it is downloaded at its first use."
                ),
                elem_classes="subdued",
            )
    model = ModelChoice(field, gr.State([]))

    def refresh(chosen: str | None, known: list[str], request: gr.Request) -> list[Any]:
        """The models to choose from, and the one that is chosen."""
        return choices(registry, chosen, known, request)

    tab.select(refresh, [*model], [*model], **QUIET)
    return model


def language_and_task(prefix: str = "transcribe") -> dict[str, Block]:
    """What is spoken and what is to be written, side by side."""
    with gr.Row():
        known = languages_at_first()
        language = option_field("language", prefix, choices=known, info=None, min_width=140)
        task = option_field("task", prefix, min_width=140)
    return {"language": language, "task": task}


def timestamps_field(prefix: str = "transcribe") -> Block:
    """How fine the times are."""
    rising = choices_of({name: TIMESTAMPS[name] for name in ("segment", "word", "none")})
    return option_field("timestamps", prefix, choices=rising, value="word", choose=gr.Radio)


def choices(registry: ModelRegistry, model: str | None, known: list[str], request: gr.Request) -> list[Any]:
    """Values for `ModelChoice.all`.

    The choice made before stays, under the name that it has now, unless a model was trained since: one that
    was merged, or bears another name now, is none.
    """
    specs = [spec for spec in models_for(registry, request) if not spec.problem]
    ids = [spec.id for spec in specs]
    made = [spec for spec in specs if spec.source is ModelSource.TRAINED]
    trained = {str(s.card.get("run_id", s.id)): s.id for s in made if not s.card.get("source")}
    new = [model_id for run, model_id in trained.items() if run not in known]
    chosen = new[0] if new else registry.called_now(model or "")
    kept = chosen if chosen and registry.has(chosen) else DEMO_ID if DEMO_ID in ids else None
    return [offered(model_choices(specs, request_locale(request)), kept, model), list(trained)]
