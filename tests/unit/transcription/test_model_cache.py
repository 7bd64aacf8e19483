"""Models in memory: one load, many users, adapters that switch, and leaving when nobody needs them."""

import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from studio.dataset.audio import SAMPLING_RATE, save_pcm
from studio.errors import ConfigError, ModelBrokenError, ModelNotFoundError
from studio.registry.spec import ModelKind
from studio.registry.store import ModelRegistry
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import Loaded, Transcriber
from tests.unit.transcription.small_models import CountingLoader, Sample, save_adapter

PLAIN = TranscribeOptions(language="en", timestamps="none", max_new_tokens=30, temperature=(0.0,))
"""A garbling adapter would write until the model's text is full, and again at each temperature."""


def test_base_and_adapters_share_one_load_and_each_writes_its_own(
    cache: ModelCache, loader: CountingLoader, command: Sample
) -> None:
    models = ("demo", "garbling", "faint", "demo", "garbling")
    texts = [cache.transcribe(model, command.path, PLAIN).text for model in models]
    assert len(loader.folders) == 1
    assert texts[0] == texts[2] == texts[3]
    assert texts[1] == texts[4] != texts[0]


def test_two_visitors_at_once_get_their_own_texts(
    cache: ModelCache, loader: CountingLoader, command: Sample, tmp_path: Path
) -> None:
    end = round(command.segments[0]["end"] * SAMPLING_RATE)
    beginning = save_pcm(command.sound[:end], SAMPLING_RATE, tmp_path / "beginning.wav")
    jobs = [("demo", command.path), ("garbling", command.path), ("demo", beginning)]

    def text(job: tuple[str, Path]) -> str:
        return cache.transcribe(*job, PLAIN).text

    alone = [text(job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(text, jobs * 2)) == alone * 2
    assert len(set(alone)) == 3
    assert len(loader.folders) == 1


def test_a_base_asked_for_by_many_at_once_is_loaded_once(registry: ModelRegistry) -> None:
    loads: list[Path] = []
    may_go_on = threading.Event()
    real = CountingLoader()

    def slow_load(folder: Path, *_kind: str) -> LoadedBase:
        loads.append(folder)
        may_go_on.wait(30)
        return real(folder, *_kind)

    cache = ModelCache(registry, idle_seconds=300, load=slow_load)

    def lease(model: str) -> str:
        with cache.lease(model) as engine:
            return engine.model_id

    with ThreadPoolExecutor(4) as pool:
        leases = [pool.submit(lease, model) for model in ("demo", "faint", "demo", "garbling")]
        may_go_on.set()
        assert [lease.result() for lease in leases] == ["demo", "faint", "demo", "garbling"]
    assert len(loads) == 1
    cache.close()


def weights_of(engine: Transcriber) -> "weakref.ref[Loaded]":
    """The model that a lease lends: None as soon as it has left memory."""
    return weakref.ref(engine._loaded)


def test_a_model_is_lent_to_many_and_stays_for_the_next(cache: ModelCache, loader: CountingLoader) -> None:
    with cache.lease("demo") as one, cache.lease("faint") as two:
        weights = weights_of(one)
        assert two._loaded is one._loaded
    assert weights() is not None
    with cache.lease("demo") as three:
        assert three._loaded is weights()
    assert len(loader.folders) == 1


def test_a_model_nobody_used_for_a_while_leaves_memory(
    registry: ModelRegistry, loader: CountingLoader
) -> None:
    cache = ModelCache(registry, idle_seconds=0.05, load=loader)
    with cache.lease("demo") as engine:
        weights = weights_of(engine)
        threading.Event().wait(0.2)
        assert engine.languages
    while weights():
        threading.Event().wait(0.02)
    with cache.lease("demo"):
        assert len(loader.folders) == 2
    cache.close()


def test_unloading_frees_the_weights_and_the_next_lease_loads_again(
    cache: ModelCache, loader: CountingLoader
) -> None:
    with cache.lease("garbling") as engine:
        weights = weights_of(engine)
    cache.unload_all()
    assert weights() is None
    with cache.lease("demo"):
        assert len(loader.folders) == 2


def test_unloading_waits_for_leases_and_gives_up_in_the_end(
    cache: ModelCache, loader: CountingLoader
) -> None:
    with cache.lease("demo") as engine:
        first = weights_of(engine)
        cache.unload_all(wait_seconds=0.01)
        assert engine.languages
        with cache.lease("demo") as other:
            second = weights_of(other)
            assert len(loader.folders) == 2
    assert first() is None and second() is not None
    lease = cache.lease("demo")
    lease.__enter__()
    unloading = threading.Thread(target=cache.unload_all, kwargs={"wait_seconds": 30.0})
    unloading.start()
    lease.__exit__(None, None, None)
    unloading.join(30)
    assert not unloading.is_alive()
    assert second() is None


def test_a_model_that_fails_to_load_leaves_nothing_and_may_be_tried_again(registry: ModelRegistry) -> None:
    real = CountingLoader()
    failures = [ModelBrokenError("no luck")]

    def load(folder: Path, *_kind: str) -> LoadedBase:
        if failures:
            raise failures.pop()
        return real(folder, *_kind)

    cache = ModelCache(registry, idle_seconds=300, load=load)
    with pytest.raises(ModelBrokenError, match="no luck"), cache.lease("demo"):
        pass
    with cache.lease("demo") as engine:
        assert engine.model_id == "demo"
    cache.close()


def test_an_adapter_trained_anew_under_its_name_is_loaded_anew(
    demo_model: Path, tmp_path: Path, command: Sample
) -> None:
    registry = ModelRegistry(tmp_path, demo=demo_model, hf_cache=None)
    save_adapter(demo_model, tmp_path / "mine", seed=1, strength=0.0)
    cache = ModelCache(registry, idle_seconds=300, device="cpu")
    plain = cache.transcribe("demo", command.path, PLAIN).text
    assert cache.transcribe("mine", command.path, PLAIN).text == plain
    save_adapter(demo_model, tmp_path / "mine", seed=2, strength=3.0)
    assert cache.transcribe("mine", command.path, PLAIN).text != plain
    cache.close()


def test_a_base_that_was_replaced_under_its_name_is_loaded_anew(
    demo_model: Path, mute_model: Path, tmp_path: Path, command: Sample
) -> None:
    registry = ModelRegistry(tmp_path, demo=demo_model, hf_cache=None)
    loader = CountingLoader()
    cache = ModelCache(registry, idle_seconds=300, load=loader)
    for model, text in ((demo_model, command.text), (demo_model, command.text), (mute_model, "")):
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        shutil.copytree(model, tmp_path / "mine")
        assert cache.transcribe("mine", command.path, PLAIN).text == text
    assert len(loader.folders) == 2, "a copy of the same files is the same model"
    cache.close()


def test_an_unknown_model_is_named_with_the_nearest(cache: ModelCache) -> None:
    with pytest.raises(ModelNotFoundError, match="demo"), cache.lease("demmo"):
        pass


def test_an_export_is_not_for_transformers_and_a_broken_one_for_none(
    demo_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "fast"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"x")
    (folder / "vocabulary.json").write_text("[]", encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    registry = ModelRegistry(tmp_path, demo=demo_model, hf_cache=None)
    assert registry.get("fast").kind is ModelKind.EXPORT
    cache = ModelCache(registry, idle_seconds=300)
    transformers = EngineChoice("transformers")
    with pytest.raises(ConfigError, match="only faster-whisper runs"), cache.lease("fast", transformers):
        pass
    with pytest.raises(ModelBrokenError), cache.lease("fast"):
        pass
    cache.close()


def test_an_engine_is_of_no_use_after_its_lease(cache: ModelCache) -> None:
    with cache.lease("demo") as engine:
        assert engine.languages
    with pytest.raises(AssertionError, match="lease of this model has ended"):
        _ = engine.languages
