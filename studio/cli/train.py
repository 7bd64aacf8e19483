"""`train`: what the Train tab does; the run is the same, and the page shows it, too."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.actions.plan_run import RunForecast, plan_run
from studio.actions.start_run import check_run
from studio.cli.follow import as_dict, follow, tell
from studio.cli.output import ProgressLine, done, give, require_place, say, show, show_json
from studio.cli.parsing import PROGRAM, Parser, run_options
from studio.errors import ConfigError
from studio.files import storage_errors, user_path, write_text
from studio.options.arguments import options_given
from studio.options.trainer_flags import TRAINER
from studio.options.training import TrainingConfig
from studio.runs.manager import JobState, with_absolute_paths
from studio.runs.status import RunStatus
from studio.services import Services
from studio.settings import Settings
from studio.training.distributed.slurm import slurm_script
from studio.training.launch import launch_command, launched
from studio.training.preflight import check_logger, shared_by_lists
from studio.training.run_dir import RunDir
from studio.training.warm_start import called_now
from studio.units import format_bytes

_RESUME = "resume_from_checkpoint"
_LISTS = {"train_data": "dataset/train.json", "test_data": "dataset/test.json"}
"""Whisper-Finetune's defaults."""


def parser() -> Parser:
    """Options of the command itself; those of the run belong to `TrainingConfig`."""
    made = Parser("train", "Fine-tune a model. Ctrl-C saves a checkpoint and ends the run.")
    made.flag("no_wait", "Queue the run and exit: an open studio trains it.")
    made.flag("plan", "Print clips, steps, memory and time of the run, and exit.")
    made.flag("print_command", "Print the command that starts the run, and exit.")
    made.option("write_slurm", "Write a Slurm script for the run, and exit.", metavar="FILE")
    made.flag("resume", "Resume the latest run of this name; without one, of this base, data and method.")
    made.foreign({_RESUME: TRAINER[_RESUME]})
    made.flag("json", "Print JSON.")
    made.add_run_options()
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Queues the run, starts it when its turn comes, and follows it; 1 if it fails."""
    given, rest = parser().read_known(arguments)
    if settings.rank > 0:  # torchrun starts this command several times: the first of them is the run
        return 0
    is_resumed = given.resume or _is_resumed(given.resume_from_checkpoint, rest, settings.runs)
    config = launched(run_options(rest), settings.world_size, settings.local_world_size)
    check_logger(config)
    if settings.world_size > 1:
        say(f"A launcher has started {settings.world_size} processes: they are one run, with as many.")
    named = options_given(rest)
    if "train_data" not in named:
        config = _with_lists_here(config, named)
    if "base_model" not in named:
        say("No base model is named, so the small demo model is trained: give --base_model, such as small.")
    if given.print_command:
        command = launch_command(config, "RUN_DIR")
        give(given.json, {"schema_version": 1, "command": command}, lambda: command)
        return 0
    if given.write_slurm:
        place = _place_of_script(Path(given.write_slurm), config)
        script = slurm_script(with_absolute_paths(config), settings.home, settings.working_dir)
        write_text(place, script)
        done(f"Wrote {given.write_slurm}: submit it with sbatch.", given.json, file=given.write_slurm)
        return 0
    with Services.open(settings) as services:
        if given.plan:
            plan = plan_run(config, services)  # copies more rows than the check needs, which reads that copy
            check_run(config, services)
            services.jobs.checked(config)
            _tell_plan(plan, as_json=given.json)
            return 0
        check_run(config, services, downloads=True)
        told = [str(shared)] if (shared := shared_by_lists(config, settings)) else []
        for note in told:
            say(f"Note: {note}")
        fetch_base(services, config)
        run_id = _unfinished(services, config, named) if is_resumed else None
        if run_id:
            services.jobs.resume(run_id, config)
            say(f"Run {run_id} goes on.")
        else:
            if is_resumed:
                say("No unfinished run matches: a new one begins.")
            run_id = services.jobs.submit(config)
            say(f"Run {run_id}, in {settings.runs / run_id}")
        if given.no_wait:
            say(f"It waits for a studio to start it: {PROGRAM} app, or {PROGRAM} runs follow {run_id}")
            made = {"run_id": run_id, "run_dir": str(settings.runs / run_id)}
            give(given.json, made, lambda: run_id)
            return 0
        return finish(services, run_id, as_json=given.json, told=told)


def _place_of_script(path: Path, config: TrainingConfig) -> Path:
    """Where `--write_slurm` writes: over a script for Slurm, and over nothing else.

    Raises:
        ConfigError: if there is another file.
        StorageError: if no file can be written there.
    """
    read = (config.train_data, config.test_data, config.replay_data, config.augment_config_path)
    require_place(path, "--write_slurm", read)
    if path.exists():
        with storage_errors(path), path.open("rb") as file:
            start = file.read(4096)
        if not start.startswith(b"#!") or b"#SBATCH" not in start:
            raise ConfigError(
                "{path} is there already, and is no script for Slurm: name a new file.", path=path
            )
    return path


def _tell_plan(plan: RunForecast, *, as_json: bool) -> None:
    if as_json:
        show_json(plan.to_json())
        return
    for name, value in plan.facts():
        show(f"{name}: {value}")
    if plan.shared:
        say(f"Note: {plan.shared}")
    if plan.verdict == "does_not_fit":
        say(f"That is more memory than is free here: {PROGRAM} fit finds settings that fit.")


def _with_lists_here(config: TrainingConfig, named: Collection[str]) -> TrainingConfig:
    """What a run learns from where no training data is named, and says it: with a base, the lists that
    Whisper-Finetune takes then, if they are here; else the demo speech.
    """
    lists: dict[str, Any] = {
        name: path for name, path in _LISTS.items() if name not in named and Path(path).is_file()
    }
    listed = lists.get("train_data")
    if listed is None or "base_model" not in named:
        found = f", or --train_data {listed} for the list in this folder" if listed else ""
        say(f"The run learns from the demo speech: give --train_data for clips of your own{found}.")
        return config
    tested = f" and is tested on {lists['test_data']}" if "test_data" in lists else ""
    say(f"The run learns from {listed}{tested}, as none is named: --train_data demo is the demo speech.")
    return replace(config, **lists)


def _is_resumed(asked: str | None, rest: list[str], runs: Path) -> bool:
    """Whether `--resume_from_checkpoint` only means `--resume`; anything else goes on to the run's options.

    Raises:
        ConfigError: if it names a run of the studio, with the command that continues that.
    """
    if asked in (None, "True", "true"):
        return asked is not None
    place = user_path(str(asked)).resolve()
    if place != runs.resolve() and place.is_relative_to(runs.resolve()):
        raise ConfigError(
            "{path} is of a run of the studio: continue it with python -m studio runs resume {run}.",
            path=asked,
            run=place.relative_to(runs.resolve()).parts[0],
        )
    rest.append(f"--{_RESUME}={asked}")
    return False


def _unfinished(services: Services, config: TrainingConfig, named: Collection[str]) -> str | None:
    """The latest run of the same name, or without one of the same base, data and method, if it can go on.

    Raises:
        ConfigError: if that has other values of options that were `named`: a run keeps its own.
    """
    config = called_now(services.jobs.as_kept(config), services.registry)

    def differing(status: RunStatus, names: Collection[str]) -> list[str]:
        """Which of these options the run has otherwise."""
        return [name for name in names if getattr(status.config, name) != getattr(config, name)]

    alike = ("run_name", *(() if config.run_name else ("base_model", "train_data", "method")))
    same = next((status for status in services.jobs.runs() if not differing(status, alike)), None)
    if same is None or not same.can_resume:
        return None
    if others := differing(same, sorted({*named} - {"main_process_ip", "main_process_port"})):
        raise ConfigError(
            "Run {run} has {options}, and keeps what it began with: leave these options out, or start a new "
            "run without --resume.",
            run=same.run_id,
            options=", ".join(f"{name} {getattr(same.config, name)}" for name in others),
        )
    return same.run_id


def fetch_base(services: Services, config: TrainingConfig) -> None:
    """Downloads the base model now if it has to be: a run should not be what finds out that it cannot."""

    def progress(done: int, total: int) -> None:
        """How much of the model is there."""
        line.update(f"downloading {config.base_model}: {format_bytes(done)} of {format_bytes(total)}")

    with ProgressLine() as line:
        services.registry.local_path(config.base_model, on_progress=progress, **config.downloads)


def finish(services: Services, run_id: str, *, as_json: bool, told: Collection[str] = ()) -> int:
    """Follows a queued or running run to its end, tells what came of it, and gives the exit code; what was
    `told` of it is not said again.
    """
    services.jobs.start()
    status = follow(services.jobs, run_id, quarantine=services.settings.quarantine, told=told)
    if as_json:
        show_json(as_dict(status, RunDir(services.settings.runs / run_id)))
    tell(status, say if as_json else show, is_followed=True)
    if status.state is JobState.FINISHED:
        return 0
    return 130 if status.state is JobState.STOPPED else 1
