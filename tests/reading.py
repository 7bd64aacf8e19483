"""What reads lists and folders, by the settings of the test's own process."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

from studio.dataset import manifest
from studio.dataset.report import DatasetReport
from studio.dataset.report import check_dataset as check
from studio.evaluation import compare, other_languages
from studio.evaluation.result import Evaluation
from studio.settings import Settings
from studio.training import preflight
from studio.training.data import augmentation, replay, sources
from studio.transcription.model_cache import ModelCache

Read = TypeVar("Read")


def _here(read: Callable[..., Read], place: int) -> Callable[..., Read]:
    """The function with the settings put in at its `place`."""

    @wraps(read)
    def by_settings(*given: Any, **options: Any) -> Read:
        return read(*given[:place], Settings.from_env(), *given[place:], **options)

    return by_settings


read_manifest = _here(manifest.read_manifest, 1)
clips_in_other_languages = _here(other_languages.clips_in_other_languages, 3)
augmentation_of = _here(augmentation.Augmentation.of, 1)
read_source = _here(sources.read_source, 1)
passages = _here(replay.passages, 1)
check_sources = _here(preflight.check_sources, 1)


def check_dataset(
    data: Path | str, test_data: Path | str = "", cache_dir: str = "", **how: Any
) -> DatasetReport:
    read = partial(read_manifest, cache_dir=cache_dir)
    return check(read(data), read(test_data, split="test") if test_data else None, **how)


def evaluate(engines: ModelCache, models: list[str], data: str, **told: Any) -> Evaluation:
    watched = {name: told.pop(name) for name in ("on_step", "on_progress", "should_stop") if name in told}
    asked = compare.EvaluationRequest(models, data, **told)
    return compare.evaluate(engines, asked, Settings.from_env(), **watched)
