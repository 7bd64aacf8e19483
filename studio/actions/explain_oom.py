"""Why a run was out of memory, and a run that fits: of a pasted text, or of a run of this studio."""

from dataclasses import dataclass, replace
from typing import Any

from studio.actions.estimate import shape_of
from studio.errors import RunError
from studio.memory.oom import OomDiagnosis, explain
from studio.memory.oom_text import OomKind, read_report
from studio.memory.plan import LABEL_LENGTH
from studio.options.arguments import command_line, config_to_dict
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.oom import ended_run
from studio.services import Services
from studio.training.plan import config_of, planned
from studio.training.warm_start import shaped


@dataclass(frozen=True)
class OomQuestion:
    """What was written, and by which run."""

    text: str
    """An error, or the end of a log."""
    config: TrainingConfig | None = None
    """The run, if it is known."""
    label_length: int = LABEL_LENGTH
    """Tokens of its longest text."""


@dataclass(frozen=True)
class OomAnswer:
    """The diagnosis, and a run that fits, if the run is known and there is one."""

    diagnosis: OomDiagnosis
    config: TrainingConfig | None

    @property
    def command(self) -> str | None:
        """What starts that run in a terminal."""
        return command_line(self.config) if self.config else None

    def to_json(self) -> dict[str, Any]:
        """For programs: what `OomDiagnosis` tells, and the options of the run that fits."""
        return {
            **self.diagnosis.to_json(),
            "config": config_to_dict(self.config) if self.config else None,
        }


def explain_oom(question: OomQuestion, registry: ModelRegistry) -> OomAnswer:
    """Reads the text; for a run that is known it looks for one that fits.

    Raises:
        ConfigError: if nothing is known about the shape of the run's model.
        ModelNotFoundError: if there is no such model.
    """
    config = question.config
    if config is None:
        return OomAnswer(explain(question.text), None)
    config = shaped(config, registry)
    plan = planned(config, question.label_length)
    diagnosis = explain(question.text, plan, shape_of(config.base_model, registry))
    repaired = diagnosis.repaired
    fitting = config_of(repaired.plan, config) if repaired and repaired.fits else None
    return OomAnswer(diagnosis, fitting)


def question_of_run(run_id: str, services: Services, label_length: int | None = None) -> OomQuestion:
    """What a run of this studio left behind: its log, its options, its longest text unless that is given.

    Raises:
        RunError: if there is no such run, or its log says nothing of memory.
    """
    ended = ended_run(services.jobs, run_id)
    if read_report(ended.text).kind is OomKind.UNKNOWN:
        raise RunError("The log of the run {run} says nothing of memory that ran out.", run=run_id)
    question = OomQuestion(ended.text, ended.config, ended.label_length)
    return question if label_length is None else replace(question, label_length=label_length)
