"""A trainer that loses nothing: a step or a checkpoint that goes wrong ends the run with a sentence."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import Seq2SeqTrainer
from transformers.trainer_utils import rotate_checkpoints

from studio.errors import RunError, StorageError, in_brief
from studio.messages import Message
from studio.training.checkpoints import STATE_FILE, WRITING, last_checkpoint, put_in_place
from studio.training.data.collator import CLIPS
from studio.training.distributed.world import World, is_peer_lost
from studio.transcription.devices import is_out_of_memory


class GuardedTrainer(Seq2SeqTrainer):
    """Looks at each loss and at all weights before they are saved; leaves no half of a checkpoint."""

    on_wait: Callable[[float], None]
    """Told how many seconds the batches of a step took to come."""
    world: World
    """The processes of the run."""
    _aside: Path | None = None
    """Where checkpoints go while one is written."""

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The batches of a step, and how long they were waited for."""
        began = time.monotonic()
        batches = super().get_batch_samples(*args, **kwargs)
        self.on_wait(time.monotonic() - began)
        return batches

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward pass.

        Raises:
            RunError: if the loss is not a number any more; names the step and the clips.
        """
        clips = inputs.pop(CLIPS, [])
        loss: torch.Tensor = super().training_step(model, inputs, *args, **kwargs)
        if not bool(torch.isfinite(loss)):
            raise RunError(
                "The loss became {loss} in step {step}, which learns from {clips}. The last good checkpoint "
                "is kept; resuming would come to the same: look at these clips, or start again with a lower "
                "learning_rate.",
                loss=f"{float(loss):g}",
                step=self.state.global_step + 1,
                clips=", ".join(clips),
            )
        return loss

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Nobody asks for them: to count them, transformers goes through all weights in each step."""
        return 0

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Writes a checkpoint aside and renames it into place; one that cannot be written whole goes, and the
        last one stays.

        Raises:
            RunError: if the weights are no numbers any more.
            StorageError: if the checkpoint cannot be written.
        """
        self._require_finite(model)
        place = checkpoint_folder(self.args, self.state.global_step)
        try:
            self._clear_aside()
            self._aside = place.parent / WRITING
            super()._save_checkpoint(model, trial)
            self._put_in_place(self._aside / place.name, place)
        except (OSError, RuntimeError, SafetensorError) as error:
            if is_out_of_memory(error) or is_peer_lost(error):
                raise
            shutil.rmtree(place.parent / WRITING, ignore_errors=True)
            last = last_checkpoint(place.parent)
            raise StorageError(
                "The checkpoint of step {step} could not be written ({reason}), {kept} is kept: make room, "
                "for example with python -m studio runs remove-checkpoints ID, and resume the run.",
                step=self.state.global_step,
                reason=in_brief(error, 200),
                kept=last.name if last else Message("no checkpoint"),
            ) from error
        finally:
            self._aside = None

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._aside or super()._get_output_dir(trial))

    def _clear_aside(self) -> None:
        """Takes away what a killed worker left; nobody writes before all have done so."""
        if self.world.is_first_here:
            shutil.rmtree(Path(str(self.args.output_dir)) / WRITING, ignore_errors=True)
        self.world.any(False)

    def _put_in_place(self, written: Path, place: Path) -> None:
        """Renames what all processes have written, on every machine; their disk may be a shared one."""
        best = self.state.best_global_step
        # The base class looks where it writes, and where the run began: its home may have been moved.
        self.state.best_model_checkpoint = str(checkpoint_folder(self.args, best)) if best else None
        if self.args.should_save:
            self.state.save_to_json(str(written / STATE_FILE))
        self.world.any(False)
        if self.world.is_main:
            put_in_place(written, place)
        self.world.any(False)
        if self.world.is_first_here and written.exists():
            put_in_place(written, place)
        if self.world.is_first_here:
            shutil.rmtree(written.parent, ignore_errors=True)
        if self.args.should_save:
            limit, best_place = self.args.save_total_limit, self.state.best_model_checkpoint
            rotate_checkpoints(str(place.parent), limit, best_place)  # by step: clocks are set back

    def _require_finite(self, model: Any) -> None:
        """Weights that are no numbers any more would replace the last good checkpoint."""
        broken = [n for n, p in model.named_parameters() if p.requires_grad and not bool(p.isfinite().all())]
        if broken:
            raise RunError(
                "Weights became infinite or not a number by step {step} ({name} first). The last good "
                "checkpoint is kept: start again with a lower learning_rate.",
                step=self.state.global_step,
                name=broken[0],
            )


def checkpoint_folder(arguments: Any, step: int) -> Path:
    """Where the trainer with these arguments writes the checkpoint of that step."""
    return Path(arguments.output_dir) / f"checkpoint-{step}"
