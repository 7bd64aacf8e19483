"""Between the trainer and the run's folder: events out, stop request in."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from studio.evaluation.metrics import rate_interval
from studio.evaluation.scripts import errors_in_one_script
from studio.methods.method import Method
from studio.training.distributed.world import World
from studio.training.events import EventLog, RunPhase
from studio.training.stop import StopRequested, StopSignal

log = logging.getLogger("studio.training")

_SHOWN_TEXTS = 5
_STEPS_REMEMBERED = 20
"""The speed is that of so many latest steps."""
_BETWEEN_STEP_EVENTS_SECONDS = 1.0


@dataclass(eq=False)
class RunCallback(TrainerCallback):
    """Writes what happens to the run's events, and ends training when a stop is asked for."""

    events: EventLog
    stop: StopSignal
    texts: Callable[[], list[tuple[str, str]]]
    """Gives reference and hypothesis of each clip of the latest evaluation."""
    clips_per_step: int
    """Of all processes."""
    eval_clips: int
    method: Method
    look_at_memory: Callable[[], None] = lambda: None
    """Called after steps and evaluations."""
    world: World = field(default_factory=World)
    evaluations_after: Callable[[int], int] = lambda _step: 0
    """How many evaluations come after a step."""
    eval_seconds: float = 0.0
    """How long the latest evaluation took, if there was one."""
    speedup: Callable[[], float | None] = lambda: None
    """How many times as fast the run is as with every batch padded, as far as it is known."""
    training_seconds: float = 0.0
    """Spent in optimizer steps; set before it begins, with those of earlier attempts."""
    evaluating_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._evaluated = 0
        self._step_seconds: deque[float] = deque(maxlen=_STEPS_REMEMBERED)
        self._waits: deque[float] = deque(maxlen=_STEPS_REMEMBERED)
        self._step_started = 0.0
        self._last_event = 0.0

    def waited(self, seconds: float) -> None:
        """Called by the trainer with how long the next step's batches took to come."""
        self._waits.append(seconds)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Starts the clock of the step."""
        self._step_started = time.monotonic()

    def on_optimizer_step(
        self, args: Any, state: TrainerState, control: Any, model: Any = None, **_: Any
    ) -> None:
        """What the method does while the gradients are there, such as moving ranks between layers."""
        self.method.after_optimizer_step(model, state.global_step + 1)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ends training with a checkpoint if a stop is asked for; else sees to evaluation and saving."""
        seconds = time.monotonic() - self._step_started + (self._waits[-1] if self._waits else 0.0)
        self._step_seconds.append(seconds)
        self.training_seconds += seconds
        is_last = state.global_step >= state.max_steps
        # A stop may reach one process before the others: all look in the same step, and all end in it.
        if self.world.any(self.stop.is_set) and not is_last:
            control.should_training_stop = True
            control.should_evaluate = False
            control.should_save = True
            log.info("Stop asked for: saving a checkpoint at step %s.", state.global_step)
        elif is_last and args.eval_strategy == "steps":
            control.should_evaluate = True
        elif args.eval_strategy == "epoch" and (is_last or (_ends_epoch(state) and _is_due(args, state))):
            control.should_save = False  # the evaluation that follows at once saves
        is_time = is_last or time.monotonic() - self._last_event > _BETWEEN_STEP_EVENTS_SECONDS
        if is_time and not control.should_log:
            self._write_step(state, {})

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """A run that stops does not evaluate first: its resumption makes up for it."""
        if self.world.any(self.stop.is_set) and state.global_step < state.max_steps:
            control.should_training_stop = True
            control.should_evaluate = False
            control.should_save = True
        elif args.eval_strategy == "epoch" and state.global_step >= state.max_steps:
            control.should_evaluate = True  # whatever eval_delay says

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """A point of the loss curve."""
        if logs and "loss" in logs:
            self._write_step(state, logs)
            log.info("step %s/%s: loss %.4f", state.global_step, state.max_steps, logs["loss"])

    def evaluation_begins(self) -> None:
        """Called by the trainer, which has no callback of its own for this."""
        self._evaluated = 0
        self.events.write("phase", phase=RunPhase.EVALUATING)
        self.events.write("eval_progress", done=0, total=self.eval_clips)

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Progress of an evaluation.

        Raises:
            StopRequested: which the worker turns into a checkpoint.
        """
        done = self._evaluated + args.eval_batch_size * self.world.size
        self._evaluated = min(self.eval_clips, done)
        self.events.write("eval_progress", done=self._evaluated, total=self.eval_clips)
        if self.world.any(self.stop.is_set):
            raise StopRequested

    def on_evaluate(
        self, args: Any, state: TrainerState, control: TrainerControl, metrics: Any = None, **_: Any
    ) -> None:
        """Records an evaluation and asks for a checkpoint of what was evaluated."""
        self.eval_seconds = float(metrics["eval_runtime"])
        self.evaluating_seconds += self.eval_seconds
        texts = self.texts()
        point: dict[str, Any] = {
            "step": state.global_step,
            "epoch": state.epoch or 0.0,
            **errors_found(metrics, texts),
            "seconds": self.eval_seconds,
        }
        self.events.write("eval", **point)
        shown = texts[:: max(1, len(texts) // _SHOWN_TEXTS)][:_SHOWN_TEXTS]
        rows = [{"reference": reference, "hypothesis": hypothesis} for reference, hypothesis in shown]
        self.events.write("samples", step=state.global_step, rows=rows)
        log.info(
            "evaluation at step %s: WER %.2f %%, CER %.2f %%, loss %.4f",
            state.global_step,
            100 * point["wer"],
            100 * point["cer"],
            point["loss"],
        )
        self.look_at_memory()
        self.events.write("phase", phase=RunPhase.TRAINING)
        control.should_save = state.global_step > 0

    def on_save(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Records a checkpoint."""
        self.events.write("checkpoint", step=state.global_step)
        self.tell_spent()

    def tell_spent(self) -> None:
        """Records how long the run took so far: the next attempt, if there is one, counts on from there."""
        spent = {"training_seconds": self.training_seconds, "evaluating_seconds": self.evaluating_seconds}
        self.events.write("spent", **spent)

    def _write_step(self, state: TrainerState, logs: dict[str, float]) -> None:
        mean_seconds = sum(self._step_seconds) / len(self._step_seconds) if self._step_seconds else 0.0
        self._last_event = time.monotonic()
        self.events.write(
            "step",
            step=state.global_step,
            max_steps=state.max_steps,
            epoch=state.epoch or 0.0,
            loss=logs.get("loss"),
            learning_rate=logs.get("learning_rate"),
            grad_norm=logs.get("grad_norm"),
            samples_per_second=self.clips_per_step / mean_seconds if mean_seconds else None,
            data_wait_share=self._wait_share(),
            speedup=self.speedup(),
            eta_seconds=self._eta(state, mean_seconds),
            memory_bytes=memory_bytes(),
        )
        self.look_at_memory()

    def _wait_share(self) -> float | None:
        """Share of the latest steps' time in which the model waited for batches."""
        steps = list(self._step_seconds)
        waits = list(self._waits)[-len(steps) :] if steps else []
        return sum(waits) / sum(steps) if sum(steps) > 0 else None

    def _eta(self, state: TrainerState, mean_seconds: float) -> float:
        """Seconds that the remaining steps and evaluations take at the present speed."""
        steps, evaluations = state.max_steps - state.global_step, self.evaluations_after(state.global_step)
        return steps * mean_seconds + evaluations * self.eval_seconds


def errors_found(metrics: Mapping[str, float], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What an evaluation found, from the trainer's metrics and each clip's reference and hypothesis."""
    references, hypotheses = [given for given, _ in texts], [heard for _, heard in texts]
    intervals = {metric: rate_interval(references, hypotheses, metric) for metric in ("wer", "cer")}
    found = {**{name: metrics[f"eval_{name}"] for name in ("wer", "cer", "loss")}, "intervals": intervals}
    alike = errors_in_one_script(references, hypotheses)
    return found if alike is None else {**found, "cer_in_one_script": alike}


def _is_due(args: TrainingArguments, state: TrainerState) -> bool:
    """Whether `eval_delay`, counted in epochs, is over."""
    return state.epoch is not None and state.epoch >= args.eval_delay


def _ends_epoch(state: TrainerState) -> bool:
    return state.epoch is not None and abs(state.epoch - round(state.epoch)) < 1e-9


def free_bytes() -> int:
    """What is left on the GPU, or in the machine."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)


def memory_bytes() -> int:
    """Peak of this process on the GPU, or what it holds in memory now."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return int(psutil.Process().memory_info().rss)
