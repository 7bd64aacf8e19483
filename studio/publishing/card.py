"""A model's card as the Hub wants it: `README.md`, with metadata that its page and its search read.

All that it says comes from the model's `model.json`, which somebody may have edited: numbers are taken as
numbers, names of the Hub as such, and of texts only those that are escaped. No path, name or address of this
machine is among them, nor what a run or a file was called.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from studio.dataset.example import FEWEST_CLIPS
from studio.files import write_text
from studio.messages import Joined
from studio.options.sources import is_demo, is_on_hub, sources_of
from studio.options.training import FIELDS
from studio.publishing.findings import (
    CHECK_NAMES,
    as_number,
    as_table,
    in_one_script,
    lost_in,
    non_speech_of,
    unchecked_of,
)
from studio.publishing.formats import form_of
from studio.registry.catalog import find_released
from studio.registry.hub import HUB_ID
from studio.registry.languages import LANGUAGES
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import DEMO_ID
from studio.units import counted, duration_message, format_bytes, format_percent

README = "README.md"
PLACEHOLDER = "OWNER/NAME"
"""Stands where a model that has no name on the Hub yet is called by it."""
OF_SOURCE = (
    *("method", "base_model", "data", "metrics", "config", "seconds", "memory"),
    *("learning_rate", "steps", "device", "adapter_strength"),
)
"""What the card of an export keeps of the model that it was made of, as `made_of`."""
_HUB = "https://huggingface.co"
_TASK = "automatic-speech-recognition"
_CODES = {"jw": "jv"}
"""Whisper has kept a code that was withdrawn in 2001."""
_METRICS = {"wer": "Word error rate", "cer": "Character error rate"}
_MEASURED = {
    "long_form": "words right in a minute of the tuned speech",
    "other_languages": "words right in a minute of other speech",
    "timestamps": "clips with plausible times",
    "silence": "windows without speech that stay empty",
    "language": "clips whose language is heard",
}
"""The share that each check measures."""
_VERDICTS = {
    "worse": "**worse**",
    "better": "better",
    "kept": "kept",
    "neither": "neither can",
    "unclear": "too few clips to tell",
}
_UNSAID = ("machine", "processes")
"""Groups of options that say nothing about what was learned."""
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def model_card(spec: ModelSpec, repo_id: str = "", license: str = "") -> str:
    """The text of `README.md`, for the Hub's `repo_id` once that is known; unless given, `license` is that of
    the base.
    """
    from huggingface_hub import ModelCard

    name = repo_id or PLACEHOLDER
    facts = facts_of(spec)
    sections = [
        f"# {_heading(spec, facts)}",
        _introduction(spec, facts),
        _loss(spec.card),
        _errors(spec, facts),
        _capabilities(spec.card, facts),
        _training(facts),
        _proof(spec),
        _windows(spec),
        _use(spec, name),
    ]
    metadata = _metadata(spec, facts, license).to_yaml()
    text = "\n\n".join(section for section in sections if section)
    return str(ModelCard(f"---\n{metadata}\n---\n\n{text}\n"))


def write_card(spec: ModelSpec) -> None:
    """Puts the card beside a model.

    Raises:
        StorageError: if it cannot be written.
    """
    if spec.path is not None:
        write_text(spec.path / README, model_card(spec))


def facts_of(spec: ModelSpec) -> Mapping[str, Any]:
    """How a model came about: of an export, how the model did that it was made of."""
    return as_table(spec.card.get("made_of")) or spec.card


def hub_base(spec: ModelSpec) -> str:
    """The Hub's name of what a model was tuned from; empty if that is not on the Hub."""
    for base in (spec.base_model, facts_of(spec).get("base_model")):
        if isinstance(base, str) and HUB_ID.fullmatch(base):
            return base
    return ""


# ---------------------------------------------------------------------- metadata


def _metadata(spec: ModelSpec, facts: Mapping[str, Any], license: str) -> Any:
    from huggingface_hub import ModelCardData

    base = hub_base(spec)
    released = find_released(base) if base else None
    languages = [_CODES.get(code, code) for code in spec.languages]
    method = facts.get("method")
    tags = ["whisper", "whisper-studio", method if _is_word(method) else None]
    relation = "adapter" if spec.kind is ModelKind.ADAPTER else "quantized" if spec.is_export else "finetune"
    results = _results(facts)
    return ModelCardData(
        base_model=base or None,
        language=languages or None,
        license=license or (released.license if released else "") or None,
        library_name=form_of(spec).library or None,
        pipeline_tag=_TASK,
        datasets=_datasets(facts, "datasets") or None,
        metrics=[*_METRICS] if results else None,
        tags=[tag for tag in tags if tag],
        model_name=_heading(spec, facts) if results else None,
        eval_results=results or None,
        base_model_relation=relation if base else None,
    )


def _results(facts: Mapping[str, Any]) -> list[Any]:
    """Error rates in percent, as the Hub's boards have them."""
    from huggingface_hub import EvalResult

    final = as_table(as_table(facts.get("metrics")).get("final"))
    source = next(iter(_datasets(facts, "eval_datasets")), "")
    return [
        EvalResult(
            task_type=_TASK,
            task_name="Automatic Speech Recognition",
            dataset_type=source or "own",
            dataset_name=source or _own_speech(as_table(facts.get("data")).get("eval_source")),
            metric_type=metric,
            metric_name=title,
            metric_value=round(100 * rate, 2),
        )
        for metric, title in _METRICS.items()
        if (rate := as_number(final.get(metric))) is not None
    ]


def hub_datasets(source: str) -> list[str]:
    """Names of the Hub's datasets in what a run reads, without configuration and split.

    To be asked where the run is at work: elsewhere, `clips/monday` may be no folder.
    """
    names = (part.partition(":")[0] for part in sources_of(source) if is_on_hub(part))
    return list(dict.fromkeys(name for name in names if HUB_ID.fullmatch(name)))


def _datasets(facts: Mapping[str, Any], key: str) -> list[str]:
    """Those that a run has noted."""
    said = as_table(facts.get("data")).get(key)
    names = said if isinstance(said, list) else ()
    return [name for name in names if isinstance(name, str) and HUB_ID.fullmatch(name)]


def spoken(spec: ModelSpec) -> str:
    """What tells transformers the language of an adapter that has one: its base would guess."""
    languages = spec.languages
    if len(languages) != 1 or not spec.is_multilingual or spec.kind is not ModelKind.ADAPTER:
        return ""
    return f', generate_kwargs={{"language": "{languages[0]}"}}'


# ---------------------------------------------------------------------- what it says


def heading_of(spec: ModelSpec) -> str:
    """What a model is, in a few words."""
    return _heading(spec, facts_of(spec))


def _heading(spec: ModelSpec, facts: Mapping[str, Any]) -> str:
    """`whisper-tiny for Swedish`: neither the model's nor its run's name, which may be a person's."""
    base = hub_base(spec).rpartition("/")[2] or ("Demo model" if _is_of_demo(spec, facts) else "Whisper")
    names = [LANGUAGES[code].title() for code in spec.languages]
    form = form_of(spec)
    suffix = f", {form.title}" if spec.is_export and form.title else ""
    return f"{base}{' for ' + ' and '.join(names) if 0 < len(names) < 4 else ''}{suffix}"


def _is_of_demo(spec: ModelSpec, facts: Mapping[str, Any]) -> bool:
    return DEMO_ID in (spec.base_model, facts.get("base_model"))


def _introduction(spec: ModelSpec, facts: Mapping[str, Any]) -> str:
    base = hub_base(spec)
    how = "converted" if spec.is_export and not spec.card.get("made_of") else "tuned"
    if base:
        of = f", {how} from [{base}]({_HUB}/{base})"
    elif _is_of_demo(spec, facts):
        of = f", {how} from the demo model of Whisper Studio"
    else:
        of = f", {how} from a Whisper that is not on the Hub" if spec.base_model else ""
    by = " with Whisper Studio" if of and spec.card else ""
    return f"{form_of(spec).what} that turns speech into text{of}{by}."


def _loss(card: Mapping[str, Any]) -> str:
    """Stands first: who takes the model should know it."""
    lost = lost_in(as_table(card.get("capabilities")))
    return f"> **The base is better at:** {Joined(lost)}." if lost else ""


def _errors(spec: ModelSpec, facts: Mapping[str, Any]) -> str:
    metrics, data = as_table(facts.get("metrics")), as_table(facts.get("data"))
    base, final = as_table(metrics.get("base")), as_table(metrics.get("final"))
    rows = []
    for metric, title in _METRICS.items():
        if (rate := as_number(final.get(metric))) is None:
            continue
        before = as_number(base.get(metric))
        first = "–" if before is None else _rate(before, base, metric)
        rows.append((title, first, _rate(rate, final, metric)))
    if not rows:
        return ""
    clips = as_number(data.get("eval_samples"))
    on = counted(clips, "clip") if clips else "clips"
    source = _speech(facts, "eval_datasets", "eval_source")
    note = " These are those of the model that it was made of." if spec.card.get("made_of") else ""
    table = _rows(("", "Before", "After"), rows)
    intervals = " In brackets: intervals (95 %) over clips." if " to " in table else ""
    intervals += " Of so few, they tell little." if intervals and clips and clips < FEWEST_CLIPS else ""
    intervals += f" {alike}" if (alike := in_one_script(metrics)) else ""
    return f"## Errors\n\n{table}\n\nOn {on}: {source}.{intervals}{note}"


def _rate(rate: float, point: Mapping[str, Any], metric: str) -> str:
    """With its interval, where the run has told one."""
    interval = as_table(point.get("intervals")).get(metric)
    if not isinstance(interval, list) or len(interval) != 2 or None in map(as_number, interval):
        return format_percent(rate)
    low, high = (format_percent(bound) for bound in interval)
    return f"{format_percent(rate)} ({low} to {high})"


def _capabilities(card: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    found = as_table(card.get("capabilities"))
    checks = found.get("checks")
    rows = [
        _checked(row, bool(found.get("is_synthetic")), as_table(facts.get("metrics")).get("metric"))
        for row in (checks if isinstance(checks, list) else ())
        if isinstance(row, Mapping) and str(row.get("check")) in _MEASURED
    ]
    rows = [row for row in rows if row]
    head = ("Can it still", "Base", "This model", "Difference (95 %)", "Verdict")
    told = [_rows(head, rows), non_speech_of(found)] if rows else []
    said = [str(part) for part in (*told, unchecked_of(found)) if part]
    return "\n\n".join(["## What it kept of its base", *said]) if said else ""


def _checked(row: Mapping[str, Any], is_synthetic: bool, metric: object) -> tuple[str, ...]:
    check = str(row["check"])
    what = _MEASURED[check]
    base, tuned = as_number(row.get("base")), as_number(row.get("tuned"))
    if base is None or tuned is None:
        return ()
    if check == "long_form" and metric == "cer":
        what = what.replace("words", "characters")
    if check == "other_languages" and is_synthetic:
        what = (
            "words right in a minute of synthetic English like some that is rehearsed: it shows severe "
            "forgetting only"
        )
    low, high = as_number(row.get("low")), as_number(row.get("high"))
    apart = f"{100 * low:+.1f} to {100 * high:+.1f} points" if low is not None and high is not None else "–"
    verdict = str(row.get("verdict") or ("kept" if row.get("is_kept") else "worse"))
    shares = (format_percent(base), format_percent(tuned))
    return (f"{CHECK_NAMES[check]}: {what}", *shares, apart, _VERDICTS.get(verdict, _VERDICTS["unclear"]))


def _training(facts: Mapping[str, Any]) -> str:
    data, metrics, memory = (as_table(facts.get(name)) for name in ("data", "metrics", "memory"))
    clips, hours = as_number(data.get("train_samples")), as_number(data.get("train_hours"))
    lines = []
    if clips:
        source = _speech(facts, "datasets", "source")
        long = f" ({duration_message(3600 * hours)})" if hours else ""
        lines.append(f"Data: {source}, {counted(clips, 'clip')}{long}.")
    seconds = as_number(as_table(facts.get("seconds")).get("training"))
    steps, best = as_number(facts.get("steps")), as_number(metrics.get("best_step"))
    device = facts.get("device")
    card = "the processor" if device == "cpu" else _escaped(device) if isinstance(device, str) else ""
    where = f" on {card}" if card else ""
    if seconds and (taken := steps or best):
        kept = f", of which the best, at step {best:,.0f}, was kept" if steps and best else ""
        lines.append(f"Time: {duration_message(seconds)}{where}, {counted(taken, 'step')}{kept}.")
    lines += [line for line in (_memory(memory), _settings(facts)) if line]
    return "## Training\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _memory(memory: Mapping[str, Any]) -> str:
    planned, measured = as_table(memory.get("predicted")), as_table(memory.get("measured"))
    for key, what in (
        ("device_bytes", "on the card"),
        ("reserved_bytes", "reserved on the card"),
        ("allocated_bytes", "of tensors on the card"),
    ):
        before, after = as_number(planned.get(key)), as_number(measured.get(key))
        if before and after:
            return f"Memory {what}: {format_bytes(before)} predicted, {format_bytes(after)} measured."
    tensors, process = as_number(planned.get("tensor_bytes")), as_number(measured.get("process_bytes"))
    told = f"{format_bytes(tensors)} of tensors predicted" if tensors else ""
    grown = f"{format_bytes(process)} measured for the whole process, libraries included" if process else ""
    return f"Memory: {', '.join(filter(None, (told, grown)))}." if told or grown else ""


def _settings(facts: Mapping[str, Any]) -> str:
    """Those that are not as they usually are: numbers, switches and words of a list, never free text."""
    config = as_table(facts.get("config"))
    chosen = {name: value for name, value in config.items() if _is_said(name, value)}
    rate = as_number(facts.get("learning_rate"))
    if rate is not None:
        chosen["learning_rate"] = f"{rate:g}"
    if strength := as_number(facts.get("adapter_strength")):
        chosen["adapter_strength"] = f"{strength:g}"
    said = ", ".join(f"`{name}` {_value(value)}" for name, value in chosen.items())
    method = facts.get("method")
    first = f"method `{method}`" if _is_word(method) else ""
    return f"Settings: {', '.join(filter(None, (first, said)))}." if first or said else ""


def _is_said(name: str, value: Any) -> bool:
    known = FIELDS.get(name)
    usual: Any = known.default if known else None
    if known is None or name == "method" or value == usual or value is None:
        return False
    about = known.metadata
    if about["names"] or about["of_machine"] or about["group"] in _UNSAID:
        return False
    if isinstance(value, list) and isinstance(usual, tuple):
        return value != list(usual) and all(map(_is_word, value))
    return isinstance(value, int | float) or (isinstance(value, str) and value in about["choices"])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(f"`{word}`" for word in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _proof(spec: ModelSpec) -> str:
    card = spec.card
    rows = card.get("parity")
    last = as_table(rows[-1]) if isinstance(rows, list) and rows else {}
    clips, tokens, apart = (as_number(last.get(name)) for name in ("clips", "tokens", "different_tokens"))
    if clips is None or tokens is None or apart is None:
        return ""
    kept = card.get("quantization")
    weights = f"Weights in {kept}. " if _is_word(kept) else ""
    verdict = f"{counted(tokens, 'token')} of {counted(clips, 'clip')} beside the model that it was made of: "
    verdict += f"{apart:,.0f} differ." if apart else "all the same."
    return f"## Proof\n\n{weights}{verdict} {form_of(spec).proof_note or ''}".rstrip()


def _windows(spec: ModelSpec) -> str:
    if spec.audio_context != "short":
        return ""
    return (
        "It learned from windows as long as its clips, and Whisper Studio reads it so; other programs pad "
        "each window to 30 seconds, for which it was not trained."
    )


def _use(spec: ModelSpec, name: str) -> str:
    title, language, code = form_of(spec).use
    code = code.format(base=hub_base(spec), name=name, language=spoken(spec))
    if spec.kind is ModelKind.ADAPTER and not hub_base(spec):
        title, language, code = "Any program, merged into its base", "bash", _MERGE_FIRST
        name = "MODEL"  # it cannot be had from the Hub, and has its name in this studio alone
    parts = [(title, language, code)] if title else []
    if not spec.is_export:
        parts.append(("faster-whisper", "bash", _EXPORT_FIRST.format(name=name)))
    if spec.is_played:
        parts.append(("Whisper Studio", "bash", _WITH_STUDIO.format(name=name)))
    blocks = [f"{title}:\n\n```{language}\n{code}\n```" for title, language, code in parts]
    return "\n\n".join(["## Use", *blocks])


_EXPORT_FIRST = "python -m studio export {name}  # makes a folder that faster-whisper plays"
_MERGE_FIRST = "python -m studio export MODEL --format merged  # its base is not on the Hub"
_WITH_STUDIO = "python -m studio transcribe --model {name} speech.wav"


# ---------------------------------------------------------------------- pieces


def _own_speech(source: Any) -> str:
    """What is called by no name of this machine."""
    is_known = isinstance(source, str) and is_demo(source)
    return "the demo speech of Whisper Studio" if is_known else "own recordings"


def _speech(facts: Mapping[str, Any], datasets: str, source: str) -> str:
    links = [f"[{name}]({_HUB}/datasets/{name})" for name in _datasets(facts, datasets)]
    return ", ".join(links) or _own_speech(as_table(facts.get("data")).get(source))


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; numbers to the right."""
    marks = [":--", *("--:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, marks, *rows))


def _escaped(text: str) -> str:
    """As Markdown shows it, whatever is in it."""
    return re.sub(r"([\\`*_{}\[\]()<>#+\-.!|~$&:])", r"\\\1", " ".join(text.split())[:200])


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None
