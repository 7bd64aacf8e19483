"""A Space that lets others try a model: a page of its own, with the model's files beside it."""

from importlib.metadata import version
from typing import Any

from studio.publishing.card import heading_of, hub_base, model_card, spoken
from studio.registry.spec import ModelKind, ModelSpec

FOLDER = "model"
"""Where the model's files lie in the Space."""
_PYTHON = "3.12"
_WITH_TRANSFORMERS = ("transformers", "torch", "numpy", "av")
_LIBRARIES = {
    ModelKind.ADAPTER: (*_WITH_TRANSFORMERS, "peft"),
    ModelKind.EXPORT: ("faster-whisper",),
}


def space_files(spec: ModelSpec, repo_id: str, license: str) -> dict[str, bytes]:
    """Name → content of what makes a Space of a model, its own files left out."""
    libraries = _LIBRARIES.get(spec.kind, _WITH_TRANSFORMERS)
    requirements = "".join(f"{name}=={version(name).partition('+')[0]}\n" for name in libraries)
    texts = {
        "README.md": _readme(spec, repo_id, license),
        "app.py": _app(spec),
        "requirements.txt": requirements,
    }
    return {name: text.encode() for name, text in texts.items()}


def _readme(spec: ModelSpec, repo_id: str, license: str) -> str:
    from huggingface_hub import ModelCard, SpaceCardData

    about = ModelCard(model_card(spec, repo_id, license))
    told: dict[str, Any] = {"colorFrom": "indigo", "colorTo": "green", "python_version": _PYTHON}
    data = SpaceCardData(
        title=heading_of(spec),
        sdk="gradio",
        sdk_version=version("gradio"),
        app_file="app.py",
        license=about.data.get("license"),
        models=[hub_base(spec)] if hub_base(spec) else None,
        **told,
    )
    text = about.text.partition("\n## Use\n")[0]  # which is for who has the model alone
    return f"---\n{data.to_yaml()}\n---\n{text}"


def _app(spec: ModelSpec) -> str:
    if spec.kind is ModelKind.EXPORT:
        return _FASTER_WHISPER.replace("TITLE", repr(heading_of(spec)))
    is_adapter = spec.kind is ModelKind.ADAPTER
    base = repr(hub_base(spec)) if is_adapter else "MODEL"
    app = _TRANSFORMERS.replace("BASE", base).replace("TITLE", repr(heading_of(spec)))
    app = app.replace(", LANGUAGE", spoken(spec))
    return app if is_adapter else "".join(line for line in app.splitlines(True) if "Peft" not in line)


_TRANSFORMERS = '''\
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
    samples = read(audio)
    heard = {"raw": samples, "sampling_rate": 16000}
    is_long = len(samples) > 30 * 16000
    return listen(heard, return_timestamps=is_long, LANGUAGE)["text"].strip()


gr.Interface(
    transcribe,
    gr.Audio(label="Speech", type="filepath"),
    gr.Textbox(label="Text"),
    title=TITLE,
    api_name="transcribe",
).launch()
'''
_FASTER_WHISPER = '''\
"""Speak, or choose a recording, and read what the model hears."""

from pathlib import Path

import gradio as gr
from faster_whisper import WhisperModel

model = WhisperModel(str(Path(__file__).with_name("model")))


def transcribe(audio):
    if audio is None:
        return ""
    segments, _ = model.transcribe(audio)
    return "".join(segment.text for segment in segments).strip()


gr.Interface(
    transcribe,
    gr.Audio(label="Speech", type="filepath"),
    gr.Textbox(label="Text"),
    title=TITLE,
    api_name="transcribe",
).launch()
'''
