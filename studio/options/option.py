"""An option of a run: a field that says all that form, command line, files and checks need to know of it."""

from collections.abc import Mapping
from dataclasses import Field, field
from types import MappingProxyType
from typing import Any


def option(
    group: str,
    default: Any,
    label: str,
    help: str,
    *,
    bounds: tuple[float, float] | None = None,
    choices: Mapping[str, str] = MappingProxyType({}),
    aliases: tuple[str, ...] = (),
    is_list: bool = False,
    for_trainer: bool = False,
    step: float | None = None,
    automatic: str = "",
    names: str = "",
    in_plan: bool = False,
    reteaches: bool = False,
    of_machine: bool = False,
    in_probe: Any = ...,
) -> Any:
    """A dataclass field. Its `group` is one of `studio.options.training.GROUPS`.

    `bounds` are the least and the greatest of a number; `choices` map each word that it may be to its label;
    `aliases` are flags of other scripts that mean the same; of a text that `is_list`, several are separated
    by commas. `step` is what a click in the form adds, `automatic` says there what an empty number stands
    for. What is `for_trainer`, `Seq2SeqTrainingArguments` takes as it is.

    A text `names` a `path`, a `model`, or `data`. What is `in_plan` a plan of the memory decides; what
    `reteaches` would have a student learn something else than what its teacher reads; what is `of_machine`
    may differ from machine to machine of a run. What two steps that are measured do not depend on says what
    it is `in_probe`.
    """
    metadata = {
        "group": group,
        "label": label,
        "help": help,
        "bounds": bounds,
        "choices": choices,
        "aliases": aliases,
        "is_list": is_list,
        "for_trainer": for_trainer,
        "step": step,
        "automatic": automatic,
        "names": names,
        "in_plan": in_plan,
        "reteaches": reteaches,
        "of_machine": of_machine,
        "in_probe": in_probe,
    }
    return field(default=default, metadata=metadata)


def explanation(f: Field[Any]) -> str:
    """What an option is, for those who do not see its help below its label."""
    label, sentence = f.metadata["label"], f.metadata["help"]
    return f"{label}. {sentence}".strip(". ") + "."
