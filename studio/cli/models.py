"""`models`: what the Models tab does: list, show, rename, delete; and the card that would be published."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from studio.cli.output import done, give, say, show, show_json, table
from studio.cli.parsing import Parser
from studio.cli.serve import serving_script
from studio.errors import ConfigError
from studio.options.arguments import command_line, config_from_dict
from studio.publishing.card import model_card
from studio.publishing.findings import loss_of, unchecked_of
from studio.publishing.formats import exports_of, key_of
from studio.registry.catalog import find_released
from studio.registry.spec import ModelSource, ModelSpec
from studio.reports.forms_views import SEARCHES, form_rows, proof_of, recommendation, weights_of
from studio.reports.language_names import languages_of
from studio.services import Services
from studio.serving.commands import ways_to_serve
from studio.settings import Settings
from studio.training.learning_rate import gentler, learning_rate_for
from studio.translation import DEFAULT_LOCALE
from studio.units import format_bytes, local_time

SCHEMA_VERSION = 1
_ACTIONS = {"list": 0, "show": 1, "card": 1, "rename": 2, "delete": 1}
"""Action → how many names it takes."""
_FROM = {ModelSource.TRAINED: "made here"}


def parser() -> Parser:
    """`models list`, `show ID`, `card ID`, `rename ID NEW_ID`, `delete ID --yes`."""
    made = Parser("models", "List, show, rename and delete models; card prints a model's card.")
    made.action(_ACTIONS)
    made.add_argument("names", nargs="*", metavar="ID", help="The model; to rename, then its new id.")
    made.flag("yes", "Delete without being asked again.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Does one action."""
    given = parser().read(arguments)
    if _ACTIONS.get(given.action) != len(given.names):
        raise ConfigError(
            "models takes: list · show ID · card ID · rename ID NEW_ID · delete ID --yes; got {given!r}.",
            given=" ".join([given.action, *given.names]),
        )
    with Services.open(settings) as services:
        _act(services, given.action, given.names, given.yes, given.json)
    return 0


def _act(services: Services, action: str, names: Sequence[str], is_sure: bool, as_json: bool) -> None:
    registry = services.registry
    if action == "list":
        specs = registry.all()
        rows = [as_dict(spec) for spec in specs]
        give(as_json, {"schema_version": SCHEMA_VERSION, "models": rows}, lambda: _list(specs))
    elif action == "show":
        spec = registry.get(names[0])
        exports = exports_of(spec.id, registry.all())
        if as_json:
            ways = ways_to_serve(spec, registry.models, has_key=bool(services.settings.api_key))
            serve = [{"server": way.server, "note": str(way.note), "commands": way.commands} for way in ways]
            told = {"exports": list(map(_export, exports)), "serve": serve}
            show_json({"schema_version": SCHEMA_VERSION, **as_dict(spec), **told})
        else:
            show(_description(spec))
            if exports:
                show(f"\n{_exports(exports)}")
            if forms := forms_text(spec.card.get("forms")):
                show(f"\n{forms}")
            if not spec.problem:
                show(f"\n{serving_script(spec, registry.models, services.settings)}")
    elif action == "card":
        spec = registry.get(names[0])
        if spec.source not in (ModelSource.TRAINED, ModelSource.LOCAL):
            raise ConfigError("{model} was not made here, and has no card here.", model=spec.id)
        text = model_card(spec)
        give(as_json, {"schema_version": SCHEMA_VERSION, "card": text}, lambda: text)
    elif action == "rename":
        spec = registry.rename(names[0], names[1])
        done(f"{names[0]} is now {spec.id}.", as_json, **as_dict(spec))
    else:
        spec = registry.get(names[0])
        if not is_sure:
            raise ConfigError("Deleting {model} cannot be undone: add --yes to do it.", model=spec.id)
        registry.remove(spec.id)
        done(f"Deleted {spec.id}.", as_json, deleted=spec.id)


def as_dict(spec: ModelSpec) -> dict[str, Any]:
    """A row of the registry as JSON takes it."""
    row = dataclasses.asdict(spec) | {"is_local": spec.is_local, "card": dict(spec.card)}
    row["problem"] = str(spec.problem or "")
    return row | {"path": str(spec.path) if spec.path else None}


def _list(specs: Sequence[ModelSpec]) -> str:
    rows = [
        (
            spec.id,
            key_of(spec) or spec.kind.value,
            _FROM.get(spec.source, spec.source.value),
            spec.base_model or "",
            format_bytes(spec.size_bytes) if spec.size_bytes else "",
            str(spec.problem or ""),
        )
        for spec in specs
    ]
    return table(("ID", "KIND", "FROM", "BASE", "SIZE", "PROBLEM"), rows)


def _description(spec: ModelSpec) -> str:
    released = find_released(spec.id)
    facts = {
        "id": spec.id,
        "title": spec.title,
        "kind": spec.kind.value,
        "from": _FROM.get(spec.source, spec.source.value),
        "folder": str(spec.path or "not on this disk"),
        "base model": spec.base_model or "",
        "note": released.note if released else "",
        "languages": languages_of(spec, DEFAULT_LOCALE),
        "license": released.license if released else "",
        "size": format_bytes(spec.size_bytes) if spec.size_bytes else "",
        "made": local_time(spec.created),
        "problem": str(spec.problem or ""),
    }
    dimensions = dataclasses.asdict(spec.dimensions) if spec.dimensions else {}
    lines = {**{name: value for name, value in facts.items() if value}, **dimensions}
    width = max(map(len, lines)) + 2
    found = spec.card.get("capabilities")
    loss = loss_of(found)
    first = [str(told) for told in (loss, unchecked_of(found)) if told]
    if loss and (command := _gentler(spec)):
        say(f"Train it so: {command}")
    return "\n".join([*first, *(f"{name.ljust(width)}{value}" for name, value in lines.items())])


def _exports(exports: Sequence[ModelSpec]) -> str:
    """What was made of a model, with its proof."""
    rows = [
        (row.id, key_of(row), weights_of(row), format_bytes(row.size_bytes), str(proof_of(row) or ""))
        for row in exports
    ]
    return table(("EXPORT", "FORM", "WEIGHTS", "SIZE", "PROOF"), rows)


def _export(spec: ModelSpec) -> dict[str, Any]:
    proof = spec.card.get("parity")
    return {
        "id": spec.id,
        "format": key_of(spec),
        "quantization": weights_of(spec),
        "size_bytes": spec.size_bytes,
        "parity": proof[-1] if isinstance(proof, list) and proof else None,
    }


def forms_text(found: Any) -> str:
    """The table, what is recommended, and what stands in the way of the others; empty for a card without."""
    rows = form_rows(found)
    if not rows:
        return ""
    header = ("FORM", "WER", "CER", "LOSS (95 %)", "RTF", "MEMORY", "ON DISK")
    lines = [table(header, [cells for cells, problem in rows if problem is None])]
    lines += [f"{cells[0]}: {problem}" for cells, problem in rows if problem is not None]
    return "\n".join([*lines, SEARCHES, *(str(best) for best in [recommendation(found)] if best)])


def _gentler(spec: ModelSpec) -> str:
    """The command of the run that made a model, made gentler; empty where its card does not tell the run."""
    if not isinstance(values := spec.card.get("config"), Mapping) or spec.dimensions is None:
        return ""
    try:
        config = config_from_dict(values)
    except ConfigError:
        return ""
    return command_line(gentler(config, learning_rate_for(config, spec.dimensions.d_model)))
