"""`runs`: the history of the Train tab."""

from collections.abc import Sequence

from studio.cli.follow import as_dict, progress, tell
from studio.cli.output import done, give, say, show, show_json, table
from studio.cli.parsing import Parser
from studio.cli.train import finish
from studio.errors import ConfigError
from studio.files import free_bytes
from studio.runs.comparison import best_rates, change_by_metric, differing_options
from studio.runs.manager import MOST_LISTED, JobState, RunStatus
from studio.services import Services
from studio.settings import Settings
from studio.training.run_dir import RunDir
from studio.units import counted, format_bytes, format_percent

_ACTIONS = {
    "list": 0,
    "compare": 2,
    **dict.fromkeys(("status", "follow", "log", "stop", "resume", "remove-checkpoints", "delete"), 1),
}
"""Action → how many run ids it takes; compare takes more, too."""


def parser() -> Parser:
    """`runs list`, `runs status ID`, …"""
    made = Parser("runs", "List, follow, stop, resume and delete training runs.")
    made.action(_ACTIONS)
    made.add_argument("run_id", nargs="*", metavar="ID", help="The run.")
    made.option("search", "With log: only lines that have this text.", default="")
    made.flag("all", f"List all runs, not only the newest {MOST_LISTED}; --json does.")
    made.flag("yes", "Delete without being asked again.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Does one action."""
    given = parser().read(arguments)
    is_comparison = given.action == "compare" and len(given.run_id) > 1
    if _ACTIONS.get(given.action) != len(given.run_id) and not is_comparison:
        raise ConfigError(
            "runs takes: list · status ID · follow ID · log ID · stop ID · resume ID · "
            "remove-checkpoints ID · compare ID ID … · "
            "delete ID --yes; got {given!r}.",
            given=" ".join([given.action, *given.run_id]),
        )
    with Services.open(settings) as services:
        if given.action == "list":
            _list(services, given.json, None if given.all or given.json else MOST_LISTED)
            return 0
        if given.action == "log":
            log = services.jobs.log_tail(given.run_id[0], containing=given.search)
            give(given.json, {"schema_version": 1, "log": log}, lambda: log)
            return 0
        if is_comparison:
            _compare(services, given.run_id, given.json)
            return 0
        return _act(services, given.action, given.run_id[0], is_sure=given.yes, as_json=given.json)


def _list(services: Services, as_json: bool, most: int | None) -> None:
    runs = services.jobs.runs(most)
    rows = [
        (status.run_id, status.state.value, status.config.base_model, how_far(status), status.model_id or "")
        for status in runs
    ]
    text = table(("RUN", "STATE", "BASE", "PROGRESS", "MODEL"), rows) if rows else "There are no runs yet."
    give(as_json, [_dict(services, status) for status in runs], lambda: text)
    if (older := services.jobs.count() - len(runs)) > 0:
        say(f"{counted(older, 'older run')}: --all lists them.")


def how_far(status: RunStatus) -> str:
    """Beside its state, which it does not say again; of what is finished, how the errors changed."""
    if status.state is JobState.FINISHED:
        return change_by_metric(status)
    return progress(status).removeprefix(status.state.value).removeprefix(" · ")


def _compare(services: Services, run_ids: Sequence[str], as_json: bool) -> None:
    """What came out of several runs, and the options that differ."""
    runs = [services.jobs.status(run_id) for run_id in run_ids]
    options = differing_options(runs)
    told = {
        "schema_version": 1,
        "runs": [_dict(services, status) for status in runs],
        "options": {name: list(values) for name, values in options.items()},
    }
    rates = [best_rates(status) for status in runs]
    rows = [
        ("WER", *["–" if wer is None else format_percent(wer) for wer, _ in rates]),
        ("CER", *["–" if cer is None else format_percent(cer) for _, cer in rates]),
        ("step", *[str(status.step) for status in runs]),
        *((name, *map(str, values)) for name, values in options.items()),
    ]
    give(as_json, told, lambda: table(("", *run_ids), rows))


def _act(services: Services, action: str, run_id: str, *, is_sure: bool, as_json: bool) -> int:
    jobs = services.jobs
    if action == "status":
        status = jobs.status(run_id)
        if as_json:
            show_json(_dict(services, status))
        else:
            show(f"{run_id}: " + ", ".join(filter(None, [status.state.value, how_far(status)])))
            tell(status)
            free, taken = format_bytes(status.disk_free_bytes or 0), format_bytes(status.checkpoints_bytes)
            say(f"Checkpoints take {taken}; {free} are free on their disk.")
    elif action == "stop":
        jobs.stop(run_id)
        status = jobs.status(run_id)
        is_over = status.state is JobState.STOPPED
        asked = "was asked to end, and to save a checkpoint if it has trained."
        told = f"Run {run_id}: {status.stop_note}" if is_over else f"Run {run_id} {asked}"
        done(told, as_json, **_dict(services, status))
    elif action == "remove-checkpoints":
        freed = jobs.remove_checkpoints(run_id)
        free = format_bytes(free_bytes(services.settings.runs))
        told = f"Removed {format_bytes(freed)} of checkpoints of run {run_id}; {free} are free."
        done(told, as_json, run_id=run_id, freed_bytes=freed)
    elif action == "delete":
        if not is_sure:
            raise ConfigError("Deleting run {run} cannot be undone: add --yes to do it.", run=run_id)
        jobs.remove(run_id)
        done(f"Deleted run {run_id}.", as_json, deleted=run_id)
    else:
        if action == "resume":
            jobs.resume(run_id)
        return finish(services, run_id, as_json=as_json)
    return 0


def _dict(services: Services, status: RunStatus) -> dict[str, object]:
    return as_dict(status, RunDir(services.settings.runs / status.run_id))
