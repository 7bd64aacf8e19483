"""What a training will be, decided once the clips and the model are known."""

import logging
from dataclasses import dataclass
from typing import Any

import torch

from studio.evaluation.metrics import metric_for
from studio.options.training import TrainingConfig
from studio.training.adapters import Precision, count_parameters
from studio.training.data.clips import TrainingData
from studio.training.distributed.world import World
from studio.training.events import EventLog
from studio.training.learning_rate import learning_rate_for
from studio.training.schedule import Schedule
from studio.whisper.audio_context import SHORT

log = logging.getLogger("studio.training")


@dataclass(frozen=True)
class RunPlan:
    """What the options leave open, settled."""

    schedule: Schedule
    metric: str
    """`wer` or `cer`: what tells which checkpoint is the best."""
    learning_rate: float
    audio_context: str
    """`full` or `short`: what the encoder sees."""

    @classmethod
    def of(cls, config: TrainingConfig, data: TrainingData, d_model: int, audio_context: str) -> "RunPlan":
        """For these clips and a model of that width."""
        metric = config.metric_for_best_model
        if metric == "auto":
            metric = metric_for(data.written_language)
        schedule = Schedule.of(config, len(data.train))
        return cls(schedule, metric, learning_rate_for(config, d_model), audio_context)

    def tell(self, model: Any, precision: Precision, world: World, events: EventLog) -> None:
        """Writes the `plan` event; `model` is as it is trained, with its adapter."""
        trainable, total = count_parameters(model)
        events.write(
            "plan",
            max_steps=self.schedule.max_steps,
            num_processes=world.size,
            trainable_parameters=trainable,
            all_parameters=total,
            device="cuda" if torch.cuda.is_available() else "cpu",
            precision=precision.name,
            metric=self.metric,
            learning_rate=self.learning_rate,
            audio_context=self.audio_context,
        )
        if self.audio_context == SHORT:
            log.info("Short-audio mode: the encoder sees each batch's own length, not 30 seconds.")
        log.info(
            "%s steps, %s of %s parameters are trained, learning rate %g.",
            self.schedule.max_steps,
            trainable,
            total,
            self.learning_rate,
        )
