"""A run's folder as a `RunStatus`."""

from studio.jobs import process
from studio.jobs.history import History
from studio.jobs.status import (
    EvalPoint,
    JobState,
    RunStatus,
    created_at,
    iso,
    read_result,
    read_run_config,
    read_state,
    why_interrupted,
)
from studio.training.run_dir import RunDir


def view(run: RunDir, history: History | None, *, with_curves: bool = True) -> RunStatus:
    """A run as its folder shows it. Without `history`, only what the result tells."""
    history = history or History()
    config, broken = read_run_config(run)
    state = read_state(run, history.last_event)
    result = read_result(run) or {}
    error = why_interrupted(run) if state is JobState.INTERRUPTED else None
    points = tuple(history.evaluations[step] for step in sorted(history.evaluations))
    metrics = result.get("metrics") or {}
    if not points:
        points = tuple(
            EvalPoint(**point) for point in (metrics.get("base"), metrics.get("final")) if point is not None
        )
    max_steps = history.max_steps or int(result.get("max_steps") or 0)
    step = max_steps if state is JobState.FINISHED else history.step or int(result.get("step") or 0)
    return RunStatus(
        run_id=run.run_id,
        state=JobState.FAILED if broken else state,
        config=config,
        phase=_phase(state, history),
        step=step,
        max_steps=max_steps,
        epoch=float(history.latest.get("epoch") or 0.0),
        eta_seconds=history.latest.get("eta_seconds") if state is JobState.RUNNING else None,
        samples_per_second=history.latest.get("samples_per_second"),
        memory_bytes=history.latest.get("memory_bytes") or result.get("memory_bytes"),
        loss_points=tuple(sorted(history.losses.items())) if with_curves else (),
        eval_points=points,
        metric=str(history.metric or metrics.get("metric") or ""),
        metrics=metrics,
        eval_progress=history.eval_progress,
        samples=history.samples,
        data=history.data,
        warnings=tuple(history.warnings),
        error=broken or str(result.get("error") or error or ""),
        error_template=str(result.get("error_template") or (error.template if error else "")),
        error_values=result.get("error_values")
        or {k: str(v) for k, v in (error.values if error else {}).items()},
        model_id=result.get("model_id"),
        created=created_at(run),
        started=iso(process.start_time(run)),
        ended=str(result.get("ended") or (iso(history.last_event) if error else "")),
    )


def _phase(state: JobState, history: History) -> str:
    if state is JobState.QUEUED:
        return ""
    return "starting" if state is JobState.STARTING else history.phase
