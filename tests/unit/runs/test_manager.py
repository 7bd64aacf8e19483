"""The queue and the state of runs, read from their folders. Processes that sleep stand in for workers."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from studio.errors import ConfigError, ModelNotFoundError, RunError, StorageError
from studio.files import append_json_line, read_json, write_json
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs import process
from studio.runs.manager import MOST_OPEN, MOST_OPEN_OF_A_VISITOR, JobManager, JobState
from studio.runs.starter import RunQueue
from studio.settings import Settings
from studio.training.events import EventLog
from studio.training.run_dir import RunDir
from studio.translation import said
from tests.studio_process import ROOT


@pytest.fixture
def jobs(settings: Settings) -> Iterator[JobManager]:
    """A manager whose thread does not run: nothing starts by itself."""
    manager = new_manager(settings)
    yield manager
    manager.close()


def new_manager(settings: Settings) -> JobManager:
    return JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))


@pytest.fixture
def config(micro_model: Path, tones: Path) -> TrainingConfig:
    return TrainingConfig(base_model=str(micro_model), train_data=str(tones))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that could be a worker."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def run_of(settings: Settings, run_id: str) -> RunDir:
    return RunDir(settings.runs / run_id)


def pretend_started(run: RunDir, child: subprocess.Popen[bytes]) -> None:
    started = psutil.Process(child.pid).create_time()
    write_json(run.process, {"schema_version": 1, "pid": child.pid, "started": started})
    run.queue_entry.unlink()


def finish(run: RunDir, state: str, **more: Any) -> None:
    run.queue_entry.unlink(missing_ok=True)
    write_json(run.result, {"schema_version": 1, "state": state, **more})


def test_a_submitted_run_waits_and_is_found_by_any_studio(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    for manager in (jobs, new_manager(settings)):
        status = manager.status(run_id)
        assert (status.state, status.queue_position) == (JobState.QUEUED, 1)
        assert status.config == config and status.created
        assert status.can_stop and not status.can_resume


def test_who_stops_a_run_while_another_one_is_started_for_long_is_told_so(
    jobs: JobManager, settings: Settings, config: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = jobs.submit(config)
    monkeypatch.setattr("studio.runs.manager._LOCK_SECONDS", 0.1)
    with FileLock(settings.home / "queue.lock"), pytest.raises(RunError, match="A run is being started"):
        jobs.stop(run_id)
    jobs.stop(run_id)
    assert jobs.status(run_id).state is JobState.STOPPED


def test_the_queue_is_first_come_first_served(jobs: JobManager, config: TrainingConfig) -> None:
    ids = [jobs.submit(config) for _ in range(3)]
    assert [jobs.status(run_id).queue_position for run_id in ids] == [1, 2, 3]
    assert [status.run_id for status in jobs.runs()] == ids[::-1], "the list has the newest first"
    jobs.stop(ids[0])
    assert [jobs.status(run_id).queue_position for run_id in ids] == [None, 1, 2]
    jobs.resume(ids[0])
    assert [jobs.status(run_id).queue_position for run_id in ids] == [3, 1, 2]


def test_visitors_cannot_fill_the_queue(jobs: JobManager, settings: Settings, config: TrainingConfig) -> None:
    config = replace(config, train_data="demo")
    one, other = (jobs.seen_with(replace(settings, visitor=name)) for name in ("one", "other"))
    ids = [one.submit(config) for _ in range(MOST_OPEN_OF_A_VISITOR)]
    with pytest.raises(RunError, match="3 of your runs wait or train"):
        one.submit(config)
    one.stop(ids[0])
    one.submit(config)
    with pytest.raises(RunError, match="3 of your runs wait or train"):
        one.resume(ids[0])
    assert other.submit(config)
    waiting = len(jobs.runs()) - 1
    for number in range(MOST_OPEN - waiting):
        shutil.copytree(settings.runs / ids[1], settings.runs / f"copy-{number}")
    with pytest.raises(RunError, match="50 runs wait here"):
        other.submit(config)
    assert jobs.submit(config), "the owner always may"


def test_a_run_whose_place_in_the_queue_cannot_be_read_is_started_all_the_same(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    first, second = (run_of(settings, jobs.submit(config)) for _ in range(2))
    whole = first.queue_entry.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"[]"):
        first.queue_entry.write_bytes(content)
        os.utime(first.queue_entry, (1e9, 1e9))
        assert RunQueue(settings).waiting() == [first, second]


def test_state_follows_the_process_and_the_result(
    jobs: JobManager, settings: Settings, config: TrainingConfig, sleeper: subprocess.Popen[bytes]
) -> None:
    run_id = jobs.submit(config)
    run = run_of(settings, run_id)
    pretend_started(run, sleeper)
    assert jobs.status(run_id).state is JobState.STARTING
    EventLog(run.events).write("phase", phase="training")
    assert jobs.status(run_id).state is JobState.RUNNING
    jobs.stop(run_id)
    assert jobs.status(run_id).state is JobState.STOPPING
    assert run.stop_request.exists() and not jobs.status(run_id).can_stop
    sleeper.kill()
    sleeper.wait()
    assert jobs.status(run_id).state is JobState.STOPPED, "it was asked to stop, and is gone"
    run.stop_request.unlink()
    assert jobs.status(run_id).state is JobState.INTERRUPTED
    finish(run, "finished")
    assert jobs.status(run_id).state is JobState.FINISHED


def test_another_process_of_the_same_pid_is_not_the_worker(
    jobs: JobManager, settings: Settings, config: TrainingConfig, sleeper: subprocess.Popen[bytes]
) -> None:
    run_id = jobs.submit(config)
    run = run_of(settings, run_id)
    pretend_started(run, sleeper)
    started = read_json(run.process)["started"]
    write_json(run.process, {"schema_version": 1, "pid": sleeper.pid, "started": started - 1000})
    assert jobs.status(run_id).state is JobState.INTERRUPTED


def test_a_worker_is_known_after_the_clock_was_set(
    jobs: JobManager, settings: Settings, config: TrainingConfig, sleeper: subprocess.Popen[bytes]
) -> None:
    run = run_of(settings, jobs.submit(config))
    pretend_started(run, sleeper)
    record = read_json(run.process)
    ticks = int(Path(f"/proc/{sleeper.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    write_json(run.process, {**record, "started": record["started"] + 7200, "ticks": ticks})
    assert process.is_alive(run)
    write_json(run.process, {**record, "ticks": ticks + 1})
    assert not process.is_alive(run), "another process has its number"


def test_a_worker_that_speaks_after_the_clock_was_set_back_is_running_and_is_never_late(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run = run_of(settings, jobs.submit(config))
    run.queue_entry.unlink()
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    row = {"v": 1, "kind": "phase", "phase": "training"}
    append_json_line(run.events, {**row, "time": time.time() + 7200})
    sleeping = replace(settings, popen=lambda _words, **how: subprocess.Popen(sleeps, **how))
    worker = process.spawn(run, sleeping)
    try:
        assert jobs.status(run.run_id).state is JobState.STARTING, "another worker said that"
        append_json_line(run.events, {**row, "time": time.time() - 7200})
        progress = {"v": 1, "kind": "eval_progress", "time": time.time() - 9000, "done": 1, "total": 9}
        append_json_line(run.events, progress)
        status = jobs.status(run.run_id)
        assert status.state is JobState.RUNNING and jobs.running() == run.run_id
        assert (status.eta_seconds or 0) >= 0
    finally:
        worker.kill()
        worker.wait()
    assert jobs.status(run.run_id).state is JobState.INTERRUPTED


def test_a_clock_set_back_neither_reorders_the_queue_nor_mixes_up_names(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    first = jobs.submit(config)
    write_json(run_of(settings, first).queue_entry, {"schema_version": 1, "queued": time.time() + 7200})
    second, third = jobs.submit(config), jobs.submit(config)
    assert [jobs.status(run_id).queue_position for run_id in (first, second, third)] == [1, 2, 3]
    assert len({first, second, third}) == 3


def test_a_zombie_is_dead(jobs: JobManager, settings: Settings, config: TrainingConfig) -> None:
    run_id = jobs.submit(config)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pretend_started(run_of(settings, run_id), child)
    child.kill()
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert jobs.status(run_id).state is JobState.INTERRUPTED
    child.communicate()


def test_an_exit_code_of_minus_nine_is_probably_memory(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    run = run_of(settings, run_id)
    run.queue_entry.unlink()
    assert "it was killed, or the machine was switched off" in str(jobs.status(run_id).error)
    write_json(run.exit, {"schema_version": 1, "exit_code": -9})
    status = jobs.status(run_id)
    assert "probably for memory" in str(status.error) and status.can_resume
    write_json(run.exit, {"schema_version": 1, "exit_code": 7})
    assert "exit code 7" in str(jobs.status(run_id).error)


def test_a_killed_worker_that_has_a_successor_is_never_told_as_interrupted(
    settings: Settings, config: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = new_manager(replace(settings, popen=lambda _, **how: subprocess.Popen(["sleep", "600"], **how)))
    run, starter = run_of(settings, jobs.submit(config)), jobs._starter
    starter._start_next()
    EventLog(run.events).write("phase", phase="training")
    worker = psutil.Process(process.recorded_pid(run))
    worker.kill()
    while worker.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    asked = starter.has_to_see_to
    monkeypatch.setattr(starter, "has_to_see_to", lambda run: (starter._reap(), asked(run))[1])
    status = jobs.status(run.run_id)
    assert (status.state, len(status.retries)) == (JobState.QUEUED, 1), "decided as the status was read"


def test_resume_queues_again_and_takes_the_result_back(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    run = run_of(settings, run_id)
    finish(run, "failed", error="No space.")
    run.stop_request.touch()
    assert str(jobs.status(run_id).error) == "No space."
    jobs.resume(run_id)
    assert jobs.status(run_id).state is JobState.QUEUED
    assert not run.stop_request.exists() and not run.result.exists()


def test_a_worker_that_has_closed_its_record_is_gone_before_the_run_goes_on(
    jobs: JobManager, settings: Settings, config: TrainingConfig, sleeper: subprocess.Popen[bytes]
) -> None:
    run = run_of(settings, jobs.submit(config))
    pretend_started(run, sleeper)
    finish(run, "failed", error="The other machine is gone.")
    threading.Thread(target=sleeper.wait).start()
    jobs.resume(run.run_id)
    assert not psutil.pid_exists(sleeper.pid), "it might still hold the port that the next one needs"
    assert jobs.status(run.run_id).state is JobState.QUEUED


def test_waiting_for_the_exit_of_a_worker_ends_when_it_is_gone(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run = run_of(settings, jobs.submit(config))
    process.wait_for_exit(run)  # never started: nothing to wait for
    brief = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"])
    pretend_started(run, brief)
    process.wait_for_exit(run)
    assert not process.is_alive(run)
    assert brief.wait() == 0, "it was not ended, it ended"


def test_what_cannot_be_done_is_refused_with_a_sentence(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    with pytest.raises(RunError, match="is queued: it cannot be resumed"):
        jobs.resume(run_id)
    with pytest.raises(RunError, match="is active: stop it"):
        jobs.remove(run_id)
    with pytest.raises(RunError, match="is active: stop it"):
        jobs.remove_checkpoints(run_id)
    finish(run_of(settings, run_id), "finished")
    with pytest.raises(RunError, match="nothing to stop"):
        jobs.stop(run_id)
    with pytest.raises(RunError, match="cannot be resumed"):
        jobs.resume(run_id)
    for name in ("none", "../runs", ""):
        with pytest.raises(RunError, match="There is no run"):
            jobs.status(name)


def test_a_removed_run_is_gone(jobs: JobManager, settings: Settings, config: TrainingConfig) -> None:
    run_id = jobs.submit(config)
    finish(run_of(settings, run_id), "finished")
    jobs.remove(run_id)
    assert jobs.runs() == () and list(settings.runs.iterdir()) == []


def test_what_a_killed_studio_left_of_a_removed_run_goes_at_the_next_start_and_removal(
    jobs: JobManager, settings: Settings, config: TrainingConfig, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def left(name: str) -> None:
        (settings.runs / name / "checkpoints").mkdir(parents=True)

    left(".removed-1")
    (settings.runs / ".removed-2").symlink_to(elsewhere)
    jobs.start()
    for _ in range(1000):
        if not list(settings.runs.iterdir()):
            break
        time.sleep(0.01)
    assert list(settings.runs.iterdir()) == [] and elsewhere.is_dir()
    jobs.close()
    left(".removed-3")
    run_id = jobs.submit(config)
    finish(run_of(settings, run_id), "finished")
    jobs.remove(run_id)
    assert list(settings.runs.iterdir()) == []


def test_a_run_that_cannot_be_is_refused_when_submitted(
    jobs: JobManager, settings: Settings, config: TrainingConfig, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not empty"):
        jobs.submit(TrainingConfig(**{**vars(config), "output_dir": str(tmp_path)}))
    with pytest.raises(ModelNotFoundError):
        jobs.submit(TrainingConfig(**{**vars(config), "base_model": "no such model"}))
    with pytest.raises(ZeroDivisionError):  # whatever it is that fails half-way
        jobs.submit(config, notes=(Message(str(1 // count)) for count in (0,)))
    assert jobs.runs() == () and not any(settings.runs.iterdir())


def test_training_can_be_switched_off(settings: Settings, config: TrainingConfig) -> None:
    off = Settings(home=settings.home, allow_training=False)
    with pytest.raises(RunError, match="STUDIO_ALLOW_TRAINING"):
        new_manager(off).submit(config)


def test_paths_hold_in_any_working_directory(jobs: JobManager, micro_model: Path, tones: Path) -> None:
    config = TrainingConfig(base_model=str(micro_model), train_data=tones.name, output_dir="out")
    with chdir(tones.parent):
        run_id = jobs.submit(config)
    status = jobs.status(run_id)
    assert status.config.train_data == str(tones)
    assert status.config.output_dir == str(tones.parent / "out")


def test_a_model_folder_holds_in_any_working_directory(
    jobs: JobManager, config: TrainingConfig, micro_model: Path
) -> None:
    with chdir(micro_model.parent):
        run_id = jobs.submit(replace(config, base_model=micro_model.name))
    assert jobs.status(run_id).config.base_model == str(micro_model)


def test_several_lists_and_shards_hold_in_any_working_directory(
    jobs: JobManager, config: TrainingConfig, tones: Path
) -> None:
    named = {"train_data": "train-{00..07}.tar", "other_languages_data": f"{tones.name},demo:test"}
    with chdir(tones.parent):
        status = jobs.status(jobs.submit(TrainingConfig(**{**vars(config), **named})))
    assert status.config.train_data == str(tones.parent / "train-{00..07}.tar")
    assert status.config.other_languages_data == f"{tones},demo:test"
    with chdir(tones.parent.parent):
        named = {"train_data": f"{tones.parent.name}::tones+tones", "test_data": "a/b::test"}
        status = jobs.status(jobs.submit(TrainingConfig(**{**vars(config), **named})))
    assert (status.config.train_data, status.config.test_data) == (
        f"{tones.parent}::tones+tones",
        "a/b::test",
    )


def test_a_worker_looks_for_sounds_where_its_run_was_asked_for(
    settings: Settings, config: TrainingConfig, tmp_path: Path
) -> None:
    asked: list[dict[str, str]] = []

    def popen(*_: Any, env: dict[str, str], **__: Any) -> subprocess.Popen[bytes]:
        asked.append(env)
        return subprocess.Popen([sys.executable, "-c", ""])

    with chdir(tmp_path):
        manager = new_manager(settings)
        run = run_of(settings, manager.submit(config))
        manager.close()
    process.spawn(run, replace(settings, popen=popen)).wait()
    assert Settings.from_env(asked[0]).working_dir == tmp_path


def test_the_base_of_an_active_run_is_in_use(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    assert jobs.models_in_use() == {config.base_model: Message("run {run} trains on it", run=run_id)}
    finish(run_of(settings, run_id), "finished")
    assert jobs.models_in_use() == {}


def test_a_run_without_a_readable_configuration_is_shown_as_failed(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(config)
    run_of(settings, run_id).config.write_text("{", encoding="utf-8")
    (status,) = jobs.runs()
    assert status.state is JobState.FAILED and "is not valid" in str(status.error)


def test_the_log_is_shown_from_its_end(jobs: JobManager, settings: Settings, config: TrainingConfig) -> None:
    run_id = jobs.submit(config)
    assert jobs.log_tail(run_id) == ""
    lines = [f"line {number} ✓" for number in range(100_000)]
    run_of(settings, run_id).log.write_text("\n".join(lines), encoding="utf-8")
    assert jobs.log_tail(run_id, lines=3) == "\n".join(lines[-3:])


def test_a_tree_of_processes_ends_whole(settings: Settings, tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    parent = subprocess.Popen([sys.executable, "-c", script])
    write_json(run.process, {"pid": parent.pid, "started": psutil.Process(parent.pid).create_time()})
    while not (children := psutil.Process(parent.pid).children()):
        time.sleep(0.01)
    threading.Thread(target=parent.wait).start()
    process.terminate_tree(run)
    assert not process.is_alive(run)
    assert not any(child.is_running() for child in children)


def test_only_one_of_many_takes_the_next_run(settings: Settings, config: TrainingConfig) -> None:
    manager = new_manager(settings)
    run_id = manager.submit(config)
    queue = RunQueue(settings)
    taken: list[str] = []

    def take() -> None:
        with queue.lock(30):
            run = queue.next()
            if run is not None:
                taken.append(run.run_id)
                run.queue_entry.unlink()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == [run_id]


def test_on_a_full_disk_one_worker_is_started_and_ended_and_the_next_waits(
    settings: Settings, config: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def popen(*_: Any, **__: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return started[-1]

    def full(path: Path, _: Any) -> None:
        raise StorageError("No space left on {path}.", path=path)

    manager = new_manager(replace(settings, popen=popen))
    run_id = manager.submit(config)
    for module in ("process", "starter"):
        monkeypatch.setattr(f"studio.runs.{module}.write_json", full)
    manager.start()
    time.sleep(3)  # that nothing else is started only time can tell
    assert len(started) == 1 and started[0].poll() is not None
    assert manager.status(run_id).state is JobState.QUEUED
    manager.close()


def test_two_hundred_runs_are_listed_without_reading_their_curves(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    point = {"step": 3, "epoch": 1.0, "wer": 0.5, "cer": 0.4, "loss": 1.0, "intervals": {"wer": [0.4, 0.6]}}
    for number in range(200):
        run = RunDir(settings.runs / f"run-{number:03}")
        run.path.mkdir()
        write_json(run.config, {"base_model": "demo"})
        write_json(run.record, {"created": f"2026-01-01T00:{number:03}"})
        run.events.write_text("this would not be read\n" * 10, encoding="utf-8")
        metrics = {"metric": "wer", "best_step": 3, "base": {**point, "step": 0}, "final": point}
        finish(run, "finished", metrics=metrics, step=6, max_steps=9, model_id=f"m{number}")
    runs = jobs.runs()
    assert len(runs) == 200 and runs[0].run_id == "run-199"
    assert [at.step for at in runs[0].eval_points] == [0, 3]
    assert (runs[0].step, runs[0].max_steps, runs[0].model_id) == (6, 9, "m199"), "it ended early"


def ended_run(settings: Settings, name: str, **result: Any) -> RunDir:
    """A run that finished an hour ago."""
    run = run_of(settings, name)
    run.path.mkdir()
    write_json(run.config, {"base_model": "demo"})
    finish(run, "finished", **result)
    an_hour_ago = time.time() - 3600
    for path in (run.config, run.result, run.path):
        os.utime(path, (an_hour_ago, an_hour_ago))
    return run


def test_the_newest_runs_are_listed_and_one_that_is_at_work_whatever_its_age(
    jobs: JobManager, settings: Settings, config: TrainingConfig
) -> None:
    run_id = jobs.submit(replace(config, run_name="first"))
    for day in range(10, 20):
        ended_run(settings, f"later-209001{day}-000000")
    listed = [run.run_id for run in jobs.runs(3)]
    assert listed == [run_id, *(f"later-209001{day}-000000" for day in (19, 18, 17))]
    assert jobs.count() == 11 == len(jobs.runs())


def test_runs_that_ended_are_not_read_again_until_they_change(jobs: JobManager, settings: Settings) -> None:
    run = ended_run(settings, "done-20260101-000000", model_id="one")
    assert [status.model_id for status in jobs.runs()] == ["one"]
    before = run.result.stat()
    run.result.write_bytes(run.result.read_bytes().replace(b"one", b"two"))
    os.utime(run.result, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [status.model_id for status in jobs.runs()] == ["one"], "its files look unchanged"
    os.utime(run.result)
    assert [status.model_id for status in jobs.runs()] == ["two"]


def test_a_run_that_ended_and_goes_on_is_seen_at_once(jobs: JobManager, settings: Settings) -> None:
    run = ended_run(settings, "done-20260101-000000")
    queue = RunQueue(settings)
    assert queue.open() == []
    run.result.unlink()
    queue.enter(run)
    assert queue.waiting() == [run] == queue.open()


def test_why_a_worker_could_not_be_started_is_kept_for_any_language(
    settings: Settings, config: TrainingConfig
) -> None:
    def full(*_: Any, **__: Any) -> subprocess.Popen[bytes]:
        raise OSError("no room")

    manager = new_manager(replace(settings, popen=full))
    run_id = manager.submit(config)
    manager._starter._start_next()
    assert read_json(run_of(settings, run_id).result)["error"] == "The worker could not be started: no room"
    error = manager.status(run_id).error
    assert error is not None and said(error, "zh-CN") == "无法启动训练进程：no room"


def test_what_is_said_of_a_runs_options_is_among_its_warnings(
    jobs: JobManager, config: TrainingConfig
) -> None:
    note = Message("test_data is given, too")
    status = jobs.status(jobs.submit(config, [note]))
    assert (status.state, status.warnings) == (JobState.QUEUED, (note,))


def test_a_link_to_itself_hides_no_run(jobs: JobManager, settings: Settings, config: TrainingConfig) -> None:
    run_id = jobs.submit(config)
    (settings.runs / "round").symlink_to("round")
    assert [row.run_id for row in jobs.runs()] == [run_id]


def test_a_run_for_which_there_is_no_room_leaves_nothing(environ: dict[str, str], studio_home: Path) -> None:
    """A limit on the size of files is what a full disk is: the first that does not fit cannot be written.
    That may not be one of the studio's own compiled modules, which would be cut off for all that follow."""
    words = ["train", "--no_wait", "--base_model", "demo", "--train_data", "demo"]
    done = subprocess.run(
        [sys.executable, "-m", "studio", *words],
        cwd=ROOT,
        env={**environ, "STUDIO_HOME": str(studio_home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)),
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert list((studio_home / "runs").iterdir()) == []
