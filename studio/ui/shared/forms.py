"""Forms that are made from a schema, one component an option under its name; above all the form of a run."""

import re
from collections.abc import Mapping
from dataclasses import Field
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.manifest import MOST_ROWS
from studio.options.arguments import config_from_dict, write_yaml
from studio.options.checks import check_between
from studio.options.choices import ALL_LINEAR
from studio.options.training import FIELDS, GROUPS, TrainingConfig
from studio.options.values import whole_number
from studio.reports.language_names import language_choices
from studio.runs.manager import with_absolute_paths
from studio.settings import Settings
from studio.training.distributed.slurm import slurm_script
from studio.ui.shared.i18n import _


def field_component(name: str, **more: Any) -> Block:
    """The component for an option of a run, at its default unless told."""
    f = FIELDS[name]
    return component(f, **{"value": shown_value(f.default), "elem_id": f"train-{name}", **more})


def component(f: Field[Any], *, value: Any, choose: Any = gr.Dropdown, **more: Any) -> Block:
    """The component for an option, with the schema's label, help and choices; it shows `value` at first."""
    step, choices = f.metadata["step"], more.pop("choices", choices_of(f.metadata["choices"]))
    told = {"value": value, "label": _(f.metadata["label"]), "info": _info(f), **more}
    if choices:
        # Of a list several may be typed in, separated by commas.
        several = {"allow_custom_value": True} if f.metadata["is_list"] else {}
        return choose(choices, **{**several, **told})  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return gr.Checkbox(**{"min_width": 180, **told})
    if isinstance(value, (int, float)):
        return gr.Number(**({"step": step} if step else {}), **told)
    return gr.Textbox(**{"max_lines": 1, **told})


def choices_of(choices: Mapping[str, str]) -> list[tuple[Any, str]]:
    """Label and value of each word that an option may be; fp16 and the like are called so everywhere."""
    return [(value if label == value else _(label), value) for value, label in choices.items()]


def languages_at_first() -> list[tuple[Any, str]]:
    """Every language, until the server has named them in the visitor's; what is chosen at first is so now."""
    return [(_("Automatic"), "auto"), *language_choices("en")[1:]]


def test_data_field(elem_id: str) -> gr.Textbox:
    """Where clips with their texts are named that models are measured on."""
    info = _("demo:test, a manifest, an audio folder, or a dataset of the Hub.")
    return gr.Textbox("demo:test", label=_("Test data"), info=info, max_lines=1, elem_id=elem_id)


def clips_at_most(given: Any) -> int:
    """How many of them count, as a field says it; 0: all.

    Raises:
        ConfigError: if it is no such number.
    """
    most = whole_number("max_samples", given)
    check_between("max_samples", most, 0, MOST_ROWS)
    return most


def _info(f: Field[Any]) -> Any:
    """The schema's sentence about an option; None where it only says the label once more."""
    label, sentence = f.metadata["label"], f.metadata["automatic"] or f.metadata["help"]
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
