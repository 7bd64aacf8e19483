"""What a model on the disk is to those who take it: by what name, which files, and for which programs."""

from studio.messages import Message
from studio.registry.spec import ModelKind
from studio.translation import N_


class ModelForm:
    """Of a form that nobody here knows. Page, card, publishing and commands to serve ask it."""

    label: str = N_("Export")
    """Its name on the page, in English; a key of the translations."""
    kind: ModelKind = ModelKind.FOREIGN
    """Of models in it."""
    title: str = ""
    """Behind the title of the model that it was made of, such as `merged`."""
    what: str = "A model"
    """How its card begins."""
    library: str = ""
    """As the Hub's `library_name` has it."""
    weights: str = ""
    """The file of its weights, unless they are safetensors, which tell their own length."""
    files: tuple[str, ...] = ()
    """Names, with wildcards, of what makes up such a model; nothing else of its folder is published."""
    use: tuple[str, str, str] = ("", "", "")
    """Who plays it, the language of the code that does, and the code: `{name}` is the model's name on the
    Hub, `{base}` its base's, `{language}` what tells transformers the language of an adapter."""
    proof_note: Message | None = None
    """How the proof was made, where others play it differently."""
    space_libraries: tuple[str, ...] = ()
    """What a Space needs beside Gradio."""
    space_app: str = ""
    """The part of a Space's program that hears: `gr` is Gradio, `transcribe` gives the text of a file; BASE
    and LANGUAGE are to be filled in. Empty if none can play it."""
    server: tuple[str, Message, str] | None = None
    """The only server that takes it: its name, what it takes, and its command with the `{place}` of the
    weights; None: those that the studio knows how to feed."""
