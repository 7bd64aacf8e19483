"""Training runs and their data as the visitor sees them: pure functions from status to HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.dataset.example import Example, Manifest, RowProblem
from studio.jobs.status import ACTIVE, JobState, RunStatus
from studio.ui.i18n import N_, tr
from studio.ui.markup import Child, Html, table, tag
from studio.ui.views import badge, facts, note, progress_bar
from studio.units import format_bytes, format_clock, format_duration, format_percent

STATE_NAMES = {
    JobState.QUEUED: (N_("Waiting"), "plain"),
    JobState.STARTING: (N_("Starting"), "busy"),
    JobState.RUNNING: (N_("Running"), "busy"),
    JobState.STOPPING: (N_("Stopping"), "warning"),
    JobState.FINISHED: (N_("Finished"), "good"),
    JobState.STOPPED: (N_("Stopped"), "warning"),
    JobState.FAILED: (N_("Failed"), "bad"),
    JobState.INTERRUPTED: (N_("Interrupted"), "bad"),
}
PHASE_NAMES = {
    "": N_("Waiting for its turn"),
    "starting": N_("Starting the worker"),
    "loading_model": N_("Loading the base model"),
    "reading_data": N_("Reading the data"),
    "evaluating": N_("Evaluating"),
    "training": N_("Training"),
    "saving": N_("Saving the model"),
}


def state_badge(state: JobState, locale: str) -> Html:
    """The state of a run in a pill."""
    name, kind = STATE_NAMES[state]
    return badge(tr(name, locale), kind)


def run_title(status: RunStatus) -> str:
    """The name given to the run, else its id."""
    return str(status.config.run_name or status.run_id)


def error_name(status: RunStatus, locale: str) -> str:
    """What the run's errors are counted in: characters for languages written without spaces."""
    return tr(N_("Character errors") if status.metric == "cer" else N_("Word errors"), locale)


def error_change(status: RunStatus) -> str:
    """`83.0 % → 12.4 %`: errors of the base and of the result, or of the last evaluation so far."""
    metric = status.metric or "wer"
    ends = [status.metrics.get(name) for name in ("base", "final")]
    rates = [end[metric] for end in ends if isinstance(end, Mapping) and metric in end]
    if not rates:
        rates = [getattr(point, metric) for point in (*status.eval_points[:1], *status.eval_points[1:][-1:])]
    return " → ".join(format_percent(rate) for rate in rates)


def history_table(runs: Sequence[RunStatus], selected: str, locale: str) -> Html:
    """All runs, newest first; the name of each is a button that shows it."""
    if not runs:
        return Html("")
    headers = [
        tr(text, locale) for text in (N_("Run"), N_("State"), N_("Base model"), N_("Errors"), N_("Started"))
    ]
    rows = [
        [
            tag(
                "button",
                run_title(run),
                type="button",
                class_="link-button",
                data_pick=run.run_id,
                aria_current="true" if run.run_id == selected else None,
            ),
            state_badge(run.state, locale),
            run.config.base_model,
            error_change(run),
            (run.started or run.created)[:16].replace("T", " "),
        ]
        for run in runs
    ]
    return tag(
        "div", tag("h3", tr("All runs", locale)), table(headers, rows, numeric=[3], class_="runs-table")
    )


def run_status(status: RunStatus | None, locale: str) -> Html:
    """The chosen run: what it is doing, how far it is, what came out."""
    if status is None:
        return note(tr("No runs yet. The form as it stands trains on the demo speech: press Start.", locale))
    return tag(
        "div",
        tag("div", tag("h3", run_title(status)), state_badge(status.state, locale), class_="run-head"),
        _outcome(status, locale),
        _progress(status, locale) if status.state in ACTIVE else None,
        facts(_figures(status, locale)),
        _data(status.data, locale),
        [note(text, "warning") for text in status.warnings],
        class_="run-status",
    )


def _outcome(status: RunStatus, locale: str) -> Html | None:
    """The sentence that says how a run ended."""
    if status.state is JobState.FINISHED:
        change = error_change(status)
        made = tr("Made the model {model}. It is in the Transcribe tab now.", locale, model=status.model_id)
        return note(f"{error_name(status, locale)}: {change}. {made}" if change else made, "good")
    if status.state in (JobState.FAILED, JobState.INTERRUPTED):
        return note(_error(status, locale), "bad")
    if status.state is JobState.STOPPED:
        return note(tr("Stopped; the last checkpoint is kept. Resume goes on from there.", locale), "warning")
    return None


def _error(status: RunStatus, locale: str) -> str:
    if status.error_template:
        return tr(status.error_template, locale, **status.error_values)
    return status.error or tr("The run failed: the log says why.", locale)


def _progress(status: RunStatus, locale: str) -> Html:
    """A bar with the phase in words; counts evaluation clips while evaluating, else steps."""
    doing = tr(PHASE_NAMES.get(str(status.phase), str(status.phase)), locale)
    if status.state is JobState.QUEUED and status.queue_position:
        doing = tr("Waiting for its turn (number {position})", locale, position=status.queue_position)
    share = min(1.0, status.step / status.max_steps) if status.max_steps else 0.0
    if status.phase == "evaluating" and status.eval_progress:
        done, total = status.eval_progress
        doing = tr("Evaluating: {done} of {total} clips", locale, done=done, total=total)
    steps = (
        tr("step {step} of {total}", locale, step=status.step, total=status.max_steps)
        if status.max_steps
        else ""
    )
    return progress_bar(share, doing, steps)


def _figures(status: RunStatus, locale: str) -> list[tuple[str, Child]]:
    """Small figures under the bar; what is not known yet is left out."""
    figures: list[tuple[str, Child]] = []
    if status.state in ACTIVE and status.eta_seconds is not None:
        figures.append((tr("Time left", locale), format_duration(status.eta_seconds)))
    if status.epoch:
        figures.append((tr("Epoch", locale), f"{status.epoch:.1f}"))
    if status.loss_points:
        figures.append((tr("Loss", locale), f"{status.loss_points[-1][1]:.3f}"))
    if change := error_change(status):
        figures.append((error_name(status, locale), change))
    if status.samples_per_second:
        figures.append((tr("Clips per second", locale), f"{status.samples_per_second:.1f}"))
    if status.memory_bytes:
        figures.append((tr("Memory in use", locale), format_bytes(status.memory_bytes)))
    return figures


def _data(data: Mapping[str, Any] | None, locale: str) -> Html | None:
    """What the run reads, and the rows it left out by their line."""
    if not data:
        return None
    read = tr(
        "{train} clips to train on ({hours}), {evaluation} to evaluate.",
        locale,
        train=data.get("train_samples", 0),
        hours=format_duration(3600 * float(data.get("train_hours") or 0)),
        evaluation=data.get("eval_samples", 0),
    )
    skipped = data.get("skipped") or []
    if not skipped:
        return tag("p", read, class_="subdued")
    title = tr("Rows left out: {count}", locale, count=data.get("skipped_count", len(skipped)))
    rows = [[row.get("line"), row.get("reason")] for row in skipped]
    listed = table([tr("Line", locale), tr("Reason", locale)], rows, numeric=[0])
    return tag("div", tag("p", read, class_="subdued"), tag("details", tag("summary", title), listed))


def samples_table(rows: Sequence[Mapping[str, Any]], locale: str) -> Html:
    """What was said and what the model wrote, for a few clips of the last evaluation."""
    if not rows:
        return Html("")
    cells: list[list[Child]] = [
        [str(row.get("reference", "")), str(row.get("hypothesis", ""))] for row in rows
    ]
    return tag(
        "div",
        tag("h4", tr("Heard at the last evaluation", locale)),
        table([tr("What was said", locale), tr("What the model wrote", locale)], cells),
    )


# ---------------------------------------------------------------------- data


def manifest_preview(manifest: Manifest, locale: str, rows: int = 5) -> Html:
    """The first rows of a manifest and every row that cannot be used, by line."""
    headers = [
        tr(text, locale) for text in (N_("Line"), N_("Audio"), N_("Text"), N_("Language"), N_("Length"))
    ]
    shown = [_example_row(example) for example in manifest.examples[:rows]]
    summary = tr(
        "{good} rows can be used, {bad} cannot. Format: {format}.",
        locale,
        good=len(manifest.examples),
        bad=len(manifest.problems),
        format=manifest.format,
    )
    return tag(
        "div",
        note(summary, "warning" if manifest.problems else "good"),
        table(headers, shown, numeric=[0, 4]),
        problems_table(manifest.problems, locale) if manifest.problems else None,
    )


def _example_row(example: Example) -> list[Child]:
    seconds = example.duration_seconds
    name = example.audio_path.name
    if example.start_seconds:
        name += f" @ {format_clock(example.start_seconds, always_hours=False)}"
    return [example.line, name, example.text, example.language or "", f"{seconds:.1f} s" if seconds else ""]


def problems_table(problems: Sequence[RowProblem], locale: str, limit: int = 20) -> Html:
    """Rows that cannot be used, or should be looked at, by line; at most `limit`."""
    rows: list[list[Child]] = [
        [problem.line, problem.audio_path, problem_text(problem, locale)] for problem in problems[:limit]
    ]
    more = len(problems) - limit
    headers = [tr("Line", locale), tr("Audio", locale), tr("Problem", locale)]
    rest = tag("p", tr("… and {count} more.", locale, count=more), class_="subdued") if more > 0 else None
    return tag("div", table(headers, rows, numeric=[0]), rest)


def problem_text(problem: RowProblem, locale: str) -> str:
    """Why a row cannot be used, in the visitor's language."""
    return tr(problem.template, locale, **problem.values) if problem.template else problem.reason
