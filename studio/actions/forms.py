"""Which form of a model to deploy: each hears the same clips in a process of its own, and errors, speed,
memory and size stand side by side.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import psutil

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.errors import ConfigError, DataError, StudioError, first_line
from studio.evaluation.compare import EvaluationRequest, evaluate, language_of
from studio.evaluation.metrics import error_rates, metric_for, paired_bootstrap
from studio.lazy_imports import transformers_library
from studio.memory.measure import PeakMeter
from studio.messages import Message, message_to_plain
from studio.options.checks import check_choice
from studio.options.choices import ENGINES, FASTER_WHISPER, NORMALIZERS
from studio.publishing.formats import FORMATS, exports_of
from studio.registry.spec import ModelKind
from studio.reports.forms_views import why_none
from studio.runs.process import end_tree
from studio.services import Services
from studio.settings import Settings
from studio.transcription.devices import CPU, ctranslate2_device
from studio.transcription.engine import EngineChoice
from studio.transcription.languages import AUTO, resolve_language
from studio.transcription.loading import engine_of
from studio.transcription.window_model import Search
from studio.watching import OnStep, ShouldStop, never, untold
from studio.whisper.constants import WINDOW_TOKENS

MOST_LOST = 0.01
"""A form is recommended if, at the far end of its interval, it makes no more errors than that in addition."""
_LONGEST = 30 * SAMPLING_RATE
_LOOK_SECONDS = 0.5
_Clip = tuple[str, int, float | None]
"""File, line of the manifest, and where it begins."""


@dataclass(frozen=True)
class Form:
    """A form that a model has, or that an engine makes of it."""

    program: str
    """An engine of the studio, or a format of `FORMATS` that another program plays."""
    precision: str
    model: str
    """Of the registry: the model itself, or an export of it."""

    @property
    def name(self) -> str:
        """As it is asked for."""
        return f"{self.program}:{self.precision}"


@dataclass(frozen=True)
class FormRow:
    """How one form did. None is what could not be measured."""

    name: str
    size_bytes: int = 0
    """Of its files on the disk, an adapter's base among them."""
    wer: float | None = None
    cer: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval (95 %) of the difference to the first form, in the metric that counts; above 0 it is worse."""
    real_time_factor: float | None = None
    memory_bytes: int | None = None
    """At the most: of the card, else of its process beyond what the libraries took."""
    problem: Message | None = None
    """Why there are no figures."""


@dataclass(frozen=True)
class Forms:
    """All forms beside the first, on the clips that each of them has heard."""

    model: str
    metric: str
    clips: int
    normalizer: str
    rows: tuple[FormRow, ...]
    recommended: str = ""
    """The name of the fastest that loses less than `MOST_LOST`; empty of too few clips."""
    made: str = ""
    """The export for faster-whisper that was made for it; empty where there was one."""

    @property
    def what_stays(self) -> Message | None:
        """What is said of the export that was made."""
        if not self.made:
            return None
        return Message("{model} was made for faster-whisper and stays among the models.", model=self.made)

    def to_json(self) -> dict[str, Any]:
        """As the card and the command have it."""
        rows = [
            {**asdict(row), "problem": row.problem and message_to_plain(row.problem)} for row in self.rows
        ]
        return {**asdict(replace(self, rows=())), "rows": rows}


@dataclass
class _Heard:
    """What a process gave back."""

    texts: dict[_Clip, tuple[str, str]]
    """Clip → what was said, what was written."""
    real_time_factor: float
    memory_bytes: int | None


def forms_of(services: Services, model: str) -> tuple[Form, ...]:
    """What can be asked for, in this order.

    Raises:
        ConfigError: if no engine of the studio plays the model.
        ModelError: if it cannot be used.
    """
    spec = services.registry.get(model)
    engine_of(spec, EngineChoice())  # refuses what no engine plays
    engines = [name for name in ENGINES if name == FASTER_WHISPER or spec.kind is not ModelKind.EXPORT]
    return (
        *(Form(engine, kind, spec.id) for engine in engines for kind in ENGINES[engine]),
        *(
            Form(row.form, str(row.card.get("quantization")), row.id)
            for row in exports_of(spec.id, services.registry.all())
            if not row.is_played and not row.problem and row.form
        ),
    )


def compare_forms(
    services: Services,
    asked: EvaluationRequest,
    names: Sequence[str] = (),
    *,
    on_step: OnStep = untold,
    should_stop: ShouldStop = never,
) -> Forms:
    """Each form of the one model hears the clips: those of these `names`, or of programs; without any, all
    there are. What it cannot do here is its row's `problem`. Stopped, it tells of those that were through.
    The result is kept in the card of a model that was made here.

    Raises:
        ConfigError: if a form or a normaliser is asked for that there is not.
        ManifestError: if the data cannot be read.
        ModelError, HubUnreachableError: if the model cannot be used.
    """
    (model,) = asked.models
    forms = _chosen(forms_of(services, model), names)
    check_choice("normalizer", asked.normalizer, NORMALIZERS)
    examples = asked.clips(asked.manifest(services.settings))
    clips = len(examples)
    spoken = asked.options.written_in(language_of(asked.options, examples[0]))
    metric = metric_for(spoken, [clip.text for clip in examples])
    services.registry.local_path(model, local_files_only=asked.local_files_only)
    made = ""
    if any(form.program == FASTER_WHISPER for form in forms):
        before = {spec.id for spec in services.registry.all()}
        # Made now: what it takes to make one is not what it takes to play it.
        export = services.exporter.ensure(model, lambda doing, _share: on_step(doing, 0.0))
        made = "" if export.id in before else export.id
    services.engines.unload_all(0.0)
    heard: list[tuple[Form, _Heard | Message]] = []
    for number, form in enumerate(forms):
        if should_stop():
            break

        def on_clip(done: int, number: int = number, form: Form = form) -> None:
            """Tells how far all the forms are."""
            share = (number + done / max(1, clips)) / len(forms)
            on_step(
                Message("{form}: transcribing {clips} clips …", form=form.name, clips=clips), min(1.0, share)
            )

        on_clip(0)
        found = _refusal(form) or _beside(services.settings, asked, form, on_clip, should_stop)
        if found is not None:
            heard.append((form, found))
    result = replace(_compared(services, asked, heard, metric), made=made)
    if result.clips and not should_stop():
        spec = services.registry.get(model)
        if spec.path is not None and spec.path.parent == services.registry.models:
            # What was made is news of this comparison alone: the next time it was there before.
            services.registry.annotate(spec.id, {"forms": replace(result, made="").to_json()})
    return result


def _chosen(known: Sequence[Form], names: Sequence[str]) -> tuple[Form, ...]:
    for name in names:
        if not any(name in (form.name, form.program) for form in known):
            raise ConfigError(
                "There is no form {name!r} of this model: choose one of {known}.",
                name=name,
                known=", ".join(form.name for form in known),
            )
    return tuple(form for form in known if not names or {form.name, form.program} & set(names))


# ---------------------------------------------------------------------- side by side


def _compared(
    services: Services,
    asked: EvaluationRequest,
    heard: Sequence[tuple[Form, "_Heard | Message"]],
    metric: str,
) -> Forms:
    through = [found for _form, found in heard if isinstance(found, _Heard)]
    places = [clip for clip in (through[0].texts if through else ()) if all(clip in f.texts for f in through)]
    said = [through[0].texts[place][0] for place in places]
    first = [through[0].texts[place][1] for place in places] if through else []
    rows = []
    for form, found in heard:
        size = _size(services, form)
        if isinstance(found, Message) or not places:
            problem = found if isinstance(found, Message) else Message("No clip could be used.")
            rows.append(FormRow(form.name, size, problem=problem))
            continue
        texts = [found.texts[place][1] for place in places]
        rates = error_rates(said, texts, asked.normalizer)
        beside = paired_bootstrap(said, first, texts, metric, asked.normalizer)
        rows.append(
            FormRow(
                form.name,
                size,
                rates.wer,
                rates.cer,
                beside.ci_low,
                beside.ci_high,
                found.real_time_factor,
                found.memory_bytes,
            )
        )
    wrong = [rate for row in rows if (rate := getattr(row, metric)) is not None]
    is_told = why_none(len(places), wrong) is None
    safe = [row for row in rows if is_told and row.high is not None and row.high < MOST_LOST]
    best = min(safe, key=lambda row: row.real_time_factor or 0.0, default=None)
    name = services.registry.get(asked.models[0]).id
    return Forms(name, metric, len(places), asked.normalizer, tuple(rows), best.name if best else "")


def _size(services: Services, form: Form) -> int:
    registry = services.registry
    spec = registry.get(form.model)
    if form.program == FASTER_WHISPER and not spec.is_export:
        spec = services.exporter.find(spec) or spec
    base = registry.get(spec.base_model) if spec.kind is ModelKind.ADAPTER and spec.base_model else None
    return spec.size_bytes + (base.size_bytes if base else 0)


# ---------------------------------------------------------------------- a process a form


def _refusal(form: Form) -> Message | None:
    """Why this machine cannot compute in a form: known without the process, which takes seconds to start."""
    from studio.transcription.loaded_export import compute_type_of

    try:
        if form.program == FASTER_WHISPER:
            compute_type_of(form.precision)
    except ConfigError as error:
        return error.message()
    return None


def _beside(
    settings: Settings,
    asked: EvaluationRequest,
    form: Form,
    on_clip: Callable[[int], None],
    should_stop: ShouldStop,
) -> "_Heard | Message | None":
    """What a form heard, or why it could not; None if it was stopped. The process ends in any case."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(settings, asked, form, theirs), daemon=False)
    process.start()
    theirs.close()
    try:
        while not should_stop():
            if not ours.poll(_LOOK_SECONDS):
                continue
            told = ours.recv()
            if not isinstance(told, int):
                return told  # type: ignore[no-any-return]
            on_clip(told)
        return None
    except EOFError:
        return Message("Its process ended before it was through: memory may have run out.")
    finally:
        end_tree(psutil.Process(process.pid))  # a program that it plays with, too
        process.join()
        ours.close()


def _work(settings: Settings, asked: EvaluationRequest, form: Form, out: Connection) -> None:
    """In the process of a form."""
    services = Services.open(settings)
    try:
        hear = _by_engine if form.program in ENGINES else _by_its_program
        out.send(hear(services, asked, form, out.send))
    except StudioError as error:
        out.send(error.message())
    except (RuntimeError, ValueError, ImportError, MemoryError) as error:  # what a library says it cannot
        out.send(Message("{text}", text=first_line(error)))
    finally:
        services.close()


def _by_engine(
    services: Services, asked: EvaluationRequest, form: Form, tell: Callable[[int], None]
) -> _Heard:
    meter = PeakMeter(is_on_cpu=form.program == FASTER_WHISPER and ctranslate2_device(AUTO)[0] == CPU)
    choice = EngineChoice(form.program, form.precision)
    heard = replace(asked, models=[form.model], choice=choice, scores=False)
    found = evaluate(services.engines, heard, services.settings, on_progress=lambda done, _total: tell(done))
    peak = meter.read()
    texts = {
        (row.audio_path, row.line, row.start_seconds): (row.reference, row.hypothesis)
        for row in found.utterances
    }
    return _Heard(texts, found.models[0].real_time_factor, peak.device_bytes or peak.figure or None)


def _by_its_program(
    services: Services, asked: EvaluationRequest, form: Form, tell: Callable[[int], None]
) -> _Heard:
    """As the proof of its export was made: each clip alone, greedily."""
    registry, exported = services.registry, FORMATS[form.program]
    spec = registry.get(form.model)
    assert spec.path is not None
    texts: dict[_Clip, tuple[str, str]] = {}
    took = sound = 0.0
    folder = registry.local_path(spec.base_model or "")
    tokenizer = transformers_library().WhisperTokenizer.from_pretrained(folder, local_files_only=True)
    with exported.reopened(spec.path) as played:
        for place, clip in enumerate(asked.clips(asked.manifest(services.settings)), 1):
            try:
                samples = read_audio(clip.audio_path, clip.start_seconds, clip.end_seconds)
            except DataError:  # which the engines leave out, too
                continue
            language = resolve_language(language_of(asked.options, clip))
            if language == AUTO and played.tokens.languages:
                raise ConfigError("It hears no language by itself here: say which is spoken.")
            if len(samples) > _LONGEST:
                raise ConfigError("It hears clips of up to 30 seconds here: leave out longer ones.")
            prompt = played.tokens.prompt(language, asked.options.task, with_times=False)
            began = time.perf_counter()
            (written,) = played.generate(
                played.encode([samples]), [prompt], Search(max_new_tokens=WINDOW_TOKENS)
            )
            took += time.perf_counter() - began
            sound += len(samples) / SAMPLING_RATE
            key = (str(clip.audio_path), clip.line, clip.start_seconds)
            said = [token for token in written.tokens if token < played.tokens.end]
            text = tokenizer.decode(said, clean_up_tokenization_spaces=False)
            texts[key] = (clip.text, text.rstrip("\ufffd").strip())
            tell(place)
        return _Heard(texts, took / sound if sound else 0.0, exported.peak_bytes(played))
