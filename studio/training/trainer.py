"""`Seq2SeqTrainer` put together for Whisper: arguments, evaluation by generating, checkpoints that resume."""

from pathlib import Path
from typing import Any

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments
from transformers.modeling_outputs import BaseModelOutput
from transformers.trainer_callback import TrainerState

from studio.evaluation.metrics import error_rates
from studio.inference.decoding import Decoder, Search
from studio.training.adapters import Precision, checkpointing_options, load_adalora, save_adalora
from studio.training.callback import RunCallback
from studio.training.collator import IGNORED, ClipDataset, Collator
from studio.training.config import TrainingConfig
from studio.training.data import TrainingData

NEVER = 10**9
"""Steps between things that are not to happen by themselves."""
_STATE_FILE = "trainer_state.json"
_CHECKPOINT_FILES = ("optimizer.pt", "scheduler.pt", "rng_state.pth", _STATE_FILE)
_WEIGHTS = ("adapter_model.safetensors", "model.safetensors", "model.safetensors.index.json")


def training_arguments(
    config: TrainingConfig,
    learning_rate: float,
    checkpoints: Path,
    precision: Precision,
    metric: str,
    log_name: str,
) -> Seq2SeqTrainingArguments:
    """The trainer's own arguments; names are the same wherever both have one."""
    return Seq2SeqTrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=config.num_train_epochs,
        max_steps=config.max_steps if config.max_steps > 0 else -1,
        per_device_train_batch_size=config.per_device_train_batch_size,
        per_device_eval_batch_size=config.per_device_eval_batch_size,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        learning_rate=learning_rate,
        warmup_steps=config.warmup_steps,
        lr_scheduler_type=config.lr_scheduler_type,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        fp16=precision.name == "fp16",
        bf16=precision.name == "bf16",
        gradient_checkpointing=config.gradient_checkpointing,
        gradient_checkpointing_kwargs=checkpointing_options(config)
        if config.gradient_checkpointing
        else None,
        eval_strategy=config.eval_strategy,
        eval_steps=config.eval_steps if config.eval_strategy == "steps" else None,
        eval_on_start=False,
        save_strategy="steps",
        save_steps=config.save_steps or NEVER,
        save_total_limit=config.save_total_limit,
        metric_for_best_model=metric,
        greater_is_better=False,
        logging_steps=config.logging_steps,
        predict_with_generate=True,
        dataloader_num_workers=config.dataloader_num_workers,
        dataloader_persistent_workers=config.dataloader_num_workers > 0,
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=config.report_to,
        run_name=log_name,
        disable_tqdm=True,
        log_level="error",
    )


class WhisperTrainer(Seq2SeqTrainer):
    """Generates with the studio's decoder when it evaluates, and keeps what an exact resumption needs."""

    def __init__(
        self,
        model: Any,
        arguments: Seq2SeqTrainingArguments,
        config: TrainingConfig,
        data: TrainingData,
        collator: Collator,
        decoder: Decoder,
        callback: RunCallback,
    ) -> None:
        """`decoder` holds the same weights as `model`, without PEFT's wrapping."""
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=ClipDataset(data.train),
            eval_dataset=ClipDataset(data.evaluation),
            data_collator=collator,
            processing_class=decoder.extractor,
            callbacks=[callback],
        )
        self._config = config
        self._decoder = decoder
        self._run_callback = callback
        self.compute_metrics = self._error_rates
        self.texts: list[tuple[str, str]] = []
        """Reference and hypothesis of each clip in the latest evaluation."""

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
        with torch.no_grad(), self.autocast_smart_context_manager():
            features = inputs["input_features"].to(decoder.model.dtype)
            encoded = decoder.model.get_encoder()(features).last_hidden_state
            outputs = decoder.model(encoder_outputs=BaseModelOutput(last_hidden_state=encoded), labels=labels)
            search = Search(self._config.generation_num_beams, 0.0, self._config.generation_max_length)
            rows = decoder.write(encoded, [self._prompt(row) for row in labels.tolist()], search)
        tokens = torch.full((len(rows), max(1, *map(len, rows))), IGNORED, device=labels.device)
        for index, row in enumerate(rows):
            tokens[index, : len(row)] = torch.tensor(row, device=labels.device)
        return outputs.loss.detach().float(), tokens, labels

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluates without using up random numbers: training goes on as if it had not been interrupted."""
        self._run_callback.evaluation_begins()
        with torch.random.fork_rng():
            return dict(super().evaluate(*args, **kwargs))

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Of two checkpoints with the same error rate, the one with the smaller loss is better."""
        losses = {
            entry["step"]: entry["eval_loss"] for entry in self.state.log_history if "eval_loss" in entry
        }
        is_equal = metrics[f"eval_{self.args.metric_for_best_model}"] == self.state.best_metric
        best = losses.get(self.state.best_global_step or -1)
        if is_equal and best is not None and metrics["eval_loss"] < best:
            self.state.best_global_step = self.state.global_step
            return True
        return super()._determine_best_metric(metrics, trial)

    def _evaluate(
        self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False
    ) -> dict[str, float]:
        metrics: dict[str, float] = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)
        # Called so before the first step: at step 0 for the base, else for what a stop cut short.
        is_owed = skip_scheduler and self.state.global_step > 0
        if is_owed and self._determine_best_metric(metrics, trial):
            self.state.best_model_checkpoint = str(checkpoint_folder(self.args, self.state.global_step))
        return metrics

    def save_interrupted(self) -> None:
        """A checkpoint of a step whose evaluation was cut short by a stop: training has saved none yet."""
        step = self.state.global_step
        if step > 0 and not _is_complete(checkpoint_folder(self.args, step)):
            assert self.model is not None
            self._save_checkpoint(self.model, None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def go_on_after_last_step(self, checkpoint: Path) -> None:
        """Takes up a run of which only the last evaluation may be missing."""
        self._load_from_checkpoint(str(checkpoint))
        self.state = TrainerState.load_from_json(str(checkpoint / _STATE_FILE))
        if self.args.eval_on_start:
            self._evaluate(None, None, skip_scheduler=True)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._config.method == "adalora":
            save_adalora(self.model, Path(output_dir))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self._config.method == "adalora":
            load_adalora(self.model, Path(resume_from_checkpoint))
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _prompt(self, labels: list[int]) -> list[int]:
        """Start, language and task of the row's label, no timestamps."""
        tokens = self._decoder.tokens
        return [tokens.start, *(labels[:2] if tokens.languages else []), tokens.no_timestamps]

    def _error_rates(self, prediction: Any) -> dict[str, float]:
        hypotheses = [self._text(row) for row in prediction.predictions.tolist()]
        references = [self._text(row) for row in prediction.label_ids.tolist()]
        self.texts = list(zip(references, hypotheses, strict=True))
        rates = error_rates(references, hypotheses)
        return {"wer": rates.wer, "cer": rates.cer}

    def _text(self, row: list[int]) -> str:
        return self._decoder.text_of([token for token in row if token >= 0]).strip()


def checkpoint_folder(arguments: Any, step: int) -> Path:
    """Where the trainer with these arguments writes the checkpoint of that step."""
    return Path(arguments.output_dir) / f"checkpoint-{step}"


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The latest checkpoint that is complete: one whose writing was cut off is passed over."""
    found = []
    for folder in checkpoints.glob("checkpoint-*"):
        number = folder.name.rpartition("-")[2]
        if number.isdecimal() and _is_complete(folder):
            found.append((int(number), folder))
    return max(found)[1] if found else None


def _is_complete(folder: Path) -> bool:
    """The trainer writes its state last, after weights and optimizer."""
    if not all((folder / name).is_file() for name in _CHECKPOINT_FILES):
        return False
    if not any((folder / name).is_file() for name in _WEIGHTS):
        return False
    try:
        TrainerState.load_from_json(str(folder / _STATE_FILE))
    except (ValueError, TypeError):
        return False
    return True


def has_evaluated(checkpoint: Path) -> bool:
    """Whether the evaluation of that very step is recorded in it."""
    state = TrainerState.load_from_json(str(checkpoint / _STATE_FILE))
    return any(entry.get("step") == state.global_step and "eval_wer" in entry for entry in state.log_history)
