"""Watches a run from the terminal: one line of progress, and what came of it."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studio.cli.output import ProgressLine, say, show
from studio.cli.parsing import PROGRAM
from studio.evaluation.capabilities import verdict_of
from studio.options.arguments import command_line
from studio.publishing.findings import loss_of, name_of_check, non_speech_of, unchecked_of
from studio.runs import process
from studio.runs.disk import LITTLE_SPACE_BYTES
from studio.runs.manager import JobManager, JobState, RunStatus
from studio.training.events import RunPhase
from studio.training.learning_rate import gentler
from studio.training.run_dir import RunDir
from studio.units import counted, duration_message, format_bytes, format_percent

Tell = Callable[[str], None]

SCHEMA_VERSION = 1
ENDED = (JobState.FINISHED, JobState.STOPPED, JobState.FAILED, JobState.INTERRUPTED)
_LOOK_SECONDS = 0.5


def follow(
    jobs: JobManager, run_id: str, *, quarantine: Path | None = None, told: Collection[str] = ()
) -> RunStatus:
    """Shows the run until it ends. Ctrl-C asks it to save a checkpoint and end; a second one leaves it alone.

    `quarantine` is the folder that lists the rows of a run that are not used, `told` what was noted before.

    Raises:
        KeyboardInterrupt: at the second Ctrl-C.
    """
    notes = Notes(quarantine and quarantine / f"{run_id}.jsonl", set(told))
    with ProgressLine() as line:
        try:
            return _watch(jobs, run_id, line, notes)
        except KeyboardInterrupt:
            line.end()
            status = jobs.status(run_id)
            if status.step > 0:
                say("Stopping: what was trained is being saved. Ctrl-C again leaves without waiting for it.")
            elif status.state is not JobState.QUEUED:
                say("Stopping: nothing was trained yet. Ctrl-C again leaves without waiting for it.")
            jobs.stop(run_id)
            return _watch(jobs, run_id, line, notes)


@dataclass(frozen=True)
class Notes:
    """What there is to note of a run, each once."""

    rows_file: Path | None
    """Lists the rows that are not used."""
    told: set[str]

    def of(self, status: RunStatus) -> list[str]:
        """Those that have not been told yet."""
        found = [str(warning) for warning in status.warnings]
        if (unused := self._unused(status.data or {})) is not None:
            found.append(unused)
        new = [note for note in dict.fromkeys(found) if note not in self.told]
        self.told.update(new)
        return new

    def _unused(self, data: Mapping[str, Any]) -> str | None:
        skipped = data.get("skipped") or ()
        if not skipped:
            return None
        first = skipped[0]
        said = f"{data.get('skipped_count', len(skipped))} of the lists' rows are not used."
        where = f" All of them: {self.rows_file}" if self.rows_file else ""
        of_list = f" of {first['source']}" if first.get("source") else ""
        return f"{said} Line {first.get('line')}{of_list}: {first.get('reason')}{where}"


def _watch(jobs: JobManager, run_id: str, line: ProgressLine, notes: Notes) -> RunStatus:
    """Looks until the run has ended; what it has to note is said when it is known, and once."""
    was_interrupted = False
    while True:
        status = jobs.status(run_id)
        for note in notes.of(status):
            line.end()
            say(f"Note: {note}")
        line.update(progress(status))
        if status.state in ENDED and (status.state is not JobState.INTERRUPTED or was_interrupted):
            process.wait_for_exit(jobs.folder(run_id))
            return status
        # A worker that was killed may have a successor in a moment: only a second look is believed.
        was_interrupted = status.state is JobState.INTERRUPTED
        time.sleep(3 * _LOOK_SECONDS if was_interrupted else _LOOK_SECONDS)


def progress(status: RunStatus) -> str:
    """`training · step 30 of 120 · loss 0.312 · 45.2 clips/s · 1 min 20 s left`."""
    if status.state is JobState.QUEUED:
        return f"waiting, place {status.queue_position} in the queue"
    parts = [status.state.value if status.state is not JobState.RUNNING else status.phase.replace("_", " ")]
    if status.eval_progress and status.state is JobState.RUNNING:
        parts[0] += " {} of {}".format(*status.eval_progress)
    if status.max_steps and status.phase in (RunPhase.TRAINING, RunPhase.EVALUATING):
        parts.append(f"step {status.step} of {status.max_steps}")
    if status.retries:
        parts.append(f"attempt {len(status.retries) + 1}")
    if status.loss_points:
        parts.append(f"loss {status.loss_points[-1][1]:.3f}")
    if status.samples_per_second:
        parts.append(f"{status.samples_per_second:.1f} clips/s")
    if status.speedup:
        parts.append(f"{status.speedup:.1f} × padded")
    if status.memory_bytes:
        parts.append(format_bytes(status.memory_bytes))
    if status.eta_seconds is not None and status.state is JobState.RUNNING:
        of_phase = "" if status.learns else " in this phase"
        parts.append(f"{duration_message(status.eta_seconds)} left{of_phase}")
    if status.disk_free_bytes is not None and status.disk_free_bytes < LITTLE_SPACE_BYTES:
        parts.append(f"only {format_bytes(status.disk_free_bytes)} of disk free")
    return " · ".join(parts)


def tell(status: RunStatus, result: Tell = show, *, is_followed: bool = False) -> None:
    """What came of a run, through `result`, and beside it what to do next.

    Of one that `follow` has shown, what it had to note has been said.
    """
    for retry in status.retries:
        say("Note: {} {}".format(*retry.sentences()))
    for warning in () if is_followed else status.warnings:
        say(f"Note: {warning}")
    if status.state is JobState.FINISHED:
        if (loss := loss_of(status.capabilities)) is not None:
            result(str(loss))
            say(f"Train it so: {command_line(gentler(status.config, status.learning_rate))}")
        for line in before_and_after(status):
            result(line)
        for check in (status.capabilities or {}).get("checks", ()):
            verdict = verdict_of(check)
            word = _VERDICTS.get(verdict, verdict)
            name = name_of_check(check["check"], status.capabilities or {})
            base, tuned = (format_percent(check[which]) for which in ("base", "tuned"))
            result(f"{name}: {base} → {tuned} right ({word})")
        if (unchecked := unchecked_of(status.capabilities)) is not None:
            result(str(unchecked))
        if (figure := non_speech_of(status.capabilities)) is not None:
            result(str(figure))
        for line in short_audio_lines(status.short_audio):
            result(line)
        if not status.config.is_main_machine:
            say("The model is on machine 0.")
        else:
            result(f"Model: {status.model_id}")
            say(f"Try it: {PROGRAM} transcribe --model {status.model_id} recording.wav")
    for line in memory_lines(status.memory):
        say(line)
    if status.error:
        say(f"Error: {status.error}")
    if status.state is JobState.STOPPED:
        say(f"Run {status.run_id}: {status.stop_note}")
    if status.state in _ENDINGS:
        say(f"Run {status.run_id} {_ENDINGS[status.state]}.")
    if status.can_resume:
        say(f"Continue it: {PROGRAM} runs resume {status.run_id}")


_VERDICTS = {
    "worse": "worse than the base",
    "neither": "neither can",
    "unclear": "too few clips to tell",
}
_ENDINGS = {
    JobState.FAILED: "failed",
    JobState.INTERRUPTED: "was interrupted",
}


def before_and_after(status: RunStatus) -> list[str]:
    """Error rates of the base and of the finished model, where the run measured them."""
    base, final = status.metrics.get("base"), status.metrics.get("final")
    if not final:
        return []
    away = " against the base, padded" if status.config.distill else ""
    return [
        f"{name.upper()}{away}: {format_percent(base[name])} → {format_percent(final[name])}"
        if base
        else f"{name.upper()}{away}: {format_percent(final[name])}"
        for name in (("cer", "wer") if status.metric == "cer" else ("wer", "cer"))
    ]


def short_audio_lines(report: Mapping[str, Any] | None) -> list[str]:
    """A line a reading: which model, its encoder input, the difference from the base, the speed-up."""
    readings = (report or {}).get("readings") or ()
    if not report or not readings:
        return []
    metric = str(report["metric"]).upper()
    learned = report.get("learned") or 0
    which = f", {learned} of them trained on" if learned else " that were not learned from"
    lines = [f"Short-audio mode, on {counted(report['clips'], 'clip')}{which}:"]
    for row in readings:
        who = "base model" if row["is_base"] else "tuned model"
        seen = "as long as the audio" if row["audio_context"] == "short" else "30 s"
        line = f"  {who}, encoder input {seen}: {format_percent(row['disagreement'])} difference from base"
        if row["error"] is not None:
            line += f", {metric} {format_percent(row['error'])}"
        speed = readings[0]["seconds"] / max(row["seconds"], 1e-9)
        lines.append(f"{line}, {speed:.1f} × the speed")
    return lines


def memory_lines(memory: Mapping[str, Any] | None) -> list[str]:
    """Predicted memory beside measured memory; nothing where nothing was measured."""
    measured = memory.get("measured") if memory else None
    if not memory or not measured:
        return []
    predicted = memory.get("predicted") or {}
    if measured.get("device") == "cpu":
        tensors = predicted.get("tensor_bytes")
        said = f"{format_bytes(tensors)} of tensors predicted; " if tensors else ""
        grown = format_bytes(measured.get("process_bytes") or 0)
        return [f"Memory: {said}the whole process grew by {grown} (without a GPU, tensors are not measured)"]
    names = (("tensors", "allocated_bytes"), ("allocator", "reserved_bytes"), ("card", "device_bytes"))
    figures = [
        f"{name} {_size(predicted.get(key))} → {format_bytes(measured[key])}"
        for name, key in names
        if measured.get(key)
    ]
    return [f"Memory on {measured.get('device')}, predicted → measured: {', '.join(figures)}"]


def _size(size_bytes: int | None) -> str:
    return format_bytes(size_bytes) if size_bytes else "?"


def as_dict(status: RunStatus, folder: RunDir) -> dict[str, Any]:
    """A run for machines."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": status.run_id,
        "state": status.state.value,
        "model": status.model_id,
        "error": str(status.error) if status.error else None,
        "step": status.step,
        "max_steps": status.max_steps,
        "evaluations": [
            {"step": point.step, "epoch": point.epoch, "wer": point.wer, "cer": point.cer, "loss": point.loss}
            for point in status.eval_points
        ],
        "metrics": dict(status.metrics),
        "capabilities": status.capabilities,
        "short_audio": status.short_audio,
        "memory": status.memory,
        "warnings": [str(warning) for warning in status.warnings],
        "retries": [
            {**asdict(retry), "text": " ".join(map(str, retry.sentences()))} for retry in status.retries
        ],
        "checkpoints_bytes": status.checkpoints_bytes,
        "disk_free_bytes": status.disk_free_bytes,
        "can_resume": status.can_resume,
        "created": status.created,
        "ended": status.ended,
        "run_dir": str(folder.path),
    }
