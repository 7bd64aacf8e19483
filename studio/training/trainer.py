"""`Seq2SeqTrainer` put together for Whisper: evaluation by generating, checkpoints that resume."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import Seq2SeqTrainingArguments
from transformers.modeling_outputs import BaseModelOutput
from transformers.trainer_callback import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer_utils import EvalLoopOutput

from studio.evaluation.metrics import error_rates
from studio.methods import METHODS
from studio.options.training import TrainingConfig
from studio.training.callback import RunCallback, errors_found
from studio.training.checkpoints import STATE_FILE, complete_checkpoints
from studio.training.data.clips import Clip, TrainingData
from studio.training.data.collator import ClipDataset, Collator, Placed
from studio.training.data.replay import REPLAY_WEIGHT, Windows
from studio.training.distributed.sharding import whole_weights
from studio.training.distributed.world import World
from studio.training.guarded_trainer import GuardedTrainer, checkpoint_folder
from studio.training.schedule import micro_batch_number, place_among_begun
from studio.training.short_audio.audio_context import padded
from studio.training.strength import at_strength, mix, strength_of
from studio.transcription.decoding import write
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.window_model import Search
from studio.whisper.loss import IGNORED


@dataclass(frozen=True)
class Share:
    """What came of a batch: reference and hypothesis of each clip, and the loss over its tokens."""

    rows: list[tuple[str, str]]
    loss_sum: float
    tokens: int


def share_of(clips: Any, world: World, arguments: Any, collator: Any) -> DataLoader[Any]:
    """Batches of every `size`-th clip, so that each clip is in exactly one share."""
    return DataLoader(
        ClipDataset(clips[world.rank :: world.size]),
        batch_size=arguments.eval_batch_size,
        collate_fn=collator,
        num_workers=arguments.dataloader_num_workers,
        pin_memory=arguments.dataloader_pin_memory,
    )


def gathered(shares: Sequence[Share], world: World) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """Reference and hypothesis of every clip in the order of the data, and the metrics of all together."""
    own = {
        "rows": [row for share in shares for row in share.rows],
        "loss_sum": sum(share.loss_sum for share in shares),
        "tokens": sum(share.tokens for share in shares),
    }
    all_shares = world.gather(own)
    in_order = zip_longest(*(share["rows"] for share in all_shares))
    texts = [(row[0], row[1]) for group in in_order for row in group if row is not None]
    rates = error_rates([text for text, _ in texts], [text for _, text in texts])
    loss = sum(share["loss_sum"] for share in all_shares) / sum(share["tokens"] for share in all_shares)
    return texts, {"eval_wer": rates.wer, "eval_cer": rates.cer, "eval_loss": loss}


def smoothed_loss(model: Any, inputs: dict[str, torch.Tensor], config: Any, factor: float) -> torch.Tensor:
    """Mean over the tokens of (1 - factor) × their own loss + factor × the mean loss of all tokens.

    `config` is the Whisper's: padding and start token. The logits are raised to float32 first, as the
    trainer does with a model's outputs under autocast.
    """
    from transformers.models.whisper.modeling_whisper import shift_tokens_right

    labels = inputs["labels"]
    shift: Any = shift_tokens_right
    rest = {name: value for name, value in inputs.items() if name != "labels"}
    if "decoder_input_ids" not in rest:
        rest["decoder_input_ids"] = shift(labels, config.pad_token_id, config.decoder_start_token_id)
    logits = model(**rest).logits
    return functional.cross_entropy(
        logits.view(-1, logits.shape[-1]).float(),
        labels.view(-1),
        ignore_index=IGNORED,
        label_smoothing=factor,
    )


def ended_early(config: TrainingConfig, checkpoint: Path) -> bool:
    """Whether the run was over at that checkpoint because nothing improved any more."""
    state = TrainerState.load_from_json(str(checkpoint / STATE_FILE))
    return is_over(config.early_stopping_patience, state)


def is_over(patience: int, state: TrainerState) -> bool:
    """Read from the evaluations on record, so that a resumed run ends where an unbroken one does."""
    steps = {entry["step"] for entry in state.log_history if "eval_loss" in entry}
    in_vain = [step for step in steps if step > (state.best_global_step or 0)]
    return 0 < patience <= len(in_vain)


class EpochCallback(TrainerCallback):
    """Tells the clips their epoch; accelerate's `set_epoch` does not reach them in a run that is resumed."""

    def __init__(self, clips: ClipDataset) -> None:
        self._clips = clips

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Before each epoch; in the middle of one when resumed there."""
        self._clips.begin_epoch(int(state.epoch or 0))


@dataclass(frozen=True)
class TrainerParts:
    """What a trainer is put together of."""

    model: Any
    """As it is trained: with an adapter around it, where there is one."""
    arguments: Seq2SeqTrainingArguments
    config: TrainingConfig
    data: TrainingData
    collator: Collator
    decoder: TransformersModel
    """Holds the same weights as `model`, without PEFT's wrapping."""
    callback: RunCallback
    world: World = field(default_factory=World)
    windows: Windows | None = None
    """What is rehearsed, if anything."""
    batch_size: int = 0
    """With which the run began, before memory ran out; 0: the same."""


class WhisperTrainer(GuardedTrainer):
    """Generates with the studio's decoder when it evaluates, and keeps what an exact resumption needs."""

    def __init__(self, parts: TrainerParts) -> None:
        decoder, callback = parts.decoder, parts.callback
        clips = ClipDataset(parts.data.train, parts.collator.features.augmentation, decoder.tokens.first_time)
        super().__init__(
            model=parts.model,
            args=parts.arguments,
            train_dataset=clips,
            eval_dataset=ClipDataset(parts.data.evaluation),
            data_collator=parts.collator,
            processing_class=decoder.extractor,
            callbacks=[callback, EpochCallback(clips)],
        )
        self.remove_callback(PrinterCallback)
        self._config = parts.config
        self._decoder = decoder
        self._run_callback = callback
        self.on_wait = callback.waited
        self.world = parts.world
        self._collator = parts.collator
        self._windows = parts.windows
        self._window_maker = ThreadPoolExecutor(1, "rehearsal")
        self._micro_batch = (-1, 0)
        """Step that the latest micro-batch belongs to, and its number in it."""
        self._batches = math.ceil(len(clips) / (self.args.per_device_train_batch_size * self.world.size))
        """Of this process in an epoch."""
        self._begun_size = parts.batch_size or self.args.per_device_train_batch_size
        self._begun_batches = math.ceil(len(clips) / (self._begun_size * self.world.size))
        # One process a GPU: never two GPUs behind one process, whatever this one sees.
        self.args._n_gpu = min(1, self.args.n_gpu)
        # The loss is divided by the tokens of the whole step below, not by batches and processes.
        self.model_accepts_loss_kwargs = True
        self.texts: list[tuple[str, str]] = []
        """Reference and hypothesis of each clip in the latest evaluation."""

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Any:
        """One micro-batch, and what is rehearsed beside it: its sound is made while the batch is learned."""
        number = self._next_batch()
        begin, end = self._place(number), self._place(number + 1)
        beside = self._windows.beside(begin, self.world.rank, self.world.size, end) if self._windows else ()
        windows = [self._window_maker.submit(self._made_window, clip) for clip in beside]
        loss = self._learn(model, inputs, num_items_in_batch, int(begin))
        for window in windows:
            self._rehearse(model, window.result())
        return loss

    def _next_batch(self) -> int:
        """Number of the micro-batch at hand, the same in a run that was resumed."""
        step, number = self._micro_batch
        number = number + 1 if step == self.state.global_step else 0
        self._micro_batch = (self.state.global_step, number)
        accumulated = self.args.gradient_accumulation_steps
        return micro_batch_number(self.state.global_step, number, self._batches, accumulated)

    def _place(self, number: int) -> float:
        """Where a micro-batch begins among those that the run began with."""
        sizes = self.args.per_device_train_batch_size, self._begun_size
        return place_among_begun(number, self._batches, self._begun_batches, *sizes)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Clips with their places in batches of that size."""
        loader = super().get_train_dataloader()
        batches: Any = getattr(loader.batch_sampler, "batch_sampler", loader.batch_sampler)
        batches.sampler = Placed(batches.sampler, self._begun_size)
        return loader

    def _learn(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any, number: int) -> Any:
        """Forward and backward pass of a micro-batch, within the batch of that number of those that the run
        began with."""
        return super().training_step(model, inputs, num_items_in_batch)

    def _made_window(self, clip: Clip) -> dict[str, Any]:
        """A window as a batch of its own, 30 seconds long."""
        inputs: dict[str, Any] = self._collator([clip])
        if "input_features" in inputs:
            inputs["input_features"] = padded(inputs["input_features"])
        return inputs

    def _rehearse(self, model: Any, inputs: dict[str, Any]) -> None:
        """Forward and backward pass of a window; all that a step has on average count `REPLAY_WEIGHT`."""
        tokens = int((inputs["labels"] != IGNORED).sum())
        clips = (
            self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps * self.world.size
        )
        super().training_step(model, inputs, tokens * clips * self._config.replay_share / REPLAY_WEIGHT)

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        prepared: dict[str, Any] = super()._prepare_inputs(inputs)
        # Nothing else lowers them: there is no autocast.
        if self._config.precision == "pure_bf16" and "input_features" in prepared:
            prepared["input_features"] = prepared["input_features"].to(torch.bfloat16)
        return prepared

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The model's own loss, or that with smoothed labels; in training, the mean over all tokens of a
        step, however they are spread over processes and batches.
        """
        found = self._batch_loss(model, inputs, return_outputs)
        if num_items_in_batch is None:
            return found
        # What came is the mean over this batch's tokens, and gradients are averaged over processes.
        tokens = (inputs["labels"] != IGNORED).sum()
        part = tokens / num_items_in_batch * self.world.size
        return (found[0] * part, *found[1:]) if isinstance(found, tuple) else found * part

    def _batch_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        """The mean over this batch's tokens."""
        factor = self._config.label_smoothing_factor
        if not factor or self._config.loss_chunk_size:  # chunks are smoothed where they are taken
            return super().compute_loss(model, inputs, return_outputs)
        return smoothed_loss(model, inputs, self._decoder.model.config, factor)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """This process's share of the clips."""
        clips: Any = self.eval_dataset
        return share_of(clips.clips, self.world, self.args, self.data_collator)

    def evaluation_loop(self, dataloader: DataLoader[Any], *_: Any, **__: Any) -> EvalLoopOutput:
        """Evaluates this process's share, and gathers what all found: every clip once."""
        assert self.model is not None
        self.model.eval()
        batches = iter(dataloader)
        clips: Any = self.eval_dataset
        largest_share = -(-len(clips) // self.world.size)
        shares: list[Share] = []
        for _number in range(-(-largest_share // self.args.eval_batch_size)):
            shares.append(self.world.together(lambda: self._evaluate_batch(next(batches, None))))
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        self.texts, metrics = gathered(shares, self.world)
        return EvalLoopOutput(None, None, metrics, len(self.texts))  # type: ignore[arg-type]

    def _evaluate_batch(self, inputs: dict[str, Any] | None) -> Share:
        """One batch of this process's share; None where it has no more."""
        if inputs is None:
            return Share([], 0.0, 0)
        loss, hypotheses, references = self.prediction_step(self.model, inputs, prediction_loss_only=False)
        tokens = int((references != IGNORED).sum())
        texts = [[self._text(row) for row in rows.tolist()] for rows in (references, hypotheses)]
        return Share(list(zip(*texts, strict=True)), float(loss) * tokens, tokens)

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **gen_kwargs: Any,
    ) -> tuple[Any, Any, Any]:
        """Encodes once, for the loss and for the text; gives back tokens, never logits."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs["labels"]
        decoder = self._decoder
        with torch.no_grad(), self.accelerator.autocast():
            encoded = self._encoded(inputs)
            outputs = decoder.model(encoder_outputs=BaseModelOutput(last_hidden_state=encoded), labels=labels)
            search = Search(self._config.generation_num_beams, 0.0, self._config.generation_max_length)
            loss = outputs.loss.detach().float()
            del outputs  # whose logits would stay through the writing
            written = write(decoder, encoded, [self._prompt(row) for row in labels.tolist()], search)
            rows = [one.tokens for one in written]
        tokens = torch.full((len(rows), max(1, *map(len, rows))), IGNORED, device=labels.device)
        for index, row in enumerate(rows):
            tokens[index, : len(row)] = torch.tensor(row, device=labels.device)
        return loss, tokens, labels

    def _encoded(self, inputs: dict[str, Any]) -> Any:
        """States of a batch, (clips, positions, d_model)."""
        model = self._decoder.model
        return model.get_encoder()(inputs["input_features"].to(model.dtype)).last_hidden_state

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluates without using up random numbers: training goes on as if it had not been interrupted."""
        self._run_callback.evaluation_begins()
        strength = strength_of(self._config)
        with torch.random.fork_rng(), whole_weights(self.model), at_strength(self.model, strength):
            return dict(super().evaluate(*args, **kwargs))

    def go_back_to(self, checkpoint: Path) -> None:
        """The model is that of a checkpoint again."""
        self._load_from_checkpoint(str(checkpoint))

    def errors_at(self, strength: float, base: Path) -> dict[str, Any]:
        """What the model gets wrong at that strength; without an adapter it stays mixed with its `base`.

        Raises:
            StopRequested: if a stop is asked for meanwhile.
        """
        self._run_callback.evaluation_begins()
        if not self._config.is_adapter:
            mix(self.model, base, strength)
        with torch.random.fork_rng(), at_strength(self.model, strength):
            metrics = self.evaluation_loop(self.get_eval_dataloader()).metrics
        assert metrics is not None
        return errors_found(metrics, self.texts)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Of two checkpoints with the same error rate, the one with the smaller loss is better."""
        losses = {
            entry["step"]: entry["eval_loss"] for entry in self.state.log_history if "eval_loss" in entry
        }
        is_equal = metrics[f"eval_{self.args.metric_for_best_model}"] == self.state.best_metric
        best = losses.get(self.state.best_global_step or -1)
        if is_equal and best is not None and metrics["eval_loss"] < best:
            self.state.best_global_step = self.state.global_step
            is_best = True
        else:
            is_best = bool(super()._determine_best_metric(metrics, trial))
        if self.has_ended_early:
            self.control.should_training_stop = True
        return is_best

    @property
    def has_ended_early(self) -> bool:
        """Whether as many evaluations as `early_stopping_patience` says have brought no improvement."""
        return is_over(self._config.early_stopping_patience, self.state)

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        # Called with skip_scheduler before the first step: at step 0 for the base, else for what a stop cut
        # short.
        is_owed = skip_scheduler and self.state.global_step > 0
        metrics: dict[str, float] = super()._evaluate(
            trial, ignore_keys_for_eval, skip_scheduler and not is_owed
        )
        if is_owed:
            self._determine_best_metric(metrics, trial)
        return metrics

    def save_interrupted(self) -> None:
        """A checkpoint of a step whose evaluation was cut short by a stop: training has saved none yet."""
        step = self.state.global_step
        is_there = checkpoint_folder(self.args, step) in complete_checkpoints(Path(str(self.args.output_dir)))
        if step > 0 and not self.world.share(is_there):
            assert self.model is not None
            self._save_checkpoint(self.model, None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def go_on_after_last_step(self, checkpoint: Path) -> None:
        """Takes up a run of which only the last evaluation may be missing."""
        self.go_back_to(checkpoint)
        self.state = TrainerState.load_from_json(str(checkpoint / STATE_FILE))
        if self.args.eval_on_start:
            self._evaluate(None, None, skip_scheduler=True)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        METHODS[self._config.method].save_beside(self.model, Path(output_dir))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not METHODS[self._config.method].load_instead(self.model, Path(resume_from_checkpoint)):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _prompt(self, labels: list[int]) -> list[int]:
        """Start, language and task of the row's label, no timestamps."""
        tokens = self._decoder.tokens
        return [tokens.start, *(labels[:2] if tokens.languages else []), tokens.no_timestamps]

    def _text(self, row: list[int]) -> str:
        return self._decoder.text_of([token for token in row if token >= 0]).strip()
