"""A whole model as transformers has it: what is tuned, and what a tuning of all weights leaves."""

from studio.publishing.companions import COMPANIONS
from studio.publishing.formats.adapter import LIBRARIES, SPACE_APP
from studio.publishing.formats.model_form import ModelForm
from studio.registry.spec import ModelKind
from studio.translation import N_


class Whole(ModelForm):
    """Weights as safetensors, with configs and tokenizer."""

    label = N_("Base model")
    kind = ModelKind.BASE
    what = "A whole model"
    library = "transformers"
    files = (
        *("config.json", "generation_config.json", "processor_config.json", *COMPANIONS),
        *("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"),
    )
    use = (
        "transformers",
        "python",
        """\
from transformers import pipeline

print(pipeline("automatic-speech-recognition", "{name}")("speech.wav")["text"])""",
    )
    space_libraries = LIBRARIES
    space_app = "".join(line for line in SPACE_APP.splitlines(True) if "Peft" not in line).replace(
        "BASE", "MODEL"
    )
