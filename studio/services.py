"""What a studio is made of, wired once: page and command line share these objects and nothing else."""

import math
from dataclasses import dataclass

from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.room import MODELS, Room
from studio.runs.confinement import LARGEST_DOWNLOAD_OF_STRANGERS, LONGEST_RECORDING_OF_STRANGERS
from studio.runs.manager import JobManager
from studio.runs.probe import Prober
from studio.settings import DEMO_MODEL, Settings
from studio.transcription.model_cache import ModelCache
from studio.transcription.sharing import Sharing


@dataclass(frozen=True)
class Services:
    """Registry, runs and loaded models of one studio."""

    settings: Settings
    registry: ModelRegistry
    jobs: JobManager
    engines: ModelCache
    exporter: Exporter
    prober: Prober

    @classmethod
    def open(cls, settings: Settings, *, device: str = "auto") -> "Services":
        """Makes the folders and the services; nothing is loaded and no thread starts here.

        `device` is where transcription computes (see `devices`). These links cross the parts: loaded
        models leave memory before a run starts, and the GPU while it is at work; the registry asks the runs
        which models they use before it renames or deletes one.

        Raises:
            StorageError: if the studio's folder cannot be written.
        """
        settings.prepare()
        names_runs = bool(settings.auth) or not settings.on_spaces
        registry = ModelRegistry(
            settings.models,
            demo=DEMO_MODEL if DEMO_MODEL.is_dir() else None,
            hf_cache=settings.hf_cache,
            in_use=lambda: jobs.models_in_use(),
            takes_folders=not settings.on_spaces,
            largest_download_bytes=LARGEST_DOWNLOAD_OF_STRANGERS if settings.is_public else None,
            room=Room.of(settings, MODELS),
        )
        exporter = Exporter(registry)
        engines = ModelCache(
            registry,
            idle_seconds=settings.model_idle_seconds,
            threads=settings.threads,
            device=device,
            sharing=Sharing(settings.cache / "transcribing", lambda: jobs.at_work(), names_runs=names_runs),
            exports=exporter,
            longest_seconds=LONGEST_RECORDING_OF_STRANGERS if settings.is_public else math.inf,
        )
        jobs = JobManager(settings, registry, before_start=engines.make_room)
        prober = Prober(settings, busy=jobs.running, before_start=engines.make_room)
        return cls(settings, registry, jobs, engines, exporter, prober)

    def __enter__(self) -> "Services":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the threads, a measurement, and frees the models. Runs go on in processes of their own."""
        self.prober.stop()
        self.jobs.close()
        self.engines.close()
