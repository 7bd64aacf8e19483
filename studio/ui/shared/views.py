"""Models and memory as the visitor sees them: domain value and locale in, HTML out. Pure functions."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from studio.memory.plan import MemoryEstimate
from studio.messages import Message
from studio.publishing.findings import loss_of, unchecked_of
from studio.publishing.formats import form_of
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions, ModelKind, ModelSource, ModelSpec
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.reports.forms_views import exports_table, forms_table
from studio.reports.language_names import languages_of
from studio.reports.markup import Child, Html, table, tag
from studio.reports.pieces import badge, button, definition_list, folded, note
from studio.translation import N_, OurName, paragraph, said, tr
from studio.ui.shared.charts import PART_COLOURS
from studio.ui.shared.short_audio_views import short_audio_table
from studio.units import format_bytes, format_percent, local_time

PART_NAMES = {
    "weights_trainable": N_("Trainable weights"),
    "weights_frozen": N_("Frozen weights"),
    "weights_quantized": N_("Quantized weights"),
    "weight_casts": N_("Copies of weights in half precision"),
    "gradients": N_("Gradients"),
    "optimizer_states": N_("Optimizer states"),
    "activations": N_("Activations"),
    "logits_and_loss": N_("Logits and loss"),
    "temporaries": N_("Temporaries"),
    "overhead": N_("CUDA context and allocator slack"),
}
"""Part of a memory estimate → its name; the keys are those of `studio.memory.plan.Part`."""

SOURCE_NAMES = {
    ModelSource.DEMO: N_("Comes with the studio"),
    ModelSource.RELEASED: N_("Not downloaded"),
    ModelSource.DOWNLOADED: N_("Downloaded"),
    ModelSource.TRAINED: N_("Made here"),
    ModelSource.LOCAL: N_("Local folder"),
}
DIMENSION_NAMES = {
    "d_model": N_("Width (d_model)"),
    "encoder_layers": N_("Encoder layers"),
    "decoder_layers": N_("Decoder layers"),
    "encoder_attention_heads": N_("Encoder heads"),
    "decoder_attention_heads": N_("Decoder heads"),
    "encoder_ffn_dim": N_("Encoder feed-forward width"),
    "decoder_ffn_dim": N_("Decoder feed-forward width"),
    "vocab_size": N_("Vocabulary"),
    "num_mel_bins": N_("Mel bins"),
    "max_source_positions": N_("Encoder positions"),
    "max_target_positions": N_("Decoder positions"),
}


def part_names(locale: str) -> dict[str, str]:
    """Part → its name in the visitor's language."""
    return {part: tr(name, locale) for part, name in PART_NAMES.items()}


# ---------------------------------------------------------------------- memory

_VERDICTS = {
    "fits": (N_("Fits on {gpu}"), "good"),
    "tight": (N_("Tight on {gpu}"), "warning"),
    "does_not_fit": (N_("Does not fit on {gpu}"), "bad"),
}
_ROOM = N_("There is room to spare at the upper end of the range.")
_TIGHT = N_("It may run out of memory.")


def memory_verdict(
    verdict: str,
    gpu: str,
    usable_bytes: int,
    estimate: MemoryEstimate,
    helps: Message,
    locale: str,
) -> Html:
    """The answer in one card: does it fit, how much, of how much, what helps, and what corrected it."""
    corrected = tr("Corrected by measurements on this card: {count}.", locale, count=estimate.measurements)
    title, kind = _VERDICTS[verdict]
    amount = tr(
        "about {size}, between {low} and {high}",
        locale,
        size=format_bytes(estimate.device_bytes),
        low=format_bytes(estimate.low_bytes),
        high=format_bytes(estimate.high_bytes),
    )
    advice = [
        tr("{usable} of this GPU can be used.", locale, usable=format_bytes(usable_bytes)),
        *([tr(_TIGHT, locale)] if verdict == "tight" else ()),
        tr(_ROOM, locale) if verdict == "fits" else said(helps, locale),
    ]
    return tag(
        "div",
        tag("div", tr(title, locale, gpu=gpu), class_="verdict-title"),
        tag("div", amount, class_="verdict-amount"),
        tag("div", paragraph(advice, locale), class_="verdict-advice"),
        tag("div", corrected, class_="verdict-advice") if estimate.measurements else None,
        class_=f"verdict verdict-{kind}",
        role="status",
    )


def memory_table(parts: Mapping[str, int], formulas: Mapping[str, Message], locale: str) -> Html:
    """Part → bytes → how that was worked out."""
    names = part_names(locale)
    rows: list[list[Child]] = [
        [
            tag("span", names.get(part, part), class_="swatch", style=f"--part:{PART_COLOURS[part]}"),
            format_bytes(size),
            tag("code", said(formulas[part], locale) if part in formulas else "", class_="formula"),
        ]
        for part, size in parts.items()
        if size
    ]
    rows.append([tag("b", tr("Total", locale)), tag("b", format_bytes(sum(parts.values()))), ""])
    headers = [tr("Part", locale), tr("Memory", locale), tr("Calculation", locale)]
    return table(headers, rows, numeric=[1], class_="memory-table stacked")


# ---------------------------------------------------------------------- models


def models_table(specs: Sequence[ModelSpec], locale: str) -> Html:
    """All models; the name of each is a button that selects it."""
    columns = (N_("Model"), N_("Kind"), N_("Source"), N_("Size on disk"), N_("Errors"), N_("Created"))
    headers = [tr(text, locale) for text in columns]
    rows = [_model_row(spec, locale) for spec in specs]
    return table(headers, rows, numeric=[3, 4], class_="models-table stacked")


def _model_row(spec: ModelSpec, locale: str) -> list[Child]:
    title = _title(spec, locale)
    name = button(title, "link-button", data_pick=spec.id, aria_label=f"{title} ({spec.id})")
    below: list[Child] = [tag("div", spec.id, class_="subdued")] if spec.id != spec.title else []
    if spec.base_model:
        below.append(tag("div", tr("on {base}", locale, base=_name_of(spec.base_model)), class_="subdued"))
    if spec.problem:
        below.append(tag("div", said(spec.problem, locale), class_="problem"))
    kind = badge(tr("Broken", locale), "bad") if spec.problem else kind_of(spec, locale)
    return [
        tag("div", name, below),
        kind,
        tr(SOURCE_NAMES[spec.source], locale),
        format_bytes(spec.size_bytes) if spec.size_bytes else "",
        error_rate_of(spec),
        local_time(spec.created)[:10],
    ]


def kind_of(spec: ModelSpec, locale: str) -> str:
    """What a model is: one that was trained without an adapter is no base any more."""
    is_trained = spec.kind is ModelKind.BASE and spec.base_model
    return tr("Fine-tuned model", locale) if is_trained else tr(form_of(spec).label, locale)


def _title(spec: ModelSpec, locale: str) -> str:
    return known_name(spec.id, locale) if spec.source is ModelSource.DEMO else spec.title


def known_name(model: str | None, locale: str) -> str:
    """What the model of an id is called, as far as that is known without the others; empty of none."""
    name = _name_of(model)
    return OurName(said(name, locale)) if isinstance(name, Message) else name


def _name_of(model: str | None) -> Message | str:
    if model == DEMO_ID:
        return Message("Demo model")
    released = find_released(model or "")
    # Of what else a released model answers to, a model of one's own may have the name.
    return released.title if released and released.id == model else model or ""


def model_names(registry: ModelRegistry, locale: str) -> Callable[[str], str]:
    """Gives what the model of an id is called in the lists to choose from, also after it was renamed; of one
    that is gone, its id."""
    names = {model: name for name, model in model_choices(registry.all(), locale, to_run=False)}
    return lambda model: names.get(model) or names.get(registry.called_now(model), model)


def error_rate_of(spec: ModelSpec) -> str:
    """Errors of the finished model as its card has them, by the metric that counted; or nothing."""
    metrics = spec.card.get("metrics")
    final = metrics.get("final") if isinstance(metrics, Mapping) else None
    metric = "cer" if isinstance(metrics, Mapping) and metrics.get("metric") == "cer" else "wer"
    rate = final.get(metric) if isinstance(final, Mapping) else None
    return f"{format_percent(rate)} {metric.upper()}" if isinstance(rate, (int, float)) else ""


def loss_note(found: Mapping[str, Any] | None, locale: str) -> Html | None:
    """What a model has lost, by the check in its card or its run."""
    lost = loss_of(found)
    return note(said(lost, locale), "bad") if lost else None


def unchecked_note(found: Mapping[str, Any] | None, locale: str) -> Html | None:
    """What nobody knows of a model, by the check in its card."""
    unchecked = unchecked_of(found)
    return note(said(unchecked, locale)) if unchecked else None


def model_details(
    spec: ModelSpec, locale: str, *, exports: Sequence[ModelSpec] = (), is_public: bool = False
) -> Html:
    """Everything known about one model and what was made of it; strangers (`is_public`) are not told where it
    lies.
    """
    released = find_released(spec.id)
    pairs: list[tuple[str, Child]] = [
        (tr("Name", locale), tag("code", spec.id) if spec.id != spec.title else None),
        (tr("Kind", locale), kind_of(spec, locale)),
        (tr("Source", locale), tr(SOURCE_NAMES[spec.source], locale)),
        (tr("Base model", locale), known_name(spec.base_model, locale)),
        (tr("Languages", locale), languages_of(spec, locale)),
        (tr("Size on disk", locale), format_bytes(spec.size_bytes) if spec.size_bytes else None),
        (tr("Folder", locale), tag("code", str(spec.path)) if spec.path and not is_public else None),
        (tr("Created", locale), local_time(spec.created) or None),
    ]
    problem = note(said(spec.problem, locale), "bad") if spec.problem else None
    return tag(
        "div",
        tag("h2", _title(spec, locale)),
        tag("p", tr(released.note, locale)) if released else None,
        problem,
        loss_note(spec.card.get("capabilities"), locale),
        unchecked_note(spec.card.get("capabilities"), locale),
        definition_list(pairs),
        exports_table(exports, locale),
        _forms(spec, locale),
        _dimensions(spec.dimensions, locale),
        short_audio_table(spec.card.get("short_audio"), locale),
        _card({name: value for name, value in spec.card.items() if name != "forms"}, locale),
        class_="model-details",
    )


def _forms(spec: ModelSpec, locale: str) -> Html | None:
    """What a comparison of its forms has left, folded away: below the form it stands when it is made."""
    table = forms_table(spec.card.get("forms"), locale)
    return folded(tr("Comparison of its forms", locale), table) if table else None


def _dimensions(dimensions: ModelDimensions | None, locale: str) -> Html | None:
    if dimensions is None:
        return None
    pairs = [(tr(name, locale), f"{getattr(dimensions, key):,}") for key, name in DIMENSION_NAMES.items()]
    return folded(tr("Dimensions", locale), definition_list(pairs))


def _card(card: Mapping[str, Any], locale: str) -> Html | None:
    """The model's card, nested values as `a.b`."""
    if not card:
        return None
    pairs = [(name, value) for name, value in _flat(card) if name != "schema_version"]
    return folded(tr("Card (model.json)", locale), definition_list(pairs))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + key, ", ".join(str(item) for item in value)
        elif value not in (None, ""):
            yield prefix + key, f"{value:.6g}" if isinstance(value, float) else str(value)


def model_choices(specs: Sequence[ModelSpec], locale: str, *, to_run: bool = True) -> list[tuple[str, str]]:
    """Label and id of models for a dropdown: those on this disk first, as the registry has them; `to_run`:
    without what no engine of the studio plays.

    Those that would be called the same, such as two runs on the same data, have their ids as well.
    """
    shown = [spec for spec in specs if spec.is_played or not to_run]
    ordered = sorted(shown, key=lambda spec: not spec.is_local)
    labels = [_choice_label(spec, locale) for spec in ordered]
    seen = Counter(labels)
    return [
        (f"{label} · {spec.id}" if seen[label] > 1 else label, spec.id)
        for label, spec in zip(labels, ordered, strict=True)
    ]


def _choice_label(spec: ModelSpec, locale: str) -> str:
    if spec.kind is ModelKind.ADAPTER:
        base = _name_of(spec.base_model)
        if isinstance(base, str) and Path(base).is_absolute():
            base = Path(base).name
        return tr("{title} (adapter of {base})", locale, title=spec.title, base=base)
    if spec.source is ModelSource.DEMO:
        return known_name(spec.id, locale)
    if not spec.is_local:
        return tr("{title} (download)", locale, title=spec.title)
    return spec.title
