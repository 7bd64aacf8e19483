"""One training attempt, from its configuration to a model in the registry."""

import hashlib
import logging
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from studio.dataset.example import Example
from studio.dataset.shared import shared_clips
from studio.errors import StorageError
from studio.messages import Message
from studio.methods import METHODS
from studio.options.arguments import read_config
from studio.publishing.findings import in_one_script
from studio.registry.spec import ModelSpec
from studio.registry.store import ModelRegistry
from studio.room import MODELS, Room
from studio.settings import DEMO_MODEL, Settings
from studio.training import adapters, finished_model
from studio.training.callback import RunCallback
from studio.training.data.clips import TrainingData
from studio.training.data.collator import Collator, FeatureSource
from studio.training.data.preparation import prepare, set_aside
from studio.training.data.replay import Windows, passages, read_by_base
from studio.training.data.sources import SourceData, other_clips, read_source
from studio.training.data.times_file import TimesFile
from studio.training.distributed.start import Start, shared_options
from studio.training.distributed.world import World
from studio.training.events import EventLog, RunPhase
from studio.training.guarded_trainer import checkpoint_folder
from studio.training.machine import machine, note_machine, versions
from studio.training.memory_watch import MemoryWatch
from studio.training.outcome import Outcome, no_better
from studio.training.plan import has_deepspeed, rehearses
from studio.training.preflight import check_logger
from studio.training.record import (
    data_hash_of,
    evaluation_seconds_of,
    evaluations,
    has_begun,
    learning_rate_of,
    spent_seconds_of,
    started_by,
)
from studio.training.retry import read_retries, with_retries
from studio.training.run_dir import RunDir
from studio.training.run_plan import RunPlan
from studio.training.schedule import Schedule
from studio.training.short_audio.audio_context import ShortAudio, lengths_of, short_audio
from studio.training.short_audio.distillation import taught_by_base
from studio.training.short_audio.encoder_states import EncoderStates, repeats_itself
from studio.training.short_audio.teacher_states import TeacherStates
from studio.training.short_audio.trainer import make_trainer
from studio.training.stop import StopRequested, StopSignal
from studio.training.strength import GENTLER, final_strength, is_as_good, is_chosen, strength_of
from studio.training.trainer import TrainerParts, WhisperTrainer, ended_early
from studio.training.trainer_arguments import training_arguments
from studio.training.visitors_room import require_room
from studio.training.warm_start import (
    adapter_folder,
    base_spec,
    called_now,
    check_space,
    warm_started,
)
from studio.units import format_percent
from studio.whisper.audio_context import FULL, POSITIONS, SHORT, allow_short_audio
from studio.whisper.loss import use_chunked_loss

log = logging.getLogger("studio.training")


@dataclass(frozen=True)
class PreparedRun:
    """What training needs: loaded and checked before it begins."""

    spec: ModelSpec
    base_path: Path
    base: adapters.Base
    source: SourceData
    data: TrainingData
    features: FeatureSource
    precision: adapters.Precision
    memory: MemoryWatch
    teacher: TeacherStates | None = None
    """What the base makes of the clips, where the run is to learn that."""
    windows: Windows | None = None
    """What is rehearsed."""

    @property
    def fingerprint(self) -> str:
        """Of the clips, so that processes can compare theirs."""
        return f"{self.source.data_hash[:16]} ({len(self.data.train)} + {len(self.data.evaluation)} clips)"


class Attempt:
    """Carries out what a run's folder asks for."""

    def __init__(self, run: RunDir, settings: Settings, stop: StopSignal, outcome: Outcome) -> None:
        """`outcome` is filled on the way, so that it tells as much as was reached."""
        self.run = run
        self.settings = settings
        self.stop = stop
        self.outcome = outcome
        self.world = World()
        self.events = EventLog(run.events)
        self.eval_examples: tuple[Example, ...] = ()
        self.learned: frozenset[Example] = frozenset()
        """Those that are also trained on; once the clips are known, with the language and task of each."""
        asked = read_config(run.config)
        self.batch_size = asked.per_device_train_batch_size
        """With which the run began, before memory ran out: it decides what is learned."""
        self.config = with_retries(asked, read_retries(run))
        if self.config.learning_rate is None:
            # What suits a model is known better from version to version; a run keeps what it began with.
            self.config = replace(self.config, learning_rate=learning_rate_of(run))
        self.short: ShortAudio | None = None
        self.audio_context = FULL
        """What the model will see; decided when the clips are known."""
        demo = DEMO_MODEL if DEMO_MODEL.is_dir() else None
        room = Room.of(settings, MODELS)
        self.strength = 1.0
        """How much of what was learned the model is made of."""
        self.registry = ModelRegistry(settings.models, demo=demo, hf_cache=settings.hf_cache, room=room)

    def carry_out(self) -> None:
        """Trains and keeps the model.

        Raises:
            StudioError: if something the user gave cannot be used.
            StopRequested: if a stop was asked for; the run can be resumed from what is there.
        """
        if self.settings.threads > 0:
            torch.set_num_threads(self.settings.threads)
        self.world = world = World.join(self.config)
        if world.size > 1:
            self.events = EventLog(self.run.events if world.is_first_here else None)
            self.stop.follow_parent()
        world.agree({**versions(), **shared_options(self.config)})
        start = Start.of(self.run, world)
        if has_begun(self.run):
            self.events.write("resumed", step=start.step)
            log.info("going on from step %s", start.step)
        if (change := note_machine(self.run, self.events)) is not None:
            self._warn(change)
        try:
            ready = world.together(self._prepare)
            world.agree({"train_data": ready.fingerprint})
            best = self._train(ready, start)
            self._phase(RunPhase.SAVING)
            world.together(lambda: self._keep(best, ready))
            if world.is_first_here:
                shutil.rmtree(self.run.cache, ignore_errors=True)
        except StopRequested:
            world.leave()
            raise
        world.leave()

    def _prepare(self) -> PreparedRun:
        """Everything up to the model in memory and the clips."""
        config = self.config = called_now(self.config, self.registry)
        adapters.check_attention(config)
        finished_model.check_output_dir(config, self.settings.home)
        check_logger(config)
        spec = base_spec(config, self.registry)
        config = self.config = warm_started(config, self.registry)
        self._phase(RunPhase.READING_DATA)
        source = read_source(config, self.settings, self.stop.check)
        if data_hash_of(self.run) not in (None, source.data_hash):
            self._warn(
                Message(
                    "{source} has changed since the run was stopped: it goes on with other clips. Where a "
                    "part of them is kept back for evaluation, it may have learned from some of that.",
                    source=config.train_data,
                )
            )
        shared = shared_clips(source.train_examples, source.eval_examples)
        self.learned = frozenset(source.eval_examples[place] for place in shared.places)
        if shared.count:
            self._warn(shared.sentence)
        other_clips(config, self.settings)  # what cannot be used is told now, not after the training
        rehearsed = passages(config, self.settings) if rehearses(config) else ()
        self.stop.check()
        self._phase(RunPhase.LOADING_MODEL)
        precision = adapters.choose_precision(config, torch.cuda.is_available())
        if precision.note:
            self._warn(precision.note)
        base_path = self.registry.local_path(config.base_model, **config.downloads)
        require_room(self.run, self.settings, check_space(config, self.run.path, base_path))
        memory = MemoryWatch(self.events)
        self.outcome.memory = memory.to_json
        base = adapters.load_training_base(base_path, config, precision)
        self.stop.check()
        self._phase(RunPhase.READING_DATA)
        times = self._times_file(base_path) if config.make_timestamps else None
        data, features = prepare(config, self.settings, source, base, self.events, self.stop, times)
        teacher = None
        if config.distill:
            prepared = (data, features)
            data, teacher = taught_by_base(config, self.run.cache, base, prepared, self.events, self.stop)
        windows = self._windows(rehearsed, base, base_path, features)
        if self.world.is_first_here:
            set_aside(data, self.settings.quarantine / f"{self.run.run_id}.jsonl")
        short = self.short = self._short_audio(base.decoder.model, data)
        shape = base.decoder.model.config.to_dict()
        memory.predict(config, precision.name, shape, data, short.positions if short else POSITIONS)
        asked = {
            clip.example: replace(clip.example, language=clip.language, task=clip.task)
            for clip in data.evaluation
            if clip.example.text or config.distill
        }
        self.eval_examples = tuple(asked.values())
        self.learned = frozenset(told for example, told in asked.items() if example in self.learned)
        return PreparedRun(spec, base_path, base, source, data, features, precision, memory, teacher, windows)

    def _train(self, ready: PreparedRun, start: Start) -> Path:
        """Trains to the last step; gives back the best checkpoint."""
        base = ready.base.decoder.model
        course = RunPlan.of(self.config, ready.data, base.config.d_model, self.audio_context)
        max_steps = course.schedule.max_steps
        model = self._prepared(base, max_steps)
        course.tell(model, ready.precision, self.world, self.events)
        if (note := course.schedule.warmup_note(self.config)) is not None:
            self._warn(note)
        trainer, callback = self._trainer(model, ready, course)
        trainer.args.eval_on_start = start.evaluates_first(self.config, course.schedule)
        self.outcome.max_steps = max_steps
        self._phase(RunPhase.TRAINING)
        try:
            self._go_on(trainer, start)
        except StopRequested:
            trainer.save_interrupted()
            raise
        finally:
            self._sum_up(trainer, callback, course.metric)
        if trainer.state.global_step < max_steps:
            if not trainer.has_ended_early:
                raise StopRequested
            self._warn(
                Message(
                    "Ended at step {step}: no better result in the last {patience} evaluations.",
                    step=trainer.state.global_step,
                    patience=self.config.early_stopping_patience,
                )
            )
        best = checkpoint_folder(trainer.args, self.outcome.metrics["best_step"])
        if not self.world.share(best.is_dir()):  # somebody removed it
            trainer.state.best_global_step = None
            self._sum_up(trainer, callback, course.metric)
            lost, best = best, checkpoint_folder(trainer.args, self.outcome.step)
            self._warn(
                Message(
                    "{lost}, the best checkpoint, is gone: the model is made of the last one, {last}.",
                    lost=lost.name,
                    last=best.name,
                )
            )
        self._choose_strength(trainer, best, ready)
        for find in (no_better, in_one_script):
            if (warning := find(self.outcome.metrics)) is not None:
                self._warn(warning)
        return best

    def _choose_strength(self, trainer: WhisperTrainer, best: Path, ready: PreparedRun) -> None:
        """Keeps less of what was learned where the evaluation clips hardly lose by it: less is forgotten."""
        config, metrics = self.config, self.outcome.metrics
        self.strength = final_strength(config)
        if not metrics["final"]:
            return
        metric = metrics["metric"]

        def errors_at(strength: float) -> dict[str, Any]:
            """What the best checkpoint gets wrong at that strength."""
            trainer.go_back_to(best)
            began = time.monotonic()
            found = trainer.errors_at(strength, ready.base_path)
            self.outcome.seconds["evaluating"] += time.monotonic() - began
            log.info("%s %.2f %% at strength %s", metric.upper(), 100 * found[metric], strength)
            return found

        if self.strength != strength_of(config):
            metrics["final"] = {**metrics["final"], **errors_at(self.strength)}
        if not is_chosen(config, len(ready.data.evaluation)):
            return
        usual, found = metrics["final"], errors_at(GENTLER)
        base = metrics["base"][metric] if metrics["base"] else None
        if not is_as_good(usual[metric], found[metric], base):
            return
        self._warn(
            Message(
                "Fine-tuning strength {strength}: {metric} {rate} on the evaluation clips, {usual_rate} with "
                "{usual}; less is forgotten.",
                strength=GENTLER,
                metric=metric.upper(),
                rate=format_percent(found[metric]),
                usual_rate=format_percent(usual[metric]),
                usual=self.strength,
            )
        )
        self.strength, metrics["final"] = GENTLER, {**usual, **found}

    def _trainer(self, model: Any, ready: PreparedRun, course: RunPlan) -> tuple[WhisperTrainer, RunCallback]:
        """The trainer of this run, and what listens to it."""
        config, world = self.config, self.world
        arguments = training_arguments(
            config,
            course.learning_rate,
            course.schedule,
            self.run.checkpoints,
            ready.precision,
            course.metric,
            self.run.run_id,
        )
        callback = RunCallback(
            self.events,
            self.stop,
            lambda: trainer.texts,
            config.per_device_train_batch_size * config.gradient_accumulation_steps * world.size,
            len(ready.data.evaluation),
            METHODS[config.method],
            ready.memory.look,
            world,
            partial(course.schedule.evaluations_after, config=config),
            evaluation_seconds_of(self.run),
        )
        callback.training_seconds, callback.evaluating_seconds = spent_seconds_of(self.run)
        decoder = ready.base.decoder
        encoder = self._kept_states(ready, course.schedule)
        collator = Collator(
            ready.features,
            decoder.extractor.nb_max_frames,
            self._warn,
            is_short=self.short is not None,
            teacher=ready.teacher,
            encoder=encoder,
        )
        parts = TrainerParts(
            model,
            arguments,
            config,
            ready.data,
            collator,
            decoder,
            callback,
            world,
            ready.windows,
            self.batch_size,
        )
        trainer = make_trainer(parts, self.short, encoder)
        return trainer, callback

    def _go_on(self, trainer: WhisperTrainer, start: Start) -> None:
        """Trains from where the run is; after its last step, only an evaluation may be owed."""
        checkpoint = start.checkpoint
        is_over = start.step >= self.outcome.max_steps
        if checkpoint and (is_over or ended_early(self.config, checkpoint)):
            trainer.go_on_after_last_step(checkpoint)
        else:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    def _times_file(self, base_path: Path) -> TimesFile:
        revision = finished_model.revision_of(base_path)
        return TimesFile(self.run.times, revision, writes=self.world.is_first_here)

    def _windows(
        self,
        rehearsed: Sequence[Example],
        base: adapters.Base,
        base_path: Path,
        features: FeatureSource,
    ) -> Windows | None:
        """What the run rehearses, with what the base reads in it; None if there is nothing."""
        config = self.config
        if has_deepspeed(config) and config.replay_share > 0:
            self._warn(Message("No rehearsal with {sharding}.", sharding=config.sharding))
        if not rehearsed:
            return None
        self._phase(RunPhase.LISTENING)

        def on_batch(done: int, total: int) -> None:
            self.stop.check()
            self.events.write("eval_progress", done=done, total=total)

        made_of = f"{finished_model.revision_of(base_path)}-{base.decoder.model.dtype}-{config.quantization}"
        kept = self.settings.cache / "replay" / hashlib.sha256(made_of.encode()).hexdigest()[:24]
        clips = read_by_base(rehearsed, base.decoder, features, kept, on_batch)
        if not clips and config.replay_data:
            self._warn(
                Message(
                    "No rehearsal: the base model is unsure of everything in {source}.",
                    source=config.replay_data,
                )
            )
        per_batch = config.replay_share * self.batch_size
        # A frozen encoder hears as it did, and its states of a window are kept.
        is_varied = config.replay_augmentation and config.training_method.trains_encoder
        first_time = base.decoder.tokens.first_time if is_varied else None
        return Windows(clips, per_batch, config.seed, first_time)

    def _short_audio(self, model: Any, data: TrainingData) -> ShortAudio | None:
        """How the run reads clips as short as they are; None if it pads them all to 30 seconds."""
        start = self.registry.get(self.config.adapter or self.config.base_model)
        schedule = Schedule.of(self.config, len(data.train))
        was_short = start.audio_context == SHORT
        short = short_audio(self.config, data, schedule, was_short=was_short, alike=self.batch_size)
        if short:
            self.audio_context = SHORT
            allow_short_audio(model)
        return short

    def _kept_states(self, ready: PreparedRun, schedule: Schedule) -> EncoderStates | None:
        """Where a frozen encoder's states are kept; None if it would not compute the same again."""
        config = ready.features.augmentation.config
        if not repeats_itself(config, schedule, is_short=self.short is not None):
            return None
        log.info("What the frozen encoder makes of each clip is kept until the run is finished.")
        return EncoderStates(self.run.cache, ready.base_path, ready.precision.name)

    def _prepared(self, model: Any, max_steps: int) -> Any:
        """The base with what is trained, and with the loss that the run takes."""
        config = self.config
        if config.loss_chunk_size:
            use_chunked_loss(model, config.loss_chunk_size, config.label_smoothing_factor)
        start = adapter_folder(config, self.registry) if config.adapter else None
        return adapters.prepare_method(model, config, max_steps, start)

    def _sum_up(self, trainer: WhisperTrainer, callback: RunCallback, metric: str) -> None:
        """What is known so far, however the training ended."""
        state = trainer.state
        best_step = state.best_global_step or state.global_step
        self.outcome.note_progress(state.global_step, best_step, metric, evaluations(self.run))
        self.outcome.seconds["training"] = callback.training_seconds
        self.outcome.seconds["evaluating"] = callback.evaluating_seconds
        with suppress(StorageError):  # on a full disk it is told why the training ended, not this
            callback.tell_spent()

    def _keep(self, best: Path, ready: PreparedRun) -> None:
        """Makes the model of the best checkpoint; the main process does, the others are done."""
        if not self.world.is_main:
            self.outcome.state = "finished"
            return
        base, data, spec, base_path = ready.base, ready.data, ready.spec, ready.base_path
        made = finished_model.made_by(self.registry, self.run.run_id)
        if made is not None:  # killed between the model and its result
            finished_model.hand_out(self.registry, made, self.config)
            self.outcome.model_id, self.outcome.state = made.id, "finished"
            return
        is_multilingual = bool(base.decoder.tokens.languages)
        finished_model.set_language_and_task(base.generation_config, data, is_multilingual)
        staged, visitor = self.run.path / "model", started_by(self.run)
        finished_model.stage(
            best, staged, base_path, spec.id, self.config, base.generation_config, self.strength
        )
        card = {
            **finished_model.describe(self.config, spec, base_path, data, ready.source),
            "is_multilingual": is_multilingual,
            "audio_context": self.audio_context,
            **(
                {"clip_seconds": lengths_of(data.train), "long_recordings": FULL}
                if self.audio_context == SHORT
                else {}
            ),
            "metrics": self.outcome.metrics,
            **({"adapter_strength": self.strength} if self.config.is_adapter or self.strength != 1 else {}),
            "steps": self.outcome.step,
            "learning_rate": learning_rate_of(self.run),
            "device": machine()["device"],
            "seconds": self.outcome.seconds,
            "memory": self.outcome.memory(),
            "versions": versions(),
            "run_id": self.run.run_id,
            **({"visitor": visitor} if visitor else {}),
        }
        # Of a visitor's run the id is a secret, and so is that of its model.
        name = self.run.run_id if visitor else finished_model.name_of(self.config, self.run.run_id)
        kept = finished_model.keep(self.registry, staged, name, card, self.config)
        self.outcome.model_id, self.outcome.state = kept.id, "finished"
        log.info("Finished: the model is %s.", kept.id)

    def _phase(self, phase: RunPhase) -> None:
        self.events.write("phase", phase=phase)
        log.info("%s", phase.replace("_", " "))

    def _warn(self, sentence: Message) -> None:
        self.events.warn(sentence)
        log.info("Note: %s", sentence)
