"""What can be told about a run's data before a worker is started for it."""

from pathlib import Path

from studio.dataset.manifest import read_manifest
from studio.training.config import TrainingConfig

_FIRST_ROWS = 20


def check_sources(config: TrainingConfig) -> None:
    """Reads the first usable rows of the run's lists, so that a slip is answered at once.

    Raises:
        ManifestError: if a list is missing, cannot be read, or has no row that can be used.
        HubUnreachableError: if a Hub dataset cannot be reached.
    """
    cache_dir = Path(config.cache_dir) if config.cache_dir else None
    for source, split in ((config.train_data, "train"), (config.test_data, "test")):
        if source:
            read_manifest(
                source,
                split=split,
                max_rows=_FIRST_ROWS,
                cache_dir=cache_dir,
                local_files_only=config.local_files_only,
            )
