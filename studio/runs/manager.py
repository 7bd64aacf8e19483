"""`JobManager`: what a studio does with runs. The folders under `runs/` are the truth.

Any number of studios may share one home: a lock decides who starts a run.
"""

import copy
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import Timeout

from studio.errors import RunError, StudioError
from studio.files import storage_errors, sweep, take_away, user_path, write_json, write_text
from studio.memory.gpus import detected_gpus
from studio.messages import Message
from studio.options.arguments import config_to_dict
from studio.options.sources import folder_and_splits, is_demo, sources_of
from studio.options.training import FIELDS, TrainingConfig
from studio.registry.catalog import find_released
from studio.registry.hub import id_of_address
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.registry.validate import check_window
from studio.runs import process
from studio.runs.confinement import require_confined
from studio.runs.disk import remove_checkpoints
from studio.runs.history import Histories
from studio.runs.starter import RunQueue, Starter, close_record, is_settled
from studio.runs.status import ACTIVE, EvalPoint, JobState, RunStatus, created_at, read_run_config, read_state
from studio.runs.view import view
from studio.settings import Settings
from studio.training.events import EventLog
from studio.training.finished_model import check_output_dir
from studio.training.launch import check_processes
from studio.training.preflight import check_logger
from studio.training.record import started_by
from studio.training.run_dir import RunDir
from studio.training.warm_start import called_now, warm_started

__all__ = ["EvalPoint", "JobManager", "JobState", "RunStatus"]

_LOCK_SECONDS = 30.0
"""A start takes a fraction of a second, on a machine that is short of memory longer."""
_LOG_BYTES = 256 * 1024
_MOST_REMEMBERED = 1000
MOST_OPEN_OF_A_VISITOR, MOST_OPEN = 3, 50
"""Runs that wait or are at work, where visitors of a Space train."""
MOST_LISTED = 200
"""Runs, the newest: to read ten thousand takes many seconds, and a page with as many rows is slow to draw."""
_BEGUN = re.compile(r"-(\d{8}-\d{6})(?:-\d+)?\Z")
"""What the name of a run's folder ends with (see `_new_folder`)."""
log = logging.getLogger(__name__)


class JobManager:
    """Submits, watches, stops, resumes and removes runs. Safe to share by threads."""

    def __init__(
        self, settings: Settings, registry: ModelRegistry, before_start: Callable[[], None] = lambda: None
    ) -> None:
        """`before_start` is called before a worker is started, to free memory."""
        self._settings = settings
        self._registry = registry
        self._histories = Histories()
        self._seen: dict[str, tuple[tuple[int, ...], RunStatus]] = {}
        """Run that has ended → when its files changed last, and how it was then."""
        self._started_by: dict[str, str] = {}
        """Run → which visitor of a Space started it; empty if none of them did."""
        self._called: tuple[int, dict[str, str], dict[str, str]] = (0, {}, {})
        """When the folder of models changed last, in ns; run → the id that its model had then, and the id of
        one that is gone → that of the model that had it."""
        self._queue = RunQueue(settings)
        self._starter = Starter(self._queue, before_start)

    def seen_with(self, settings: Settings) -> "JobManager":
        """The same runs as one who has these settings sees them: a visitor of a Space, only their own."""
        if settings is self._settings:
            return self
        seen = copy.copy(self)
        seen._settings = settings
        return seen

    def start(self) -> None:
        """Starts the background thread, once."""
        self._starter.start()

    def close(self) -> None:
        """Ends the thread. Workers go on: they belong to nobody."""
        self._starter.close()

    # ------------------------------------------------------------------ what the user does

    def submit(self, config: TrainingConfig, notes: Iterable[Message] = ()) -> str:
        """Queues a run, which has `notes` among its warnings, and gives its id. Relative paths are taken from
        the working directory, now.

        Raises:
            RunError: if training is switched off here, or of a visitor too many runs wait.
            ModelNotFoundError, ConfigError: if base model, adapter or output folder cannot be used, or on a
                Space a path leads out of its own folder.
            AdapterMismatchError: if the adapter to go on from is none of this base model.
            StorageError: if the run's folder cannot be written.
        """
        if not self._settings.allow_training:
            raise RunError(
                "Training is switched off in this studio: set STUDIO_ALLOW_TRAINING=1 to allow it."
            )
        self._require_turn()
        config = self.checked(config)
        run = self._new_folder(config)
        asked = {"created": datetime.now(UTC).isoformat()}
        asked["working_dir"] = str(self._settings.working_dir.absolute())
        if self._settings.visitor:
            asked["visitor"] = self._settings.visitor
        try:
            write_json(run.record, {"schema_version": 1, **asked})
            write_json(run.config, config_to_dict(config))
            for each in notes:
                EventLog(run.events).warn(each)
            self._queue.enter(run)
        except Exception:
            shutil.rmtree(run.path, ignore_errors=True)
            raise
        self._starter.wake()
        return run.run_id

    def checked(self, config: TrainingConfig) -> TrainingConfig:
        """The options as a run of them keeps them, if they can be carried out here.

        Raises:
            RunError, ModelNotFoundError, ConfigError, AdapterMismatchError, StorageError: as `submit`.
        """
        base = self._registry.get(config.base_model)
        if base.problem:
            raise RunError("{model} cannot be trained: {problem}", model=base.id, problem=base.problem)
        check_window(base.id, base.dimensions)
        require_confined(config, self._settings)
        config = self.as_kept(config)
        check_output_dir(config, self._settings.home)
        check_processes(config, len(detected_gpus()), os.cpu_count() or 1)
        check_logger(config)
        return config

    def as_kept(self, config: TrainingConfig) -> TrainingConfig:
        """The options as a run of them keeps them: whole names and paths, and an adapter's own shape.

        Raises:
            ModelNotFoundError, ConfigError, AdapterMismatchError: as `submit`.
        """
        config = with_absolute_paths(config)
        base_model, adapter = self._full_name(config.base_model), self._full_name(config.adapter)
        return warm_started(replace(config, base_model=base_model, adapter=adapter), self._registry)

    def stop(self, run_id: str) -> None:
        """Asks a run to save a checkpoint and end; takes a waiting one out of the queue.

        Raises:
            RunError: if there is no such run, or it has ended.
        """
        run = self.folder(run_id)
        with self._locked():
            state = self._state(run)
            if state is JobState.QUEUED:
                close_record(run, JobState.STOPPED)
                run.queue_entry.unlink(missing_ok=True)
            elif state in ACTIVE:
                if not run.stop_request.exists():
                    write_text(run.stop_request, "")
            else:
                raise RunError(
                    "Run {run} is {state}: there is nothing to stop.", run=run_id, state=state.value
                )

    def resume(self, run_id: str, machines: TrainingConfig | None = None) -> None:
        """Queues a run again that was stopped, interrupted or failed; it goes on from its last checkpoint.

        `machines` says where machine 0 is now, if it may have moved.

        Raises:
            RunError: if there is no such run, it is active, or it is finished; or of a visitor too many wait.
        """
        run = self.folder(run_id)
        self._require_turn()
        with self._locked():
            state = self._state(run)
            if state in ACTIVE or state is JobState.FINISHED:
                raise RunError("Run {run} is {state}: it cannot be resumed.", run=run_id, state=state.value)
            process.terminate_tree(run)  # its record is closed, but while it leaves it may hold a port
            if machines is not None:
                config, _ = read_run_config(run)
                moved = {name: getattr(machines, name) for name in ("main_process_ip", "main_process_port")}
                write_json(run.config, config_to_dict(replace(config, **moved)))
            # The result goes last: until then the run counts as ended, and nobody starts it.
            for file in (run.stop_request, run.exit, run.process):
                file.unlink(missing_ok=True)
            self._queue.enter(run)
            run.result.unlink(missing_ok=True)
        self._starter.wake()

    def remove(self, run_id: str) -> None:
        """Deletes a run's record and checkpoints; the model that it made stays.

        Raises:
            RunError: if there is no such run, or it is active.
            StorageError: if it cannot be deleted.
        """
        run = self.folder(run_id)
        with self._locked():
            if self._state(run) in ACTIVE:
                raise RunError("Run {run} is active: stop it before you delete it.", run=run_id)
            take_away(run.path)
        self._histories.forget(run.events)
        self._started_by.pop(run_id, None)
        sweep(self._settings.runs)

    def remove_checkpoints(self, run_id: str) -> int:
        """Deletes a run's checkpoints, except the last of a run that can be resumed. Gives back the bytes.

        Raises:
            RunError: if there is no such run, or it is active.
            StorageError: if they cannot be deleted.
        """
        run = self.folder(run_id)
        with self._locked():
            state = self._state(run)
            if state in ACTIVE:
                raise RunError("Run {run} is active: stop it before you delete its checkpoints.", run=run_id)
            return remove_checkpoints(run, keep_last=state is not JobState.FINISHED)

    # ------------------------------------------------------------------ what the user sees

    def status(self, run_id: str) -> RunStatus:
        """Everything about a run, curves included.

        Raises:
            RunError: if there is no such run.
        """
        run = self.folder(run_id)
        is_in_hand = self._starter.has_to_see_to(run)
        was_over = run.result.exists()
        shown = view(run, self._histories.read(run.events))
        if shown.state not in ACTIVE and not was_over:  # it ended in between: what it told last, too
            shown = view(run, self._histories.read(run.events))
        return self._named([self._completed(shown, is_in_hand)])[0]

    def runs(self, most: int | None = None) -> tuple[RunStatus, ...]:
        """Runs, newest first, those that have ended without curves; the newest `most`, and all at work."""
        names = sorted(self._names(), key=self._begun_at, reverse=True)
        taken = dict.fromkeys(names[:most])
        if len(taken) < len(names):
            known = set(names)
            taken |= {
                run.run_id: None for run in self._queue.open() if run.run_id in known and self._is_active(run)
            }
        found = [self._listed(RunDir(self._settings.runs / name)) for name in taken]
        return tuple(
            sorted(self._named(found), key=lambda status: (status.created, status.run_id), reverse=True)
        )

    def has(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return run_id in self._names()

    def count(self) -> int:
        """How many runs there are."""
        return len(self._names())

    def _names(self) -> list[str]:
        """Ids of the runs that there are for who asks, in no order."""
        names, visitor = self._queue.names(), self._settings.visitor
        return [name for name in names if self._starter_of(name) == visitor] if visitor else names

    def _starter_of(self, name: str) -> str:
        if name in self._started_by:
            return self._started_by[name]
        run = RunDir(self._settings.runs / name)
        visitor = started_by(run)
        if run.record.exists():  # a run that is being submitted is nobody's yet
            self._started_by[name] = visitor
        return visitor

    def _begun_at(self, name: str) -> str:
        """What sorts runs by their age without opening them: the time in the name; else as it was noted."""
        named = _BEGUN.search(name)
        if named:
            return named[1]
        return re.sub(r"[-:]", "", created_at(RunDir(self._settings.runs / name))).replace("T", "-")[:15]

    def _is_active(self, run: RunDir) -> bool:
        return self._state(run) in ACTIVE

    def _listed(self, run: RunDir) -> RunStatus:
        """A run as a list shows it; one that has ended, and did not change, as it was seen last."""
        is_in_hand = self._starter.has_to_see_to(run)
        if not run.result.exists():
            return self._completed(view(run, self._histories.read(run.events), with_curves=False), is_in_hand)
        marks = when_changed(run.path, run.result, run.config)
        before, status = self._seen.get(run.run_id, (None, None))
        if status is None or before != marks:
            status = self._completed(view(run, None, with_curves=False), is_in_hand)
            if marks is not None:
                self._seen[run.run_id] = marks, status
            while len(self._seen) > _MOST_REMEMBERED:
                self._seen.pop(next(iter(self._seen)), None)
        return status

    def log_tail(self, run_id: str, lines: int = 200, containing: str = "") -> str:
        """The last lines of the worker's output; with `containing`, the last of those that have that text,
        whether in capitals or not.

        Raises:
            RunError: if there is no such run.
        """
        run = self.folder(run_id)
        if not run.log.exists():
            return ""
        with run.log.open("rb") as file:
            file.seek(max(0, run.log.stat().st_size - _LOG_BYTES))
            text = file.read().decode("utf-8", errors="replace")
        wanted = containing.strip().casefold()
        return "\n".join([line for line in text.splitlines() if wanted in line.casefold()][-lines:])

    def models_in_use(self) -> Mapping[str, Message]:
        """Base models and adapters of active runs, each with the reason why it cannot be changed now."""
        used: dict[str, Message] = {}
        for run in self._queue.open():
            if not self._is_active(run):
                continue
            config = called_now(read_run_config(run)[0], self._registry)
            reason = Message("run {run} trains on it", run=run.run_id)
            for model in filter(None, (config.base_model, config.adapter)):
                used[model] = reason
                try:
                    used[self._registry.get(model).id] = reason
                except StudioError as error:
                    log.info("The model of run %s is gone: %s", run.run_id, error)
        return used

    def running(self) -> str | None:
        """Id of a run that has the machine; None if none has."""
        at_work = ACTIVE - {JobState.QUEUED}
        return next((run.run_id for run in self._queue.open() if self._state(run) in at_work), None)

    def at_work(self) -> str | None:
        """Id of a run with a living worker; quicker than `running`, for what asks often."""
        return next((run.run_id for run in self._queue.at_work()), None)

    # ------------------------------------------------------------------ inside

    def folder(self, run_id: str) -> RunDir:
        """Where a run keeps its record.

        Raises:
            RunError: if there is no such run.
        """
        if self.has(run_id):
            return RunDir(self._settings.runs / run_id)
        raise RunError("There is no run {run!r}: python -m studio runs lists those there are.", run=run_id)

    def _require_turn(self) -> None:
        """Keeps a visitor of a Space, or all of them together, from filling the queue.

        Raises:
            RunError: if as many runs wait as may.
        """
        if not self._settings.visitor:
            return
        opened = {run.run_id for run in (*self._queue.waiting(), *self._queue.at_work())}
        own = len(opened.intersection(self._names()))
        if own >= MOST_OPEN_OF_A_VISITOR:
            raise RunError(
                "{count} of your runs wait or train, as many as a visitor may have: wait for one, or stop "
                "it.",
                count=own,
            )
        if len(opened) >= MOST_OPEN:
            raise RunError(
                "{count} runs wait here, as many as there may: try again later, or duplicate the Space (in "
                "its menu ⋮).",
                count=len(opened),
            )

    def _state(self, run: RunDir) -> JobState:
        return read_state(run, self._histories.read(run.events).last_event)

    def _completed(self, status: RunStatus, is_in_hand: bool) -> RunStatus:
        """With what only this process and the whole queue know.

        `is_in_hand`: whether the starter had still to see to it before its folder was read. If it was asked
        only now, it might have decided meanwhile that a killed worker has a successor.
        """
        if status.state is JobState.INTERRUPTED and is_in_hand:
            return replace(status, state=JobState.RUNNING, error=None)
        if status.state is not JobState.QUEUED:
            return status
        names = [run.run_id for run in self._queue.waiting()]
        position = names.index(status.run_id) + 1 if status.run_id in names else 1
        return replace(status, queue_position=position)

    def _named(self, found: list[RunStatus]) -> list[RunStatus]:
        """Runs whose models, and what they start from, are called as they are now: one may have been renamed
        since."""
        models = self._registry.models
        changed = models.stat().st_mtime_ns if models.is_dir() else 0
        gone = {name for run in found for name in _models_of(run) if not _is_there(name, models)}
        if not changed or not gone:
            return found
        noted, made, called = self._called
        if noted != changed:
            made, called = {str(spec.card.get("run_id")): spec.id for spec in self._registry.all()}, {}
        called = called | {name: self._called_now(name) for name in gone - called.keys()}
        if is_settled(changed):
            self._called = changed, made, called
        return [_under_new_names(run, made, called) for run in found]

    def _called_now(self, model: str) -> str:
        try:
            return self._registry.called_now(model)
        except StudioError:  # no name of anything: somebody wrote the settings by hand
            return model

    def _new_folder(self, config: TrainingConfig) -> RunDir:
        slug = re.sub(r"[^\w.-]+", "-", config.usual_name).strip("-.")[:40] or "run"
        stem = f"{slug}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        if self._settings.visitor:  # whoever knows its name can transcribe with the model it makes
            stem += f"-{secrets.randbelow(10**16):016}"
        for number in range(1, 10_000):
            path = self._settings.runs / (stem if number == 1 else f"{stem}-{number}")
            with storage_errors(self._settings.runs):
                self._settings.runs.mkdir(parents=True, exist_ok=True)
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
            return RunDir(path)
        raise RunError("There are too many runs named {name!r}: delete some.", name=stem)

    def _full_name(self, model: str) -> str:
        """The path of a model that is a folder in the working directory, the id of one that is given by its
        address on the Hub; any other one's name, as it is.
        """
        model = id_of_address(model) or model
        found = self._registry.get(model).id if model else ""
        return found if Path(found).is_absolute() and not Path(model).is_absolute() else model

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """For changes of a run's place.

        Raises:
            RunError: if somebody else changes one, for longer than it should take.
        """
        lock = self._queue.lock(_LOCK_SECONDS)
        try:
            lock.acquire()
        except Timeout as error:
            raise RunError("A run is being started, and that takes long: try again in a minute.") from error
        try:
            yield
        finally:
            lock.release()


def _models_of(run: RunStatus) -> list[str]:
    """The model that a run has made, its base, and the adapter that it started from."""
    return list(filter(None, (run.model_id, run.config.base_model, run.config.adapter)))


def _is_there(model: str, models: Path) -> bool:
    return model == DEMO_ID or find_released(model) is not None or os.path.isdir(models / model)  # noqa: PTH112


def _under_new_names(run: RunStatus, made: Mapping[str, str], called: Mapping[str, str]) -> RunStatus:
    """A run whose models are `called` otherwise now; `made` has the id of the one that a run has made."""
    if called.keys().isdisjoint(_models_of(run)):
        return run
    base_model, adapter = (called.get(name, name) for name in (run.config.base_model, run.config.adapter))
    model_id = made.get(run.run_id, run.model_id) if run.model_id in called else run.model_id
    return replace(run, model_id=model_id, config=replace(run.config, base_model=base_model, adapter=adapter))


def _absolute_source(value: str) -> str:
    place, splits = folder_and_splits(value)
    path = user_path(place)
    is_path = value and not is_demo(value) and (path.exists() or value.startswith((".", "~")) or "{" in value)
    if not is_path:
        return value
    return f"{path.absolute()}::{splits}" if splits else str(path.absolute())


def _is_place(path: Path) -> bool:
    return len(path.parts) > 1 and path.exists()


def with_absolute_paths(config: TrainingConfig) -> TrainingConfig:
    """Paths that hold in any working directory: a run may be resumed from another one."""
    changed: dict[str, Any] = {}
    for name, field in FIELDS.items():
        kind, value = field.metadata["names"], getattr(config, name)
        if kind == "data":
            changed[name] = ",".join(map(_absolute_source, sources_of(value)))
        elif value and (kind == "path" or (kind == "model" and _is_place(user_path(value)))):
            changed[name] = str(user_path(value).absolute())
    return replace(config, **changed)


def when_changed(*paths: Path) -> tuple[int, ...] | None:
    """When each changed last, in ns; None if one did so just now, and may again, or is gone."""
    try:
        times = tuple(path.stat().st_mtime_ns for path in paths)
    except OSError:
        return None
    return times if is_settled(max(times)) else None
