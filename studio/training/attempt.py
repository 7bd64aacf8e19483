"""One training attempt, from its configuration to a model in the registry."""

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback

from studio.errors import AdapterMismatchError, ConfigError
from studio.evaluation.normalize import writes_without_spaces
from studio.files import require_free_space
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_MODEL, Settings
from studio.training import adapters, finished_model
from studio.training.arguments import read_config
from studio.training.callback import RunCallback
from studio.training.collator import Collator, FeatureSource
from studio.training.data import SourceData, TrainingData, read_source
from studio.training.events import EventLog, Phase, read_events
from studio.training.learning_rate import learning_rate_for
from studio.training.outcome import Outcome, versions
from studio.training.preparation import prepare
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule
from studio.training.stop import StopRequested, StopSignal
from studio.training.trainer import WhisperTrainer, has_evaluated, last_checkpoint, training_arguments

log = logging.getLogger("studio.training")


class Attempt:
    """Carries out what a run's folder asks for."""

    def __init__(self, run: RunDir, settings: Settings, stop: StopSignal, outcome: Outcome) -> None:
        """`outcome` is filled on the way, so that it tells as much as was reached."""
        self.run = run
        self.settings = settings
        self.stop = stop
        self.outcome = outcome
        self.events = EventLog(run.events)
        self.config = read_config(run.config)
        demo = DEMO_MODEL if DEMO_MODEL.is_dir() else None
        self.registry = ModelRegistry(settings.models, demo=demo, hf_cache=settings.hf_cache)

    def carry_out(self) -> None:
        """Trains and keeps the model.

        Raises:
            StudioError: if something the user gave cannot be used.
            StopRequested: if a stop was asked for; the run can be resumed from what is there.
        """
        config = self.config
        if self.settings.threads > 0:
            torch.set_num_threads(self.settings.threads)
        checkpoint = last_checkpoint(self.run.checkpoints)
        if has_begun(self.run):
            self.events.write("resumed", step=_step_of(checkpoint))
            log.info("going on from step %s", _step_of(checkpoint))
        self._check_before()
        spec = self._base_spec()
        self._phase(Phase.READING_DATA)
        source = read_source(config)
        self.stop.check()
        self._phase(Phase.LOADING_MODEL)
        precision = adapters.choose_precision(config.precision, torch.cuda.is_available())
        if precision.note:
            self._warn(precision.note)
        base_path = self._base_path()
        self._check_space(base_path)
        base = adapters.load_base(base_path, config, precision)
        self.stop.check()
        self._phase(Phase.READING_DATA)
        data, features = prepare(config, source, base, self.events, self.stop)
        best = self._train(base, data, features, precision, checkpoint)
        self._phase(Phase.SAVING)
        self._keep(best, spec, base_path, base, data, source)

    def _check_before(self) -> None:
        finished_model.check_output_dir(self.config)
        package = self.config.report_to
        if package != "none" and find_spec(package) is None:
            raise ConfigError(
                "report_to {name} needs the package {name}, which is not installed: install it with "
                "pip install {name}, or choose none.",
                name=package,
            )

    def _base_spec(self) -> ModelSpec:
        spec = self.registry.get(self.config.base_model)
        if spec.kind is ModelKind.ADAPTER:
            raise AdapterMismatchError(
                "{model} is an adapter, which cannot be trained on: choose its base {base}.",
                model=spec.id,
                base=spec.base_model or "",
            )
        if spec.kind is ModelKind.EXPORT:
            raise ConfigError(
                "{model} is an export, which cannot be trained: choose its base.", model=spec.id
            )
        return spec

    def _base_path(self) -> Path:
        config = self.config
        return self.registry.local_path(
            config.base_model,
            local_files_only=config.local_files_only,
            cache_dir=Path(config.cache_dir) if config.cache_dir else None,
        )

    def _check_space(self, base: Path) -> None:
        """Room for the checkpoints kept, one being written, and the model itself."""
        weights = sum(file.stat().st_size for file in base.glob("*.safetensors"))
        if self.config.is_adapter:
            checkpoint = weights * self.config.lora_r // 200
        else:
            checkpoint = 6 * weights
        needed = checkpoint * (self.config.save_total_limit + 2)
        require_free_space(self.run.path, needed)

    def _train(
        self,
        base: adapters.Base,
        data: TrainingData,
        features: FeatureSource,
        precision: adapters.Precision,
        checkpoint: Path | None,
    ) -> Path:
        """Trains to the last step; gives back the best checkpoint."""
        config, decoder = self.config, base.decoder
        schedule = Schedule.of(config, len(data.train))
        model = adapters.prepare_method(decoder.model, config, schedule.max_steps)
        metric = self._metric(data)
        rate = learning_rate_for(config, decoder.model.config.d_model)
        self._report_plan(model, precision, schedule, metric, rate)
        arguments = training_arguments(config, rate, self.run.checkpoints, precision, metric, self.run.run_id)
        callback = RunCallback(
            self.events,
            self.stop,
            lambda: trainer.texts,
            config.per_device_train_batch_size * config.gradient_accumulation_steps,
            len(data.evaluation),
        )
        collator = Collator(features, decoder.extractor.nb_max_frames, self._warn)
        trainer = WhisperTrainer(model, arguments, config, data, collator, decoder, callback)
        trainer.remove_callback(PrinterCallback)
        step = _step_of(checkpoint)
        if checkpoint is None:
            is_known = 0 in evaluations(self.run)
            trainer.args.eval_on_start = (
                config.eval_on_start and config.eval_strategy != "no" and not is_known
            )
        else:
            trainer.args.eval_on_start = schedule.evaluates_at(step, config) and not has_evaluated(checkpoint)
        self.outcome.max_steps = schedule.max_steps
        self._phase(Phase.TRAINING)
        try:
            if checkpoint is not None and step >= schedule.max_steps:
                trainer.go_on_after_last_step(checkpoint)
            else:
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except StopRequested:
            trainer.save_interrupted()
            raise
        finally:
            self._sum_up(trainer, callback, metric)
        if trainer.state.global_step < schedule.max_steps:
            raise StopRequested
        return self.run.checkpoints / f"checkpoint-{self.outcome.metrics['best_step']}"

    def _report_plan(
        self, model: Any, precision: adapters.Precision, schedule: Schedule, metric: str, rate: float
    ) -> None:
        trainable, total = adapters.count_parameters(model)
        self.events.write(
            "plan",
            max_steps=schedule.max_steps,
            trainable_parameters=trainable,
            all_parameters=total,
            device="cuda" if torch.cuda.is_available() else "cpu",
            precision=precision.name,
            metric=metric,
            learning_rate=rate,
        )
        log.info(
            "%s steps, %s of %s parameters are trained, learning rate %g.",
            schedule.max_steps,
            trainable,
            total,
            rate,
        )

    def _metric(self, data: TrainingData) -> str:
        if self.config.metric_for_best_model != "auto":
            return self.config.metric_for_best_model
        return "cer" if writes_without_spaces(data.languages[0]) else "wer"

    def _sum_up(self, trainer: WhisperTrainer, callback: RunCallback, metric: str) -> None:
        """What is known so far, however the training ended."""
        outcome, state = self.outcome, trainer.state
        best_step = state.best_global_step or state.global_step
        found = evaluations(self.run)
        base, final = found.get(0), found.get(best_step) if best_step else None
        outcome.step = state.global_step
        outcome.metrics = {"metric": metric, "best_step": best_step, "base": base, "final": final}
        outcome.seconds |= {"training": callback.training_seconds, "evaluating": callback.evaluating_seconds}
        if state.global_step >= outcome.max_steps and base and final and final[metric] >= base[metric]:
            self._warn(
                f"No better than the base on the evaluation clips: {metric.upper()} {base[metric]:.1%} "
                f"before, {final[metric]:.1%} after."
            )

    def _keep(
        self,
        best: Path,
        spec: ModelSpec,
        base_path: Path,
        base: adapters.Base,
        data: TrainingData,
        source: SourceData,
    ) -> None:
        made = finished_model.made_by(self.registry, self.run.run_id)
        if made is not None:  # killed between the model and its result
            self.outcome.model_id, self.outcome.state = made.id, "finished"
            return
        is_multilingual = bool(base.decoder.tokens.languages)
        finished_model.set_language_and_task(base.generation_config, data, is_multilingual)
        staged = self.run.path / "model"
        finished_model.stage(best, staged, base_path, spec.id, self.config, base.generation_config)
        card = {
            **finished_model.describe(self.config, spec, base_path, data, source),
            "is_multilingual": is_multilingual,
            "metrics": self.outcome.metrics,
            "seconds": self.outcome.seconds,
            "versions": versions(),
            "run_id": self.run.run_id,
        }
        name = finished_model.name_of(self.config, self.run.run_id)
        kept = finished_model.keep(self.registry, staged, name, card, self.config)
        self.outcome.model_id, self.outcome.state = kept.id, "finished"
        log.info("Finished: the model is %s.", kept.id)

    def _phase(self, phase: Phase) -> None:
        self.events.write("phase", phase=phase)
        log.info("%s", phase.replace("_", " "))

    def _warn(self, text: str) -> None:
        self.events.write("warning", text=text)
        log.info("Note: %s", text)


def has_begun(run: RunDir) -> bool:
    """Whether a worker got as far as data before this one."""
    return any(event["kind"] == "data" for event in read_events(run.events)[0])


def evaluations(run: RunDir) -> dict[int, dict[str, Any]]:
    """The latest `eval` event of each step, without those of steps that a resumption took back."""
    found: dict[int, dict[str, Any]] = {}
    for event in read_events(run.events)[0]:
        if event["kind"] == "resumed":
            found = {step: point for step, point in found.items() if step <= event["step"]}
        elif event["kind"] == "eval":
            found[event["step"]] = {key: event[key] for key in ("step", "epoch", "wer", "cer", "loss")}
    return found


def _step_of(checkpoint: Path | None) -> int:
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
