"""A run that ends because nothing improves any more, the same whether it was resumed or not."""

from pathlib import Path

from transformers.trainer_callback import TrainerState

from studio.options.training import TrainingConfig
from studio.training.checkpoints import STATE_FILE


def ended_early(config: TrainingConfig, checkpoint: Path) -> bool:
    """Whether the run was over at that checkpoint because nothing improved any more."""
    state = TrainerState.load_from_json(str(checkpoint / STATE_FILE))
    return is_over(config.early_stopping_patience, state)


def is_over(patience: int, state: TrainerState) -> bool:
    """Read from the evaluations on record, so that a resumed run ends where an unbroken one does."""
    steps = {entry["step"] for entry in state.log_history if "eval_loss" in entry}
    in_vain = [step for step in steps if step > (state.best_global_step or 0)]
    return 0 < patience <= len(in_vain)
