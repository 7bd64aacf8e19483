"""The last thing a run does: measures what its model can still do that the base could."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from studio.dataset.example import Example, spread
from studio.errors import StudioError, in_brief
from studio.evaluation.capabilities import CapabilityReport, KeptReadings, check_capabilities
from studio.evaluation.reading_short import measure_short, ways_of
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelSpec
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.data.sources import other_clips
from studio.training.events import EventLog, RunPhase
from studio.training.finished_model import update_cards
from studio.training.outcome import Outcome
from studio.training.stop import StopSignal
from studio.transcription.languages import AUTO
from studio.transcription.loading import Load
from studio.transcription.model_cache import ModelCache
from studio.whisper.audio_context import SHORT

log = logging.getLogger("studio.training")
_DISTILLED_CLIPS = 200
"""What a student is made for is measured on as many."""
_FEW_CLIPS = 8
_SHARE_OF_RUN, _LEAST_SECONDS = 0.1, 60.0
"""What the check may take: a tenth of the training, or a minute; once what the base reads for the first time
comes on top."""
_LEAST_CLIP_SECONDS = 4.0
"""Models of shorter ones always read long recordings in whole windows."""
_KEPT_SECONDS = 3600.0
"""No model leaves between two measures."""


@dataclass(frozen=True)
class MadeModel:
    """What a run has made, what it was made of, and where what is found is put."""

    registry: ModelRegistry
    config: TrainingConfig
    examples: Sequence[Example]
    """Clips that the run was evaluated on."""
    outcome: Outcome
    events: EventLog
    stop: StopSignal
    settings: Settings
    """In whose cache what the base reads is kept for other runs."""
    learned: Collection[Example] = ()
    """Those of them that it was also trained on."""

    @property
    def spec(self) -> ModelSpec:
        """The model's row in the registry."""
        return self.registry.get(str(self.outcome.model_id))

    def annotate(self, found: Mapping[str, Any]) -> None:
        """Puts something onto the model's cards, and onto those of its copy in `output_dir`."""
        self.registry.annotate(self.spec.id, found)
        update_cards(self.spec, self.config)

    def note_progress(self, done: int, total: int) -> None:
        """How many of the measures are done."""
        self.events.write("eval_progress", done=done, total=total)

    @property
    def base_id(self) -> str:
        """The model it is measured beside."""
        return str(self.spec.base_model or self.config.base_model)


def measure_after(made: MadeModel, threads: int, load: Load | None = None) -> None:
    """Puts what the model can still do, and what short windows gain and cost it, into outcome and card.

    The model is made: nothing here fails the run. Base and model are loaded once for all measures and are
    gone when it returns: together they take less than the training did. `threads` and `load` are those of
    `ModelCache`.
    """
    if made.outcome.state != "finished" or made.outcome.model_id is None:
        return
    is_checked = made.config.capability_check and made.config.evaluates
    most = max(_LEAST_SECONDS, _SHARE_OF_RUN * made.outcome.seconds.get("training", 0.0))
    until = time.monotonic() + most
    engines = ModelCache(made.registry, idle_seconds=_KEPT_SECONDS, threads=threads, load=load)
    try:
        if is_checked:
            with _given_up_with(made, Message("What tuning changed could not be measured: {reason}")):
                _check_capabilities(made, engines, until)
        if is_checked or made.config.distill:
            with _given_up_with(made, Message("Short-audio mode could not be measured: {reason}")):
                _measure_short_windows(made, engines, until)
    finally:
        engines.close()


def _check_capabilities(made: MadeModel, engines: ModelCache, until: float) -> None:
    _begin(made, RunPhase.CHECKING, "checking what the model can still do")
    spec = made.spec
    try:
        others = other_clips(made.config, made.settings, spec.card.get("languages") or ())
    except StudioError as error:
        others = []
        made.events.warn(Message("Other languages could not be checked: {reason}", reason=error))
    _keep(made, CapabilityReport(spec.id, made.base_id, ()))  # should it fail, nothing is known of the model
    readings = _readings(made)
    report = check_capabilities(
        engines,
        spec.id,
        made.base_id,
        made.examples,
        others,
        on_progress=made.note_progress,
        should_stop=lambda: made.stop.is_set,
        is_late=lambda: time.monotonic() > until + readings.first_seconds,
        kept=readings,
        clip_errors=_errors_in_clips(made),
    )
    _keep(made, report)
    for row in report.checks:
        log.info(
            "%s: %.0f %% before, %.0f %% after (%s)", row.check, 100 * row.base, 100 * row.tuned, row.verdict
        )


def _keep(made: MadeModel, report: CapabilityReport) -> None:
    is_synthetic = not made.config.other_languages_data
    made.outcome.capabilities = {**report.to_json(), "is_synthetic": is_synthetic}
    found: dict[str, Any] = {"capabilities": made.outcome.capabilities}
    if report.long_windows == SHORT:
        log.info("Long recordings are read in windows as long as the clips: in whole ones more is wrong.")
        found["long_recordings"] = SHORT
    made.annotate(found)


def _errors_in_clips(made: MadeModel) -> float | None:
    """Error rate of a model that learned clips in short windows; None if their length cuts through words."""
    final = made.outcome.metrics.get("final") or {}
    lengths = made.spec.clip_seconds
    if made.spec.audio_context != SHORT or lengths is None or lengths[1] < _LEAST_CLIP_SECONDS:
        return None
    errors = final.get(made.outcome.metrics.get("metric"))
    return float(errors) if errors is not None else None


def _readings(made: MadeModel) -> KeptReadings:
    """What the base has read for the checks of earlier runs."""
    revision = str(made.spec.card.get("base_revision") or "")
    path = made.settings.cache / "readings.json" if revision else None
    return KeptReadings(path, f"{made.base_id} {revision}")


def _measure_short_windows(made: MadeModel, engines: ModelCache, until: float) -> None:
    """What a student was made for is measured however long it takes; else there is the time that is left."""
    if not made.config.distill and time.monotonic() > until:
        return
    _begin(made, RunPhase.TIMING, "measuring what short windows gain and cost")
    spec = made.spec
    ways = ways_of(spec.id, made.base_id, spec.audio_context)
    clips = spread(made.examples, _DISTILLED_CLIPS if made.config.distill else _FEW_CLIPS)
    language = next(iter(spec.card.get("languages") or ()), AUTO)
    report = measure_short(
        engines,
        ways,
        made.base_id,
        clips,
        language,
        lambda: made.stop.is_set or (not made.config.distill and time.monotonic() > until),
        on_progress=made.note_progress,
    )
    if len(report.readings) < 2:  # stopped, or late: there is nothing to compare
        return
    learned = sum(clip in made.learned for clip in clips)
    made.outcome.short_audio = replace(report, learned=learned).to_json()
    made.annotate({"short_audio": made.outcome.short_audio})


def _begin(made: MadeModel, phase: RunPhase, what: str) -> None:
    made.events.write("phase", phase=phase)
    log.info("%s", what)


@contextmanager
def _given_up_with(made: MadeModel, sentence: Message) -> Iterator[None]:
    """If the measurement fails, `sentence` is said with its reason, and the run goes on."""
    try:
        yield
    except Exception as error:
        log.exception("A measurement of the model was given up.")
        reason = in_brief(error, 200) or type(error).__name__
        made.events.warn(Message(sentence.template, reason=reason))
