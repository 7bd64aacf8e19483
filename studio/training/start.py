"""Where an attempt begins, in all processes alike: at the first step, or at the last checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.training.checkpoints import has_evaluated, last_checkpoint, step_of
from studio.training.handout import hand_out
from studio.training.record import evaluations
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule
from studio.training.world import World

_OF_ITS_MACHINE = {
    *("machine_rank", "main_process_ip", "main_process_port", "base_model", "train_data", "test_data"),
    *("output_dir", "cache_dir", "run_name", "report_to", "local_files_only", "dataloader_num_workers"),
}
"""Options that may differ from machine to machine; the clips themselves are compared once they are read."""


@dataclass(frozen=True)
class Start:
    """As the main process found it."""

    checkpoint: Path | None
    step: int
    is_evaluated: bool
    """Whether that step's evaluation is done; at step 0, the base's."""

    @classmethod
    def of(cls, run: RunDir, world: World) -> "Start":
        """Looks for the last checkpoint; a machine that lacks it gets a copy."""
        found: dict[str, Any] = {}
        if world.is_main:
            checkpoint = last_checkpoint(run.checkpoints)
            found["step"] = step_of(checkpoint)
            found["is_evaluated"] = has_evaluated(checkpoint) if checkpoint else 0 in evaluations(run)
            found["name"] = checkpoint.name if checkpoint else ""
        found = world.share(found)
        folder = run.checkpoints / found["name"] if found["name"] else None
        if folder is not None:
            hand_out(world, folder)
        return cls(folder, found["step"], found["is_evaluated"])

    def evaluates_first(self, config: TrainingConfig, schedule: Schedule) -> bool:
        """Whether an evaluation is owed before the next step."""
        if self.checkpoint is None:
            is_wanted = config.eval_on_start and config.eval_strategy != "no"
        else:
            is_wanted = schedule.evaluates_at(self.step, config)
        return is_wanted and not self.is_evaluated


def shared_options(config: TrainingConfig) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    return {name: value for name, value in config_to_dict(config).items() if name not in _OF_ITS_MACHINE}
