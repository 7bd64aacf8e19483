"""How many optimizer steps a run has, and after which of them it evaluates."""

import math
from dataclasses import dataclass

from studio.messages import Message
from studio.options.schedulers import WITHOUT_WARMUP
from studio.options.training import TrainingConfig


@dataclass(frozen=True)
class Schedule:
    """Optimizer steps of a run, counted as the trainer counts them."""

    steps_per_epoch: int
    max_steps: int

    @classmethod
    def of(cls, config: TrainingConfig, clips: int) -> "Schedule":
        """For that many training clips; each process takes a batch a step."""
        batches = math.ceil(clips / config.per_device_train_batch_size)
        batches = math.ceil(batches / config.num_processes)
        steps_per_epoch = math.ceil(batches / config.gradient_accumulation_steps)
        if config.max_steps > 0:
            return cls(steps_per_epoch, config.max_steps)
        return cls(steps_per_epoch, math.ceil(config.num_train_epochs * steps_per_epoch))

    def interval(self, steps: float) -> int:
        """Whole steps of an interval, which below 1 is a share of all steps."""
        return math.ceil(steps * self.max_steps) if steps < 1 else int(steps)

    def warmup(self, config: TrainingConfig) -> int:
        """Steps in which the learning rate rises: at least one is left that has it whole."""
        return min(self.interval(config.warmup_steps), self.max_steps - 1)

    def warmup_note(self, config: TrainingConfig) -> Message | None:
        """Says so where as many steps of warm-up were asked for as the run has, or more."""
        if config.warmup_steps < max(1, self.max_steps) or config.lr_scheduler_type in WITHOUT_WARMUP:
            return None
        return Message(
            "warmup_steps {asked:g} leaves no step of {all} with the whole learning rate: it rises in "
            "{steps}.",
            asked=config.warmup_steps,
            all=self.max_steps,
            steps=self.warmup(config),
        )

    def _between_evaluations(self, config: TrainingConfig) -> int:
        return self.steps_per_epoch if config.eval_strategy == "epoch" else self.interval(config.eval_steps)

    def evaluations(self, config: TrainingConfig) -> int:
        """How many there are, that of the base before training among them."""
        return config.eval_on_start + self.evaluations_after(0, config) if config.evaluates else 0

    def evaluations_after(self, step: int, config: TrainingConfig) -> int:
        """How many come after later steps than that."""
        if not config.evaluates or step >= self.max_steps:
            return 0
        every = self._between_evaluations(config)
        delay = config.eval_delay * (every if config.eval_strategy == "epoch" else 1)
        before_last = (self.max_steps - 1) // every - max(step // every + 1, math.ceil(delay / every)) + 1
        return max(0, before_last) + 1

    def evaluates_at(self, step: int, config: TrainingConfig) -> bool:
        """Whether the trainer evaluates after that step."""
        if not config.evaluates or step == 0:
            return False
        if step >= self.max_steps:
            return True
        passed = step / self.steps_per_epoch if config.eval_strategy == "epoch" else step
        return step % self._between_evaluations(config) == 0 and passed >= config.eval_delay


def micro_batch_number(step: int, place: int, batches: int, accumulated: int) -> int:
    """Number, over all epochs, of the micro-batch at that `place` of a step, all from 0.

    An epoch has so many `batches`: its last step may have fewer than are `accumulated`.
    """
    epoch, within = divmod(step, math.ceil(batches / accumulated))
    return epoch * batches + within * accumulated + place


def place_among_begun(number: int, batches: int, begun_batches: int, size: int, begun_size: int) -> float:
    """Where a micro-batch of `size` begins, counted over all epochs in those of the `begun_size` that the run
    had before memory ran out: what is learned stays the same. An epoch has so many `batches` of either.
    """
    epoch, within = divmod(number, batches)
    return epoch * begun_batches + within * size / begun_size
