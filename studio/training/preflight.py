"""What can be told about a run before it takes long: about its data, and where it reports to."""

from importlib.util import find_spec

from studio.errors import ConfigError
from studio.options.sources import sources_of
from studio.options.training import TrainingConfig
from studio.training.data.augmentation import Augmentation
from studio.training.data.sources import read_list

_FIRST_ROWS = 20


def check_sources(config: TrainingConfig) -> None:
    """Reads the first usable rows of the run's lists and its augmentation: a slip is answered at once.

    Raises:
        ManifestError: if a list is missing, cannot be read, or has no row that can be used.
        HubUnreachableError: if a Hub dataset cannot be reached.
        ConfigError: if the augmentation's file or folder cannot be used.
    """
    Augmentation.of(config)
    for source, split in ((config.train_data, "train"), (config.test_data, "test")):
        for part in filter(None, sources_of(source)):
            read_list(config, part, split, _FIRST_ROWS)


def check_logger(config: TrainingConfig) -> None:
    """Looks whether what the run is to report to is installed.

    Raises:
        ConfigError: if it is not.
    """
    for package in config.trackers:
        if find_spec(package) is None:
            raise ConfigError(
                "report_to {name} needs the package {name}, which is not installed: install it with "
                "pip install {name}, or choose none.",
                name=package,
            )
