"""`train`: what the Train tab does; the run is the same, and the page shows it, too."""

from collections.abc import Sequence

from studio.cli.follow import as_dict, follow, tell
from studio.cli.output import say, show, show_json
from studio.cli.parsing import PROGRAM, Parser
from studio.jobs.manager import JobState
from studio.services import Services
from studio.settings import Settings
from studio.training.arguments import help_text, parse_training_arguments
from studio.training.run_dir import RunDir


def parser() -> Parser:
    """Options of the command itself; those of the run belong to `TrainingConfig`."""
    made = Parser("train", "Fine-tune a model. Ctrl-C saves a checkpoint and ends the run.")
    made.flag("no_wait", "Only queue the run, for a studio that is open or will be.")
    made.flag("json", "Print JSON.")
    made.epilog = "Options of the run:\n\n" + help_text()
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Queues the run, starts it when its turn comes, and follows it; 1 if it fails."""
    given, rest = parser().read_known(arguments)
    config, notes = parse_training_arguments(rest)
    for note in notes:
        say(note)
    services = Services.open(settings)
    try:
        run_id = services.jobs.submit(config)
        folder = RunDir(settings.runs / run_id)
        say(f"Run {run_id}, in {folder.path}")
        if given.no_wait:
            say(f"It waits for a studio to start it: {PROGRAM} app, or {PROGRAM} runs follow {run_id}")
            show_json({"run_id": run_id, "run_dir": str(folder.path)}) if given.json else show(run_id)
            return 0
        return finish(services, run_id, as_json=given.json)
    finally:
        services.close()


def finish(services: Services, run_id: str, *, as_json: bool) -> int:
    """Follows a queued or running run to its end, tells what came of it, and gives the exit code."""
    services.jobs.start()
    status = follow(services.jobs, run_id)
    if as_json:
        show_json(as_dict(status, RunDir(services.settings.runs / run_id)))
    tell(status, as_json=as_json)
    if status.state is JobState.FINISHED:
        return 0
    return 130 if status.state is JobState.STOPPED else 1
