"""A registry with the demo model and two adapters of it, and a cache that counts what it loads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.transcription.model_cache import ModelCache
from tests.unit.transcription.small_models import CountingLoader, Sample, save_adapter


@pytest.fixture(scope="session")
def models_folder(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two adapters of the demo model: one that does nothing, one that garbles."""
    folder = tmp_path_factory.mktemp("models")
    save_adapter(demo_model, folder / "faint", seed=1, strength=0.0)
    save_adapter(demo_model, folder / "garbling", seed=2, strength=3.0)
    return folder


@pytest.fixture(scope="session")
def registry(demo_model: Path, models_folder: Path) -> ModelRegistry:
    """The demo model and its adapters `faint` and `garbling`."""
    return ModelRegistry(models_folder, demo=demo_model, hf_cache=None)


@pytest.fixture
def loader() -> CountingLoader:
    """What the cache of this test loads."""
    return CountingLoader()


@pytest.fixture
def cache(registry: ModelRegistry, loader: CountingLoader) -> Iterator[ModelCache]:
    """A cache of one test."""
    made = ModelCache(registry, idle_seconds=300, load=loader)
    yield made
    made.close()


@pytest.fixture(scope="session")
def engines(registry: ModelRegistry) -> Iterator[ModelCache]:
    """A cache that tests share which only transcribe."""
    made = ModelCache(registry, idle_seconds=300, device="cpu", exports=Exporter(registry))
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(demo_model: Path) -> LoadedBase:
    """The demo model as transformers has it; whoever lends it leaves it as it was."""
    return load_base(demo_model, device="cpu")


@pytest.fixture(scope="session")
def demo_export(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model for faster-whisper, in a folder of models where nothing else is."""
    registry = ModelRegistry(tmp_path_factory.mktemp("exports"), demo=demo_model, hf_cache=None)
    path = Exporter(registry).ensure("demo").path
    assert path is not None
    return path


@pytest.fixture(scope="session")
def samples(demo_speech: Path) -> dict[str, Sample]:
    """The sample recordings by name without ending: kitchen-light, long, silence."""
    rows = json.loads((demo_speech / "samples" / "samples.json").read_text(encoding="utf-8"))
    return {
        Path(row["file"]).stem: Sample(
            demo_speech / "samples" / row["file"], row["text"], row["language"], row["segments"]
        )
        for row in rows
    }


@pytest.fixture(scope="session")
def command(samples: dict[str, Sample]) -> Sample:
    """The sample of 4.5 s that most tests hear: turn on the kitchen light, set a timer."""
    return samples["kitchen-light"]
