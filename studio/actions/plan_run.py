"""What a run will do, before it is started: steps, memory, and how long by earlier runs here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import psutil

from studio.dataset.example import RowProblem
from studio.errors import StudioError
from studio.memory.calibration import calibrate
from studio.memory.fit import for_card
from studio.memory.gpus import Gpu, Verdict, card, usable_bytes, verdict
from studio.memory.ladder import sized
from studio.memory.plan import LABEL_LENGTH, MemoryEstimate
from studio.messages import Message
from studio.options.sources import sources_of
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.runs.confinement import require_own_data
from studio.runs.manager import JobManager, JobState, RunStatus
from studio.runs.pace import pace_of
from studio.services import Services
from studio.settings import Settings
from studio.training.data.sources import read_list, row_judge
from studio.training.plan import training_plan
from studio.training.preflight import shared_by_lists
from studio.training.probe.question import process_bytes
from studio.training.schedule import Schedule
from studio.training.warm_start import shaped
from studio.units import duration_message, format_bytes

Found = TypeVar("Found")
_MOST_CLIPS = 20_000
"""More are not counted: a plan is made at every change of a form."""
_READ_BY = (
    *("train_data", "test_data", "audio_column", "text_column"),
    *("distill", "language", "normalizer", "min_audio_len", "max_audio_len"),
)
"""Options that decide what is found in the lists."""
_LOOKED_AT = 50
"""Earlier runs among which one alike is looked for."""
_ENOUGH_STEPS = 20
"""A run of fewer tells less of their pace: an older one of more is taken."""
_PACED_BY = (
    *("base_model", "method", "quantization", "per_device_train_batch_size"),
    *("gradient_accumulation_steps", "gradient_checkpointing", "num_processes"),
)
"""Options that decide how long a step takes."""


@dataclass(frozen=True)
class RunForecast:
    """What is known of a run; None where nothing is."""

    clips: int | None
    """That it trains on, by the list: what is found out only by listening is not left out yet."""
    steps: int | None
    estimate: MemoryEstimate | None
    """With clips of 30 seconds, unless it asks for short audio."""
    gpu: Gpu | None
    """Of this machine; without one, the processor trains."""
    seconds: float | None
    """From start to end, at the pace of the last run of this model, method and batch size: what it took once,
    and what each step and each evaluation took.
    """
    shared: Message | None = None
    """Which clips stand in the training and the test list, as far as files here tell it."""
    warmup: Message | None = None
    """Says so where the warm-up is as long as the run, or longer."""

    @property
    def memory_bytes(self) -> int | None:
        """On the GPU; on a processor, the most that the process may take."""
        if self.estimate is None:
            return None
        return self.estimate.device_bytes if self.gpu else process_bytes(self.estimate)

    @property
    def usable_bytes(self) -> int:
        """Free on the GPU; without one, of the machine's memory."""
        return usable_bytes(self.gpu) if self.gpu else int(psutil.virtual_memory().available)

    @property
    def verdict(self) -> Verdict | None:
        """Whether it fits."""
        if self.estimate is None or self.memory_bytes is None:
            return None
        if self.gpu:
            return verdict(self.estimate, self.usable_bytes)
        return "fits" if self.memory_bytes < self.usable_bytes else "does_not_fit"

    @property
    def is_timeless(self) -> bool:
        """Whether it could be started, and nobody knows how long it takes."""
        return self.steps is not None and self.seconds is None

    def facts(self) -> list[tuple[Message, Message]]:
        """Names and values, to be read; what is not known is left out."""
        told = []
        if self.clips is not None:
            told.append((Message("Clips listed (unchecked)"), Message("{count:,}", count=self.clips)))
        if self.steps is not None:
            told.append((Message("Steps"), Message("{count:,}", count=self.steps)))
        if self.warmup is not None:
            told.append((Message("Warm-up"), self.warmup))
        if self.estimate is not None:
            shares = {"part": self.estimate.trainable_parameters, "whole": self.estimate.all_parameters}
            told.append((Message("Trained parameters"), Message("{part:,} of {whole:,}", **shares)))
        if (memory := self._memory()) is not None:
            told.append((Message("Memory needed"), memory))
        if self.seconds is not None:
            taken = Message("about {time} (by a similar run)", time=duration_message(self.seconds))
            told.append((Message("Time"), taken))
        return told

    def _memory(self) -> Message | None:
        if self.memory_bytes is None:
            return None
        size, usable = format_bytes(self.memory_bytes), format_bytes(self.usable_bytes)
        if self.gpu is None:
            return Message("up to about {size}; {usable} are free (CPU)", size=size, usable=usable)
        return Message("{size}; {usable} are free on {gpu}", size=size, usable=usable, gpu=self.gpu.name)

    def to_json(self) -> dict[str, Any]:
        """For `train --plan --json`."""
        estimate = self.estimate
        return {
            "clips": self.clips,
            "steps": self.steps,
            "trainable_parameters": estimate.trainable_parameters if estimate else None,
            "all_parameters": estimate.all_parameters if estimate else None,
            "memory_bytes": self.memory_bytes,
            "usable_bytes": self.usable_bytes,
            "gpu": self.gpu.name if self.gpu else None,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "warmup": str(self.warmup) if self.warmup else None,
            "shared": str(self.shared) if self.shared else None,
        }


def plan_run(config: TrainingConfig, services: Services) -> RunForecast:
    """Nothing is downloaded, loaded or started.

    Raises:
        StudioError: if the data may not be read by this studio's visitors.
    """
    for source, _ in config.lists:
        require_own_data(services.settings, source)
    gpu = card("")
    clips = _count_clips(config, services.settings)
    schedule = Schedule(config.max_steps, config.max_steps) if config.max_steps > 0 else None
    if clips is not None:
        schedule = Schedule.of(config, clips)
    return RunForecast(
        clips,
        schedule.max_steps if schedule else None,
        _sized(config, gpu, services),
        gpu,
        _seconds(config, schedule, services.jobs) if schedule else None,
        _of_lists(_shared, config, services.settings),
        schedule.warmup_note(config) if schedule else None,
    )


def _sized(config: TrainingConfig, gpu: Gpu | None, services: Services) -> MemoryEstimate | None:
    """None if the model's shape is not known before it is downloaded, or the sizes are out of range."""
    try:
        dimensions: ModelDimensions | None = services.registry.get(config.base_model).dimensions
        if dimensions is None:
            return None
        config = shaped(config, services.registry)
        plan = replace(training_plan(config, has_gpu=gpu is not None), label_length=LABEL_LENGTH)
        return sized(for_card(plan, gpu), dimensions, calibrate(gpu, services.settings.calibration))
    except StudioError:
        return None


def _count_clips(config: TrainingConfig, settings: Settings) -> int | None:
    """Of lists on this machine; less what is kept back for evaluation."""
    count = _of_lists(_counted, config, settings)
    if not count:
        return None
    if not config.evaluation_source:
        count -= min(count - 1, max(1, round(config.validation_share * count)))
    return min(count, config.max_train_samples or count)


def _of_lists(
    ask: Callable[[TrainingConfig, Settings, tuple[int, ...]], Found | None],
    config: TrainingConfig,
    settings: Settings,
) -> Found | None:
    """What `ask` finds in the lists of a run, asked anew when one of them has changed."""
    try:
        paths = [Path(part).expanduser() for source, _ in config.lists for part in sources_of(source)]
        changed = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
        read_by = {name: getattr(config, name) for name in _READ_BY}
        return ask(replace(TrainingConfig(), local_files_only=True, **read_by), settings, changed)
    except (StudioError, OSError, ValueError):  # the start says it, and "Preview and check the data"
        return None


@lru_cache(maxsize=64)
def _counted(config: TrainingConfig, settings: Settings, _changed: tuple[int, ...]) -> int | None:
    """None for more than are counted."""
    examples = read_list(config, settings, config.train_data, "train", _MOST_CLIPS).examples
    judge = row_judge(config)
    count = sum(not isinstance(judge(example), RowProblem) for example in examples)
    return None if len(examples) >= _MOST_CLIPS else count


@lru_cache(maxsize=64)
def _shared(config: TrainingConfig, settings: Settings, _changed: tuple[int, ...]) -> Message | None:
    return shared_by_lists(config, settings)


def _seconds(config: TrainingConfig, schedule: Schedule, jobs: JobManager) -> float | None:
    alike = (run for run in jobs.runs(_LOOKED_AT) if _is_alike(run, config))
    run = max(alike, key=lambda run: min(run.max_steps, _ENOUGH_STEPS), default=None)
    if run is None:
        return None
    pace = pace_of(jobs.folder(run.run_id), run.ended)
    return pace.of(config, schedule) if pace else None


def _is_alike(run: RunStatus, config: TrainingConfig) -> bool:
    """Whether it is finished, and a step of it takes about as long."""
    is_finished = run.state is JobState.FINISHED
    return is_finished and all(getattr(run.config, name) == getattr(config, name) for name in _PACED_BY)
