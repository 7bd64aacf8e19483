"""A run that ended for want of memory, as what explains such an end wants it."""

from dataclasses import dataclass

from studio.memory.oom_text import read_report
from studio.memory.plan import LABEL_LENGTH
from studio.options.training import TrainingConfig
from studio.runs.manager import JobManager
from studio.runs.status import JobState, RunStatus, exit_code

_LINES = 2000
USUAL_LABEL_LENGTH = LABEL_LENGTH
"""Tokens of the longest text, where the run had not counted them yet."""


@dataclass(frozen=True)
class EndedRun:
    """What a run left behind."""

    text: str
    """Its log, and how its process ended if it could not say."""
    config: TrainingConfig
    label_length: int
    """Tokens of its longest text."""


def ended_run(jobs: JobManager, run_id: str) -> EndedRun:
    """The log and the plan of a run.

    Raises:
        RunError: if there is no such run.
    """
    status = jobs.status(run_id)
    text = jobs.log_tail(run_id, _LINES)
    if status.state is JobState.INTERRUPTED and (code := exit_code(jobs.folder(run_id))) is not None:
        text += f"\nexit code {code}"
    predicted = (status.memory or {}).get("predicted") or {}
    return EndedRun(text, status.config, int(predicted.get("label_length") or USUAL_LABEL_LENGTH))


def ran_out(jobs: JobManager, status: RunStatus) -> bool:
    """Whether a run failed, and its log speaks of memory."""
    if status.state not in (JobState.FAILED, JobState.INTERRUPTED):
        return False
    return read_report(ended_run(jobs, status.run_id).text).kind.is_memory
