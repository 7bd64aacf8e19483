"""Runs that ended for want of memory, explained by what they left behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.errors import RunError
from studio.files import write_json
from studio.memory.oom import explain
from studio.memory.oom_text import OomKind
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.runs.oom import USUAL_LABEL_LENGTH, ended_run, ran_out
from studio.settings import Settings
from studio.training.events import EventLog
from studio.training.run_dir import RunDir

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "11.76 GiB of which 1.20 GiB is free."
)


@pytest.fixture
def jobs(settings: Settings) -> Iterator[JobManager]:
    manager = JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))
    yield manager
    manager.close()


@pytest.fixture
def run(jobs: JobManager, settings: Settings, micro_model: Path, tones: Path) -> RunDir:
    """A run that was queued, and whose worker is gone."""
    config = TrainingConfig(base_model=str(micro_model), train_data=str(tones), lora_r=7)
    made = RunDir(settings.runs / jobs.submit(config))
    made.queue_entry.unlink()
    return made


def test_a_failed_run_is_explained_by_its_log_with_its_options_and_longest_text(
    jobs: JobManager, run: RunDir
) -> None:
    EventLog(run.events).write("memory", predicted={"label_length": 99}, measured={"device": "T4"})
    run.log.write_text(f"starting\n{OUT_OF_MEMORY}\n", encoding="utf-8")
    write_json(run.result, {"state": "failed"})
    ended = ended_run(jobs, run.run_id)
    assert (ended.config.lora_r, ended.label_length) == (7, 99)
    assert explain(ended.text).report.kind is OomKind.GPU
    assert ran_out(jobs, jobs.status(run.run_id))


def test_a_killed_worker_could_not_say_so_and_is_recognised_by_its_exit_code(
    jobs: JobManager, run: RunDir
) -> None:
    run.log.write_text("starting\n", encoding="utf-8")
    assert not ran_out(jobs, jobs.status(run.run_id))
    write_json(run.exit, {"exit_code": -9})
    assert explain(ended_run(jobs, run.run_id).text).report.kind is OomKind.KILLED
    assert ended_run(jobs, run.run_id).label_length == USUAL_LABEL_LENGTH
    assert ran_out(jobs, jobs.status(run.run_id))


def test_a_run_that_failed_for_something_else_or_did_not_fail_did_not_run_out(
    jobs: JobManager, run: RunDir
) -> None:
    run.log.write_text("Failed: the disk is full\n", encoding="utf-8")
    write_json(run.result, {"state": "failed"})
    assert not ran_out(jobs, jobs.status(run.run_id))
    run.log.write_text(OUT_OF_MEMORY, encoding="utf-8")
    write_json(run.result, {"state": "finished"})
    assert not ran_out(jobs, jobs.status(run.run_id))


def test_a_run_that_is_not_there_is_named(jobs: JobManager) -> None:
    with pytest.raises(RunError, match="no run 'nobody'"):
        ended_run(jobs, "nobody")
