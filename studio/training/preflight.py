"""What can be told about a run before it takes long: about its data, and where it reports to."""

from importlib.util import find_spec

from studio.dataset.example import RowProblem
from studio.dataset.sequences import joined
from studio.dataset.shared import shared_clips
from studio.dataset.usable import HEARD_AT_ONCE
from studio.errors import ConfigError
from studio.messages import Message
from studio.options.sources import is_demo, is_on_hub, sources_of
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training.data.augmentation import Augmentation
from studio.training.data.sources import read_list, require, row_judge

_FIRST_ROWS = 20


def check_sources(config: TrainingConfig, settings: Settings, *, downloads: bool = True) -> None:
    """Looks for a row that can be used in each of the run's lists, and reads its augmentation: a slip is
    answered at once. Unless it `downloads`, lists of the Hub are left alone.

    Raises:
        ManifestError: if a list is missing, cannot be read, or has no row that can be used.
        HubUnreachableError: if a Hub dataset cannot be reached.
        ConfigError: if the augmentation's file or folder cannot be used.
    """
    Augmentation.of(config, settings)
    for source, split in config.lists:
        for part in sources_of(source):
            if downloads or not is_on_hub(part):
                _require_usable(config, settings, part, split)


def _require_usable(config: TrainingConfig, settings: Settings, source: str, split: str) -> None:
    """By what judges the rows of a run, short of listening: mostly the first row is good."""
    judge = row_judge(config)
    for most in (_FIRST_ROWS, None):
        manifest = read_list(config, settings, source, split, most)
        problems = list(manifest.problems)
        for example in manifest.examples:
            judged = judge(example)
            if not isinstance(judged, RowProblem):
                return
            problems.append(judged)
        if len(manifest.examples) < _FIRST_ROWS:
            break
    require((), manifest.source, problems)


def shared_by_lists(config: TrainingConfig, settings: Settings) -> Message | None:
    """Says which clips stand in the training and the test list, as far as files here tell it."""
    if len(config.lists) < 2:
        return None
    lists = []
    for source, split in config.lists:
        parts = sources_of(source)
        if not all(map(_is_own, parts)):
            return None
        lists.append(
            joined([read_list(config, settings, part, split, HEARD_AT_ONCE).examples for part in parts])
        )
    found = shared_clips(*lists, listens=False)
    return found.sentence if found.count else None


def _is_own(source: str) -> bool:
    """Whether a list is one of the user's, on this machine."""
    return bool(source) and not is_demo(source) and not is_on_hub(source)


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
