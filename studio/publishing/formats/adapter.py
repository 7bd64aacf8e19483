"""An adapter, which PEFT puts onto its base."""

from studio.publishing.companions import COMPANIONS
from studio.publishing.formats.model_form import ModelForm
from studio.registry.spec import ModelKind
from studio.translation import N_

LIBRARIES = ("transformers", "torch", "numpy", "av")
"""Of a Space that plays with transformers."""
SPACE_APP = '''\
"""Speak, or choose a recording, and read what the model hears."""

from pathlib import Path

import av
import gradio as gr
import numpy as np
from peft import PeftModel
from transformers import AutoProcessor, WhisperForConditionalGeneration, pipeline

MODEL = Path(__file__).with_name("model")
parts = AutoProcessor.from_pretrained(BASE)
model = WhisperForConditionalGeneration.from_pretrained(BASE)
model = PeftModel.from_pretrained(model, MODEL).merge_and_unload()
listen = pipeline(
    "automatic-speech-recognition",
    model,
    tokenizer=parts.tokenizer,
    feature_extractor=parts.feature_extractor,
)


def read(path):
    """Samples at 16 kHz of a recording of any kind."""
    resampler = av.AudioResampler("flt", "mono", 16000)
    with av.open(path) as file:
        frames = [*file.decode(audio=0), None]
        parts = [part.to_ndarray()[0] for frame in frames for part in resampler.resample(frame)]
    return np.concatenate(parts)


def transcribe(audio):
    if audio is None:
        return ""
    try:
        samples = read(audio)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise gr.Error("This file has no sound that can be read: choose a recording.") from error
    heard = {"raw": samples, "sampling_rate": 16000}
    is_long = len(samples) > 30 * 16000
    return listen(heard, return_timestamps=is_long, LANGUAGE)["text"].strip()
'''


class Adapter(ModelForm):
    """Its own matrices and configs alone."""

    label = N_("Adapter")
    kind = ModelKind.ADAPTER
    what = "An adapter"
    library = "peft"
    files = ("adapter_config.json", "adapter_model.safetensors", "generation_config.json", *COMPANIONS)
    use = (
        "transformers and PEFT",
        "python",
        """\
from peft import PeftModel
from transformers import AutoProcessor, WhisperForConditionalGeneration, pipeline

base = WhisperForConditionalGeneration.from_pretrained("{base}")
model = PeftModel.from_pretrained(base, "{name}").merge_and_unload()
parts = AutoProcessor.from_pretrained("{base}")
listen = pipeline("automatic-speech-recognition", model, tokenizer=parts.tokenizer,
                  feature_extractor=parts.feature_extractor)
print(listen("speech.wav"{language})["text"])""",
    )
    space_libraries = (*LIBRARIES, "peft")
    space_app = SPACE_APP
