"""Loaded models that all tests of the evaluation share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.registry.store import ModelRegistry
from studio.transcription.model_cache import ModelCache
from tests.unit.transcription.small_models import save_adapter


@pytest.fixture(scope="session")
def engines(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelCache]:
    """The demo model and an adapter that garbles what it writes."""
    models = tmp_path_factory.mktemp("models")
    save_adapter(demo_model, models / "garbling", seed=2, strength=3.0)
    cache = ModelCache(ModelRegistry(models, demo=demo_model, hf_cache=None), idle_seconds=300, device="cpu")
    yield cache
    cache.close()
