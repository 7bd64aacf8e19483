"""`evaluate`: models side by side on one test set."""

import argparse
import math
import os
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.actions.forms import compare_forms
from studio.cli.clips import ListedClips, add_clip_options, asks_for_clips, listed_clips, refuse_clip_options
from studio.cli.decoding import CLIPS_BEAMS_HELP, add_engine_options, choice_of
from studio.cli.models import forms_text
from studio.cli.other_scripts import EVALUATION
from studio.cli.output import ProgressLine, give, require_places, say, say_shared, show, show_json, table
from studio.cli.parsing import Parser, options_among, seconds
from studio.dataset.example import RowProblem
from studio.errors import ConfigError
from studio.evaluation.compare import KEPT, PLAIN, EvaluationRequest, evaluate, with_normalizer
from studio.evaluation.corrections import Corrections, clip_of, is_of_the_hub, read_corrections, save_list
from studio.evaluation.explorer import Explorer
from studio.evaluation.metrics import in_order
from studio.evaluation.result import Evaluation, counted_first, read_evaluation, worth_of
from studio.evaluation.scripts import script_sentences
from studio.evaluation.side_by_side import hear_side_by_side, marked
from studio.files import write_json, write_text
from studio.options.choices import NORMALIZERS, TASKS
from studio.options.sources import has_splits, is_demo, sources_of
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.settings import Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.units import counted, format_percent, names

SCHEMA_VERSION = 1
_SPLIT = "test"
_LEFT_OUT_SHOWN = 5
"""Rows of a test set that cannot be used, of which the reason is printed."""
_PARTS = ("dataset", "config", "dataset_path")
_OF_A_SET = ("split", "max_samples", "min_audio_len", "max_audio_len", "corrections", "non_speech")
"""Options that choose what of a test set is heard, and beside what it is held."""
_HEARD = (
    *("models", "data", *_PARTS, "audio_path", "forms", "reference", *_OF_A_SET),
    *("language", "task", "num_beams", "engine", "compute_type", "dtype", "use_8bit", "use_4bit"),
)
"""Options that decide what is heard, and how."""
_NORMALIZING = ("normalizer", "remove_pun", "to_simple")
_SHOWN = 12
"""Words of a kind that are printed."""


def parser() -> Parser:
    """Models, data, and how both are treated."""
    made = Parser(
        "evaluate",
        "Compare models on a test set. One that was stopped or killed goes on when it is asked again.",
    )
    made.option(
        "models",
        "Models, separated by commas: registry ids, folders or Hub ids.",
        aliases=("model", "model_path", "model_id"),
        default=DEMO_ID,
    )
    made.option(
        "data",
        "Manifest, audio folder, Hub dataset id or demo.",
        aliases=("test_data", "test_file", "validation_file"),
    )
    made.option("dataset", "A Hub dataset, with --config; beside --dataset_path, its configuration.")
    made.option("config", "Configuration of --dataset.")
    made.option("dataset_path", "A Hub dataset whose configuration is --dataset.")
    made.option("forms", "Compare forms of one model instead: all, or names such as faster-whisper:int8.")
    made.option("audio_path", "One recording instead of a test set.", kind=Path)
    made.option("reference", "Reference text of that recording.", default="")
    made.option("split", "Part of a Hub dataset or of the demo speech.", default=_SPLIT)
    made.option(
        "max_samples",
        "Use at most this many clips; 0: all.",
        aliases=("max_eval_samples",),
        kind=int,
        default=0,
    )
    made.option("min_audio_len", "Skip shorter clips (seconds).", kind=seconds, default=0.0)
    made.option("max_audio_len", "Skip longer clips (seconds).", kind=seconds, default=math.inf)
    made.flag("local_files_only", "Download neither models nor data.")
    made.flag("remove_pun", "The same as --normalizer no_punctuation; with --to_simple, chinese.")
    made.flag("to_simple", "With --remove_pun the same as --normalizer chinese.")
    made.foreign(EVALUATION)
    made.option("normalizer", "Applied to both texts.", choices=NORMALIZERS, default="none")
    made.option("language", "Name or code; auto takes each row's, or detects it.", default="auto")
    made.option("task", "Transcribe, or translate to English.", choices=TASKS, default="transcribe")
    made.option("num_beams", CLIPS_BEAMS_HELP, kind=int, default=0)
    add_engine_options(made)
    made.option(
        "corrections",
        "File of clips whose reference is wrong: CSV or JSON lines with line or audio_path, and reference. "
        "The CSV of --output_file, corrected, is one. What was heard is not heard again.",
        kind=Path,
    )
    made.option(
        "save_corrected", "New list with those corrections; the one of --data stays as it is.", kind=Path
    )
    made.flag(
        "non_speech", "Also measure hallucinations: words per hour of silence, noise, chords and babble."
    )
    made.option(
        "result",
        "Look into an evaluation that was written as .json instead: nothing is heard again.",
        kind=Path,
    )
    add_clip_options(made)
    made.flag("errors", "Also say what is wrong: words, confusions, insertions on silence, groups of clips.")
    made.option(
        "output_file",
        "File of the result, by its ending: .json has all, .csv the clips, .html a report to read offline.",
        kind=Path,
    )
    made.flag("embed_audio", "Put the sound of the clips into an .html file.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Evaluates the models one after the other."""
    read_by = parser()
    given, named = read_by.read(arguments), read_by.named(arguments)
    if given.result and (others := options_among(_HEARD, named)):
        raise ConfigError(
            "--result is an evaluation that was made before: leave out {options}.", options=others
        )
    given.max_samples = given.max_samples or None
    given.data = data_named(given)
    models, choice = names(given.models), choice_of(given)
    if given.output_file and _ending(given) not in _ENDINGS:
        raise ConfigError(
            "The ending of {path} tells no format: give .json, .csv or .html.", path=given.output_file
        )
    read = (given.data, given.audio_path, given.corrections, given.result)
    require_places(given, ("output_file", "save_corrected"), read)
    if given.embed_audio and _ending(given) != ".html":
        raise ConfigError("--embed_audio needs an .html file: name one with --output_file.")
    if given.save_corrected and not given.corrections:
        raise ConfigError("--save_corrected needs --corrections: a file of clips and what is said in them.")
    if given.result:
        made = read_evaluation(given.result)
        if not named.isdisjoint(_NORMALIZING):
            made = with_normalizer(made, _normalizer(given, named))
        return _answer(given, named, made, {})
    if given.reference and not given.audio_path:
        raise ConfigError("--reference is what is said in one recording: name that with --audio_path.")
    if given.forms:
        return _compare_forms(
            given, named, settings, replace(_asked(given), normalizer=_normalizer(given, named))
        )
    if given.audio_path:
        return _one_recording(given, named, models, choice, settings)
    if not given.data or not models:
        raise ConfigError("evaluate needs --models and --data: name models and a test set.")
    _check_split(given)
    with Services.open(settings) as services, ProgressLine() as line:
        corrections = _corrections(given, services.settings) if given.corrections else {}
        _require_models(services, given, models)
        say_shared(services.engines)
        asked = replace(
            _asked(given),
            normalizer=_normalizer(given, named),
            choice=choice,
            kept=_kept(services.settings),
            corrections=corrections,
            non_speech=given.non_speech,
        )
        evaluation = evaluate(
            services.engines,
            asked,
            services.settings,
            on_step=line.step,
            on_progress=lambda done, total: line.update(f"transcribed {done} of {counted(total, 'clip')}"),
        )
    if evaluation.taken_up:
        say(str(evaluation.taken_up))
    return _answer(given, named, evaluation, corrections)


def data_named(given: argparse.Namespace) -> str | None:
    """The test set, which scripts of the Whisper event and of the Open ASR Leaderboard name in parts.

    Raises:
        ConfigError: if it is named twice, or only in part.
    """
    name, config = (
        (given.dataset_path, given.dataset) if given.dataset_path else (given.dataset, given.config)
    )
    if given.data and (name or config):
        raise ConfigError("Give one of --data and --dataset: both name the test set.")
    if config and not name:
        raise ConfigError("--config belongs to a Hub dataset: name it with --dataset.")
    return given.data or ":".join(filter(None, (name, config))) or None


def _asked(given: argparse.Namespace) -> EvaluationRequest:
    """The models and the clips, for an evaluation as for a comparison of forms."""
    return EvaluationRequest(
        names(given.models),
        given.data,
        replace(PLAIN, language=given.language, task=given.task, num_beams=given.num_beams),
        split=given.split,
        max_samples=given.max_samples,
        seconds=(given.min_audio_len, given.max_audio_len),
        local_files_only=given.local_files_only,
    )


def _require_models(services: Services, given: argparse.Namespace, models: Sequence[str]) -> None:
    """Raises StudioError: if there is no such model, or none here and nothing may be downloaded."""
    for model in models:
        services.registry.get(model)
        if given.local_files_only:
            services.registry.local_path(model, local_files_only=True)


def _check_split(given: argparse.Namespace) -> None:
    """Raises ConfigError if a part is asked for of lists, which have none."""
    sources = sources_of(given.data)
    has_parts = any(has_splits(one) or is_demo(one) for one in sources)
    if given.split != _SPLIT and not has_parts:
        raise ConfigError(
            "--split {split} chooses a part of a folder, of a Hub dataset or of the demo speech, and {data} "
            "is a list: leave it out, and all of it is evaluated.",
            split=given.split,
            data=given.data,
        )


def _say_left_out(problems: Sequence[RowProblem], has_all: bool) -> None:
    """Rows of the test set that could not be used, and why: what is counted is without them."""
    for row in problems[:_LEFT_OUT_SHOWN]:
        say(f"Left out: {row.place}: {row.reason}")
    if more := len(problems[_LEFT_OUT_SHOWN:]):
        say(f"Left out: {more:,} more; {'the file' if has_all else '--output_file FILE.json'} names all.")


def _kept(settings: Settings) -> Path | None:
    """Where is kept what was heard; nowhere in a home that may only be read."""
    if os.access(settings.cache, os.W_OK):
        return settings.cache / KEPT
    say(f"{settings.cache} may only be read: an evaluation that is stopped will begin anew.")
    return None


def _answer(
    given: argparse.Namespace, named: Set[str], evaluation: Evaluation, corrections: Corrections
) -> int:
    """What came out: as files, and printed, with the errors and the clips that are asked for."""
    _say_left_out(evaluation.problems, has_all=bool(given.result) or _ending(given) in (".json", ".html"))
    explorer = Explorer(evaluation) if evaluation.utterances else None
    result = evaluation.to_json()
    if given.errors and explorer:
        result["errors"] = [explorer.summary(model) for model in range(len(explorer.models))]
    if given.output_file:
        _write(given, evaluation, explorer, result)
    listed: ListedClips | None = None
    if explorer and asks_for_clips(named):
        known = {clip[:3] for clip in corrections}  # without the text, which is another now
        corrected = [place for place, clip in enumerate(explorer.clips) if clip_of(clip)[:3] in known]
        listed = listed_clips(given, explorer, corrected)
    if given.json:
        show_json({**result, **(listed.to_json() if listed else {})})
        return 0
    show(_summary(result, evaluation.metric))
    for one in result.get("errors", ()):
        show()
        show(_errors(one))
    if listed:
        show()
        show(listed.to_text())
    return 0


def _corrections(given: argparse.Namespace, settings: Settings) -> Corrections:
    """The corrected references, in their new list if one is asked for: all of the old one, of the Hub's what
    is evaluated.
    """
    most = given.max_samples if is_of_the_hub(given.data) else None
    manifest = replace(_asked(given), max_samples=most).manifest(settings)
    found = read_corrections(given.corrections, manifest)
    say(f"{len(found)} of {len(manifest.examples)} references are corrected.")
    if given.save_corrected:
        save_list(manifest, found, given.save_corrected)
        say(f"Wrote {given.save_corrected}")
        if manifest.problems:
            say(f"Rows left out of it, because they cannot be used: {len(manifest.problems)}.")
    return found


_ENDINGS = ("", ".json", ".csv", ".html")


def _ending(given: argparse.Namespace) -> str:
    return given.output_file.suffix.lower() if given.output_file else ""


def _write(
    given: argparse.Namespace, evaluation: Evaluation, explorer: Explorer | None, result: dict[str, Any]
) -> None:
    """The result in the form that its file's name asks for; JSON unless it says csv or html."""
    if _ending(given) == ".csv":
        write_text(given.output_file, evaluation.to_csv())
    elif _ending(given) == ".html":
        from studio.reports.evaluation_report import evaluation_report

        report = evaluation_report(evaluation, explorer, "en", has_sound=given.embed_audio)
        write_text(given.output_file, report)
    else:
        write_json(given.output_file, result)
    say(f"Wrote {given.output_file}")


def _normalizer(given: argparse.Namespace, named: Set[str]) -> str:
    """The one that is named, or what Whisper-Finetune's two switches come nearest to; that is said."""
    if not given.remove_pun and not given.to_simple:
        if given.metric and named.isdisjoint(_NORMALIZING):
            say("Texts are compared as they are: --remove_pun --to_simple do what Whisper-Finetune does.")
        return str(given.normalizer)
    if "normalizer" in named:
        raise ConfigError("--remove_pun and --to_simple choose a normalizer: leave out them or it.")
    if not given.remove_pun:
        raise ConfigError("--to_simple goes with --remove_pun: give both, or --normalizer.")
    name = "chinese" if given.to_simple else "no_punctuation"
    say(f"Texts are compared as by --normalizer {name}.")
    return name


def _one_recording(
    given: argparse.Namespace, named: Set[str], models: list[str], choice: EngineChoice, settings: Settings
) -> int:
    """The models on one recording: what each wrote, with the differences marked."""
    if given.data:
        raise ConfigError("evaluate takes --data or --audio_path: give one of them.")
    others = options_among(("errors", *_NORMALIZING, *_OF_A_SET), named)
    if others or _ending(given) in (".csv", ".html"):
        raise ConfigError(
            "Only a test set has {options}: give --data in place of --audio_path.",
            options=others or _ending(given),
        )
    refuse_clip_options(named, "--audio_path")
    options = TranscribeOptions(language=given.language, task=given.task, num_beams=given.num_beams)
    with Services.open(settings) as services, ProgressLine() as line:
        _require_models(services, given, models)
        say_shared(services.engines)
        found = hear_side_by_side(
            services.engines,
            models,
            given.audio_path,
            options,
            given.reference,
            choice=choice,
            on_step=line.step,
        )
    if given.output_file:
        write_json(given.output_file, found.to_json())
        say(f"Wrote {given.output_file}")
    if given.json:
        show_json(found.to_json())
        return 0
    for hearing in found.hearings:
        rates = ""
        if hearing.wer is not None and hearing.cer is not None:
            both = {"wer": hearing.wer, "cer": hearing.cer}
            rates = "".join(
                f"  {rate.upper()} {format_percent(both[rate])}" for rate in in_order(found.metric)
            )
        show(f"# {hearing.transcript.model}{rates}")
        show(marked(hearing.pieces))
    for sentence in found.script_sentences():
        show(str(sentence))
    return 0


def _compare_forms(
    given: argparse.Namespace, named: Set[str], settings: Settings, asked: EvaluationRequest
) -> int:
    """What `evaluate` was given, with `--forms`; the options are `named`."""
    if len(asked.models) != 1 or not given.data or given.audio_path:
        raise ConfigError("--forms compares the forms of one model on a test set: give --model and --data.")
    if (given.output_file and given.output_file.suffix.lower() in (".csv", ".html")) or given.errors:
        raise ConfigError("--forms writes JSON and prints its table: leave out --errors, .csv and .html.")
    if given.corrections or given.non_speech:
        raise ConfigError(
            "--forms counts errors of a test set as it is: leave out --corrections, --non_speech."
        )
    refuse_clip_options(named, "--forms")
    if choice_of(given) != EngineChoice():
        raise ConfigError("--forms plays each form by its own engine: name those that you want in --forms.")
    wanted = [] if given.forms == "all" else names(given.forms)
    with Services.open(settings) as services, ProgressLine() as line:
        found = compare_forms(services, asked, wanted, on_step=line.step)
    if found.what_stays:
        say(str(found.what_stays))
    told = {"schema_version": SCHEMA_VERSION, **found.to_json()}
    if given.output_file:
        write_json(given.output_file, told)
        say(f"Wrote {given.output_file}")
    give(given.json, told, lambda: forms_text(told))
    return 0


_WORTH = {
    "few": "too few clips to tell",
    "chance": "could be chance",
    "real": "significant",
    "script": "significant, other scripts count as errors",
}


def _summary(result: dict[str, Any], metric: str) -> str:
    """The tables, the `metric` first that counts."""
    order = in_order(metric)
    titles = [rate.upper() for rate in order]
    rows = [
        (
            row["id"],
            *(format_percent(row[rate]) for rate in order),
            format_percent(row["mer"]),
            str(row["n"]),
            f"{row['real_time_factor']:.2f}",
        )
        for row in result["models"]
    ]
    lines = [table(("MODEL", *titles, "MER", "CLIPS", "RTF"), rows)]
    for row in result["models"]:
        if figure := row["non_speech"]:
            lines.append(
                f"{row['id']}: {figure['words_per_hour']:,.0f} words per hour of non-speech, "
                f"{format_percent(figure['loop_rate'])} of its texts are loops"
            )
    for row in counted_first(result["comparisons"], metric):
        meaning = _WORTH[worth_of(row, result)]
        lines.append(
            f"{row['b']} against {row['a']}: {row['metric'].upper()} {100 * row['difference']:+.1f} points, "
            f"95 % interval {100 * row['ci_low']:+.1f} to {100 * row['ci_high']:+.1f} ({meaning}); "
            f"better in {counted(row['better'], 'clip')}, worse in {row['worse']}"
        )
    lines += [str(sentence) for sentence in script_sentences(result)]
    rows = [
        (
            row["normalizer"],
            row["model"],
            *(format_percent(row[rate]) for rate in order),
            str(row["better"]),
            str(row["worse"]),
        )
        for row in result["normalizers"]
    ]
    if rows:
        columns = 6 if len(result["models"]) > 1 else 4
        header = ("NORMALIZER", "MODEL", *titles, "BETTER", "WORSE")[:columns]
        lines += ["", table(header, [row[:columns] for row in rows])]
    return "\n".join(lines)


def _errors(found: dict[str, Any]) -> str:
    """What is wrong with one model's texts; `--json` has all of it."""

    def first(name: str, shown: Callable[[dict[str, Any]], str]) -> str:
        """The most frequent rows of a kind, in a line."""
        return ", ".join(shown(row) for row in found[name][:_SHOWN]) or "none"

    wrong = [row for row in found["words"] if row["right"] < row["said"]][:_SHOWN]
    silence = found["silence"]
    lines = [
        f"# {found['model']}",
        "words right: " + (", ".join(f"{r['word']} {r['right']}/{r['said']}" for r in wrong) or "all"),
        "confusions: " + first("confusions", lambda row: f"{row['said']} → {row['written']} ×{row['count']}"),
        "deleted: " + first("deletions", lambda row: f"{row['word']} ×{row['count']}"),
        "inserted: " + first("insertions", lambda row: f"{row['word']} ×{row['count']}"),
        f"repetitions: in {counted(found['loops'], 'clip')}",
    ]
    if silence["clips"]:
        lines.append(
            f"clips without speech: {silence['clips']}, text in {silence['with_text']}, "
            f"{counted(silence['words'], 'word')}"
        )
    for by, groups in found["groups"].items():
        rows = [(g["key"], str(g["clips"]), format_percent(g["rate"])) for g in groups]
        lines += ["", table((by.upper(), "CLIPS", "MER"), rows)]
    return "\n".join(lines)
