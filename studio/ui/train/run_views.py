"""Training runs as the visitor sees them: pure functions from status to HTML."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from studio.evaluation.capabilities import verdict_of
from studio.publishing.findings import name_of_check, non_speech_of, unchecked_in
from studio.reports.evaluation_views import difference, difference_legend
from studio.reports.markup import Child, Html, table, tag
from studio.reports.pieces import badge, button, facts, folded, note, progress_bar
from studio.runs.comparison import change_by_metric, error_change
from studio.runs.disk import LITTLE_SPACE_BYTES
from studio.runs.status import ACTIVE, JobState, RunStatus
from studio.training.events import RunPhase
from studio.training.outcome import no_better
from studio.training.retry import Retry
from studio.translation import N_, message_from, paragraph, said, tr
from studio.ui.shared.short_audio_views import short_audio_table
from studio.ui.shared.views import known_name, loss_note
from studio.units import duration_message, format_bytes, format_percent, local_time

_VERDICTS = {
    "better": (N_("better"), "good"),
    "kept": (N_("kept"), "good"),
    "neither": (N_("neither can"), "plain"),
    "worse": (N_("worse"), "bad"),
    "unclear": (N_("too few clips to tell"), "plain"),
}


def capabilities_table(found: Mapping[str, Any] | None, locale: str) -> Html | None:
    """What tuning may have broken, before and after."""
    checks = (found or {}).get("checks") or ()
    left = unchecked_in(found)
    if not checks and not left:
        return None
    rows: list[list[Child]] = []
    for check in checks:
        word, kind = _VERDICTS[verdict_of(check)]
        rows.append(
            [
                said(name_of_check(check["check"], found or {}), locale),
                format_percent(check["base"]),
                format_percent(check["tuned"]),
                badge(tr(word, locale), kind),
            ]
        )
    for unchecked in left:
        rows.append([said(unchecked, locale), "", "", badge(tr("not checked", locale), "plain")])
    names = (N_("Capability check"), N_("Right: base"), N_("Right: tuned"), N_("State"))
    headers = [tr(text, locale) for text in names]
    checked = table(headers, rows, numeric=[1, 2], class_="capabilities stacked")
    figure = non_speech_of(found)
    return tag("div", checked, tag("p", said(figure, locale))) if figure else checked


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
    "listening": N_("Base model transcribes the clips"),
    "evaluating": N_("Evaluating"),
    "training": N_("Training"),
    "saving": N_("Saving the model"),
    "checking": N_("Capability check"),
    "timing": N_("Measuring short-audio mode"),
}
_COUNTED = {
    "evaluating": N_("Evaluating: {done} of {total} clips"),
    "listening": N_("Base model transcribes the clips: {done} of {total}"),
    "checking": N_("{doing}: {percent}"),
}
_DONE = N_("{doing}: {done} of {total}")


def state_badge(state: JobState, locale: str) -> Html:
    """The state of a run in a pill."""
    name, kind = STATE_NAMES[state]
    return badge(tr(name, locale), kind)


def run_title(status: RunStatus) -> str:
    """The name given to the run, else its id."""
    return str(status.config.run_name or status.run_id)


def _counted_errors(status: RunStatus) -> str:
    """What the run's errors are counted in: characters for languages written without spaces."""
    if status.config.distill:
        return N_("Difference from the padded base")
    return N_("Character errors") if status.metric == "cer" else N_("Word errors")


def error_name(status: RunStatus, locale: str) -> str:
    """The name of the run's errors in the visitor's language."""
    return tr(_counted_errors(status), locale)


def history_table(runs: Sequence[RunStatus], count: int, selected: str, locale: str) -> Html:
    """The newest of `count` runs; the name of each is a button that shows it."""
    if not runs:
        return Html("")
    headers = [
        tr(text, locale) for text in (N_("Run"), N_("State"), N_("Base model"), N_("Errors"), N_("Started"))
    ]
    rows = [
        [
            button(
                run_title(run),
                "link-button",
                data_pick=run.run_id,
                aria_current="true" if run.run_id == selected else None,
            ),
            state_badge(run.state, locale),
            known_name(run.config.base_model, locale),
            change_by_metric(run),
            local_time(run.started or run.created),
        ]
        for run in runs
    ]
    older = count - len(runs)
    return tag(
        "div",
        tag("h2", tr("All runs", locale)),
        table(headers, rows, numeric=[3], class_="runs-table stacked"),
        note(tr("{count} older runs: python -m studio runs --all lists them.", locale, count=older))
        if older > 0
        else None,
    )


def run_status(status: RunStatus | None, locale: str) -> Html:
    """The chosen run: what it is doing, how far it is, what came out."""
    if status is None:
        return note(tr("No runs yet.", locale))
    return tag(
        "div",
        tag("div", tag("h2", run_title(status)), state_badge(status.state, locale), class_="run-head"),
        loss_note(status.capabilities, locale),
        _outcome(status, locale),
        _progress(status, locale) if status.state in ACTIVE else None,
        facts(_figures(status, locale)),
        _data(status, locale),
        [_retry(retry, locale) for retry in status.retries],
        [note(said(warning, locale), "warning") for warning in status.warnings],
        class_="run-status",
    )


def run_findings(status: RunStatus | None, locale: str) -> Html:
    """What was checked of the model that the run made."""
    if status is None:
        return Html("")
    tables = (capabilities_table(status.capabilities, locale), short_audio_table(status.short_audio, locale))
    return tag("div", tables) if any(tables) else Html("")


def _outcome(status: RunStatus, locale: str) -> Html | None:
    """The sentence that says how a run ended."""
    if status.state is JobState.FINISHED:
        change = error_change(status)
        made = tr("Created {model}.", locale, model=status.model_id)
        if not status.config.is_main_machine:
            made = tr("Done: the model is on machine 0.", locale)
        errors = tr("{name}: {change}.", locale, name=error_name(status, locale), change=change)
        kind = "info" if no_better(status.metrics) else "good"
        return note(paragraph([errors, made], locale) if change else made, kind)
    if status.state in (JobState.FAILED, JobState.INTERRUPTED):
        return note(_error(status, locale), "bad")
    if status.state is JobState.STOPPED:
        return note(said(status.stop_note, locale), "warning")
    return None


def prune_question(status: RunStatus, locale: str) -> str:
    """What is asked before a run's checkpoints are removed."""
    size = format_bytes(status.removable_bytes)
    asked = tr("Remove this run's checkpoints? That frees {size}.", locale, size=size)
    after = N_("The last one is kept: the run can still be resumed from there.")
    if status.state is JobState.FINISHED:
        after = N_("The model it made stays. The run is finished: there is nothing to resume.")
    elif not status.has_checkpoint:
        after = N_("None of them is complete: a resumed run starts over either way.")
    return paragraph([asked, tr(after, locale)], locale)


def _retry(retry: Retry, locale: str) -> Html:
    """Why the run was begun anew, and what it does otherwise."""
    return note(paragraph([said(told, locale) for told in retry.sentences()], locale), "warning")


def _error(status: RunStatus, locale: str) -> str:
    return said(status.error, locale) if status.error else tr("The run failed: the log says why.", locale)


def _progress(status: RunStatus, locale: str) -> Html:
    """A bar with the phase in words, and how far that phase is, where it is known."""
    doing = tr(PHASE_NAMES.get(str(status.phase), str(status.phase)), locale)
    if status.state is JobState.QUEUED and status.queue_position:
        doing = tr("Waiting for its turn (number {position})", locale, position=status.queue_position)
    steps = ""
    if status.max_steps and status.phase in (RunPhase.TRAINING, RunPhase.EVALUATING):
        far = {"step": status.step, "total": status.max_steps, "epoch": f"{status.epoch:.1f}"}
        steps = tr("step {step} of {total}, epoch {epoch}", locale, **far)
    share = status.step / status.max_steps if steps else None
    if status.eval_progress and status.state is not JobState.QUEUED:
        done, total = status.eval_progress
        share = done / max(1, total)
        told = {"doing": doing, "done": done, "total": total, "percent": f"{100 * share:.0f} %"}
        doing = tr(_COUNTED.get(status.phase, _DONE), locale, **told)
    return progress_bar(share, doing, steps)


def _figures(status: RunStatus, locale: str) -> list[tuple[str, Child]]:
    """Small figures under the bar. Until a run is over, what is not known is a dash, so that nothing below
    moves when it comes.
    """
    is_open = status.state in ACTIVE
    is_whole = status.learns or status.eta_seconds is None
    time_left = N_("Time left") if is_whole else N_("Phase time left")
    figures: list[tuple[str, Any, Callable[[Any], str]]] = [
        (time_left, status.eta_seconds, lambda seconds: said(duration_message(seconds), locale))
        if is_open
        else (N_("Epoch"), status.epoch or None, "{:.1f}".format),
        (N_("Loss"), status.loss_points[-1][1] if status.loss_points else None, "{:.3f}".format),
        (_counted_errors(status), error_change(status) or None, str),
        (N_("Clips per second"), status.samples_per_second or None, "{:.1f}".format),
        (N_("Speed-up over 30 s padding"), status.speedup or None, "{:.1f} ×".format),
        (N_("Data-loading wait"), status.data_wait_share if is_open else None, format_percent),
        (N_("Learning rate"), status.rate_points[-1][1] if status.rate_points else None, "{:.2e}".format),
        (N_("Memory in use") if is_open else N_("Memory used"), status.memory_bytes or None, format_bytes),
        (N_("Checkpoints"), status.checkpoints_bytes or None, format_bytes),
        (N_("Disk free"), status.disk_free_bytes, format_bytes),
    ]
    return [
        (tr(name, locale), "–" if value is None else write(value))
        for name, value, write in figures
        if is_open or value is not None
    ]


def disk_note(free: int, locale: str) -> Html:
    """What is left on the disk where runs are kept; a warning if it is little."""
    text = tr("{free} free on the disk where runs are kept.", locale, free=format_bytes(free))
    return note(text, "warning") if free < LITTLE_SPACE_BYTES else tag("p", text, class_="subdued")


def _data(status: RunStatus, locale: str) -> Html | None:
    """What the run reads, and the rows it left out by their line; at work, a place for it."""
    data = status.data
    if not data:
        return tag("p", "\u00a0", class_="subdued") if status.state in ACTIVE else None
    read = tr(
        "{train} clips to train on ({hours}), {evaluation} to evaluate.",
        locale,
        train=data.get("train_samples", 0),
        hours=duration_message(3600 * float(data.get("train_hours") or 0)),
        evaluation=data.get("eval_samples", 0),
    )
    skipped = data.get("skipped") or []
    if not skipped:
        return tag("p", read, class_="subdued")
    title = tr("Rows not used: {count}", locale, count=data.get("skipped_count", len(skipped)))
    rows = [
        [
            _place(row),
            said(message_from(row.get("template"), row.get("values"), row.get("reason")), locale),
        ]
        for row in skipped
    ]
    listed = table([tr("Line", locale), tr("Reason", locale)], rows, numeric=[0])
    return tag("div", tag("p", read, class_="subdued"), folded(title, listed))


def _place(row: Mapping[str, Any]) -> str:
    """The row's line, after the name of its list where the run reads several."""
    name = PurePath(str(row.get("source") or "")).name
    return f"{name}: {row.get('line')}" if name else str(row.get("line"))


def samples_table(
    rows: Sequence[Mapping[str, Any]],
    locale: str,
    earlier: Sequence[tuple[int, Sequence[Mapping[str, Any]]]] = (),
) -> Html:
    """What was said and what the model wrote, differences marked, for a few clips of the last evaluation;
    folded below it, those of the evaluations before.
    """
    if not rows:
        return Html("")
    before = [
        folded(tr("Evaluation at step {step}", locale, step=step), _heard(old, locale))
        for step, old in reversed(earlier[:-1])
    ]
    return tag(
        "div",
        tag("h2", tr("Samples from the last evaluation", locale)),
        difference_legend(locale),
        _heard(rows, locale),
        before,
    )


def _heard(rows: Sequence[Mapping[str, Any]], locale: str) -> Html:
    cells: list[list[Child]] = []
    for row in rows:
        said, written = str(row.get("reference", "")), str(row.get("hypothesis", ""))
        cells.append([said, difference(said, written)])
    return table([tr("Reference", locale), tr("Model output", locale)], cells, class_="stacked")
