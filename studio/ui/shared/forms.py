"""The form of a training run, made from `TrainingConfig`: one component a field, under the field's name."""

import re
from collections.abc import Mapping
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.options.arguments import config_from_dict, write_yaml
from studio.options.choices import ALL_LINEAR
from studio.options.training import FIELDS, GROUPS, TrainingConfig
from studio.reports.language_names import language_choices
from studio.runs.manager import with_absolute_paths
from studio.settings import Settings
from studio.training.distributed.slurm import slurm_script
from studio.ui.shared.i18n import _

LABELS = {name: _(f.metadata["label"]) for name, f in FIELDS.items()}


def field_component(name: str, **more: Any) -> Block:
    """The component for one field, with the schema's help, choices and default."""
    f = FIELDS[name]
    default: Any = f.default
    common = {"label": LABELS[name], "info": _help(name), "elem_id": f"train-{name}", **more}
    if f.metadata["choices"]:
        if f.metadata["is_list"]:
            common["allow_custom_value"] = True  # several of them, separated by commas
        return gr.Dropdown(choices_of(f.metadata["choices"]), value=default, **common)
    if isinstance(default, bool):
        return gr.Checkbox(value=default, **{"min_width": 180, **common})
    if f.metadata["automatic"]:
        common["info"] = _(f.metadata["automatic"])
    if f.type in (int, int | None):
        return gr.Number(value=default or 0, **common)
    if f.type in (float, float | None):
        step = {"step": f.metadata["step"]} if f.metadata["step"] else {}
        return gr.Number(value=default or 0, **step, **common)
    return gr.Textbox(value=shown_value(default), max_lines=1, **common)


def choices_of(choices: Mapping[str, str]) -> list[tuple[Any, str]]:
    """Label and value of each word that an option may be; fp16 and the like are called so everywhere."""
    return [(value if label == value else _(label), value) for value, label in choices.items()]


def languages_at_first() -> list[tuple[Any, str]]:
    """Every language, until the server has named them in the visitor's; what is chosen at first is so now."""
    return [(_("Automatic"), "auto"), *language_choices("en")[1:]]


def _help(name: str) -> Any:
    """The schema's sentence about a field; None where it only says the label once more."""
    label, sentence = (FIELDS[name].metadata[text] for text in ("label", "help"))
    said, more = (set(re.findall(r"\w+", text.lower())) for text in (label, sentence))
    return _(sentence) if more - said else None


def shown_value(value: Any) -> Any:
    """What a component shows for a field's value: lists as text, no limit and no choice as 0."""
    if value is None:
        return 0
    if isinstance(value, (tuple, list)):
        return "all-linear" if tuple(value) == ALL_LINEAR else ", ".join(value)
    return value


def folded_groups(form: dict[str, Block]) -> None:
    """Adds the fields that are not in `form` yet, a folded section a group, two columns wide."""
    for group, title in GROUPS.items():
        names = [name for name, f in FIELDS.items() if f.metadata["group"] == group and name not in form]
        with gr.Accordion(_(title), open=False):
            for left in range(0, len(names), 2):
                with gr.Row(equal_height=True):
                    for name in names[left : left + 2]:
                        form[name] = field_component(name, min_width=200)


def form_config(values: Mapping[str, Any]) -> TrainingConfig:
    """The run that the form describes; 0 stands for None where a number may be missing.

    Raises:
        ConfigError: if a value cannot be used.
    """
    optional = {name for name, f in FIELDS.items() if f.type in (int | None, float | None)}
    return config_from_dict(
        {name: None if name in optional and not value else value for name, value in values.items()}
    )


def form_updates(config: TrainingConfig, form: Mapping[str, Block]) -> list[Any]:
    """Values that set every component of the form to `config`."""
    return [shown_value(getattr(config, name)) for name in form]


def run_files(config: TrainingConfig, settings: Settings) -> dict[str, str]:
    """The run as files, ending → content: its settings and, for several processes, a job for a cluster."""
    files = {"yaml": write_yaml(config)}
    if config.is_distributed:
        files["slurm"] = slurm_script(with_absolute_paths(config), settings.home, settings.working_dir)
    return files
