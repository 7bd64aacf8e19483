"""A run is started: by the page, the command line and programs in the same order."""

from collections.abc import Sequence

from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.runs.confinement import require_confined
from studio.services import Services
from studio.training.preflight import check_sources


def check_run(config: TrainingConfig, services: Services, *, downloads: bool = False) -> None:
    """Refuses what a run would fail of as soon as it reads. Unless it `downloads`, lists of the Hub are not
    looked at.

    Raises:
        StudioError: if there is no such base, or a list or the augmentation cannot be used or is not for who
            asks.
    """
    services.registry.get(config.base_model)
    require_confined(config, services.settings)
    check_sources(config, services.settings, downloads=downloads)


def start_run(config: TrainingConfig, services: Services, notes: Sequence[Message] = ()) -> str:
    """The id of the run that is queued, once it is checked; `notes` are what there is to say of its options.

    Raises:
        StudioError: as `check_run` and `JobManager.submit`.
    """
    check_run(config, services)
    return services.jobs.submit(config, notes=notes)
