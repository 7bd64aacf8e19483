"""A Space that lets others try a model: a page of its own, with the model's files beside it."""

from importlib.metadata import version
from typing import Any

from studio.publishing.card import heading_of, hub_base, model_card, spoken
from studio.publishing.formats import form_of
from studio.registry.spec import ModelSpec

FOLDER = "model"
"""Where the model's files lie in the Space."""
_PYTHON = "3.12"
_PAGE = """

gr.Interface(
    transcribe,
    gr.Audio(label="Speech", type="filepath"),
    gr.Textbox(label="Text"),
    title=TITLE,
    api_name="transcribe",
).launch()
"""
"""What is shown, whatever form hears."""


def space_files(spec: ModelSpec, repo_id: str, license: str) -> dict[str, bytes]:
    """Name → content of what makes a Space of a model, its own files left out."""
    form = form_of(spec)
    requirements = "".join(f"{name}=={version(name).partition('+')[0]}\n" for name in form.space_libraries)
    app = form.space_app.replace("BASE", repr(hub_base(spec))).replace(", LANGUAGE", spoken(spec))
    texts = {
        "README.md": _readme(spec, repo_id, license),
        "app.py": app + _PAGE.replace("TITLE", repr(heading_of(spec))),
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
