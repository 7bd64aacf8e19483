"""Exports: the proof that they write what their model writes, and what is remembered of them."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from studio.errors import ConfigError, ModelBrokenError, ModelError
from studio.messages import Message
from studio.publishing.export import STAGING, Exporter, ExportRequest
from studio.publishing.findings import loss_of
from studio.registry.spec import ModelKind
from studio.registry.store import ModelRegistry
from studio.ui.models.export import proof
from tests.forking import ROOT, Popen
from tests.unit.publishing.exporting import export
from tests.unit.transcription.small_models import save_adapter


@pytest.fixture
def registry(demo_model: Path, tmp_path: Path) -> ModelRegistry:
    """The demo model, and an adapter that changes what it writes."""
    save_adapter(demo_model, tmp_path / "models" / "accent", seed=2, strength=1.0)
    return ModelRegistry(tmp_path / "models", demo=demo_model, hf_cache=None)


@pytest.fixture
def quick(mute_model: Path, tmp_path: Path) -> ModelRegistry:
    """The same of a model that writes nothing: the proof of an export, most of its time, has no tokens."""
    save_adapter(mute_model, tmp_path / "models" / "accent", seed=2, strength=0.0)
    return ModelRegistry(tmp_path / "models", demo=mute_model, hf_cache=None)


def test_an_adapter_its_merged_model_and_its_export_write_the_same_tokens(registry: ModelRegistry) -> None:
    steps: list[tuple[str, float]] = []
    request = ExportRequest("accent", quantization="float32")
    made = Exporter(registry).export(request, lambda step, share: steps.append((str(step), share)))
    assert (made.kind, made.base_model, made.problem) == (ModelKind.EXPORT, "demo", None)
    assert made.card["source"] == "accent" and made.card["is_exact"]
    assert [(row["a"], row["b"], row["equal"]) for row in made.card["parity"]] == [
        ("adapter", "merged", True),
        ("adapter", "export", True),
    ]
    assert all(row["tokens"] > 10 for row in made.card["parity"])
    assert [share for _, share in steps] == sorted(share for _, share in steps)
    assert "Merging the adapter …" in dict(steps)
    assert made.path is not None
    names = {path.name for path in made.path.iterdir()}
    assert {"model.bin", "config.json", "tokenizer.json", "preprocessor_config.json", "model.json"} <= names
    heads = json.loads((made.path / "config.json").read_text(encoding="utf-8"))["alignment_heads"]
    known = json.loads((registry.get("demo").path or Path()).joinpath("generation_config.json").read_text())
    assert heads == known["alignment_heads"]


def test_an_export_is_made_once_and_again_when_its_model_has_changed(
    quick: ModelRegistry, mute_model: Path
) -> None:
    first = Exporter(quick).ensure("accent")
    assert Exporter(quick).ensure("accent") == first
    quick.rename("accent", "dialect")
    assert Exporter(quick).ensure("dialect").id == first.id
    save_adapter(mute_model, quick.models / "dialect", seed=5)
    again = Exporter(quick).ensure("dialect")
    assert again.card["source_hash"] != first.card["source_hash"]
    assert not (quick.models / "accent-ct2").exists(), "it was of this model, which is another one now"
    assert again.path is not None
    (again.path / "model.bin").write_bytes((again.path / "model.bin").read_bytes()[:-1000])
    assert Exporter(quick).find(quick.get("dialect")) is None, "a broken one is made again"


def test_an_export_that_would_become_the_same_is_given_back(quick: ModelRegistry) -> None:
    exporter = Exporter(quick)
    made = exporter.ensure("accent")
    asked = exporter.export(ExportRequest("accent"))
    assert (made.id, made.card["is_automatic"]) == (asked.id, True)
    assert asked.card == {**made.card, "is_automatic": False}, "it stays when the model changes"
    quick.annotate("accent", {"capabilities": {"lost": []}})
    assert exporter.export(ExportRequest("accent")).id == "accent-ct2-2", "its card tells more"
    rounded = exporter.export(ExportRequest("accent", "merged", "bfloat16"))
    assert rounded.id == "accent-merged-bfloat16" and not rounded.card["is_exact"]


def test_a_merged_model_stands_alone_and_writes_the_same(registry: ModelRegistry) -> None:
    made = Exporter(registry).export(ExportRequest("accent", "merged", name="whole"))
    assert (made.id, made.kind, made.problem) == ("whole", ModelKind.MERGED, None)
    assert [row["b"] for row in made.card["parity"]] == ["merged"]
    assert made.path and (made.path / "model.safetensors").is_file()
    assert Exporter(registry).ensure("whole").card["parity"][0]["equal"]


def test_what_a_model_has_lost_is_on_the_card_of_its_export(quick: ModelRegistry) -> None:
    path = quick.get("accent").path
    assert path is not None
    card = path / "model.json"
    lost = {"lost": ["long_form"], "checks": {}}
    card.write_text(json.dumps({**json.loads(card.read_text("utf-8")), "capabilities": lost}), "utf-8")
    made = Exporter(quick).export(ExportRequest("accent", "merged", name="whole"))
    loss = loss_of(made.card["capabilities"])
    assert "Long recordings" in str(loss)
    assert str(proof(made, "en")).index("Long recordings") < str(proof(made, "en")).index("Exported as whole")


def test_what_quantization_changes_is_measured(registry: ModelRegistry) -> None:
    made = Exporter(registry).export(ExportRequest("accent", quantization="int8"))
    assert made.id == "accent-ct2-int8"
    last = made.card["parity"][-1]
    assert 0 <= last["different_tokens"] <= last["tokens"]
    assert last["equal"] == (last["different_tokens"] == 0)
    assert not made.card["is_exact"]
    assert Exporter(registry).find(registry.get("accent")) is None


def test_an_export_that_is_interrupted_leaves_nothing(registry: ModelRegistry) -> None:
    def interrupted(step: Message, share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Exporter(registry).export(ExportRequest("accent"), interrupted)
    assert [path.name for path in registry.models.iterdir()] == ["accent"]


def test_processes_that_export_at_once_spare_each_other_and_sweep_what_a_killed_one_left(
    quick: ModelRegistry, mute_model: Path, tmp_path: Path, popen: Popen, environ: dict[str, str]
) -> None:
    def begin(name: str, other: str) -> subprocess.Popen[bytes]:
        places = (quick.models, mute_model, tmp_path / name, tmp_path / other)
        command = [sys.executable, "-m", "tests.unit.publishing.exporting", *map(str, places)]
        process = popen(command, cwd=ROOT, env=environ)
        while not places[2].exists() and process.poll() is None:
            time.sleep(0.02)
        return process

    killed = begin("killed", "nobody")
    killed.kill()
    killed.wait()
    assert {spec.path.name for spec in quick.all() if spec.path} == {"accent", mute_model.name}
    assert any(quick.models.glob(f"{STAGING}*"))
    other = begin("first", "second")
    export(quick.models, mute_model, tmp_path / "second", tmp_path / "first", "merged")
    assert other.wait() == 0
    assert {path.name for path in quick.models.iterdir()} == {"accent", "accent-ct2", "accent-merged"}


def test_who_waits_for_another_thread_is_told_and_may_leave(quick: ModelRegistry) -> None:
    exporter, began, left = Exporter(quick), threading.Event(), threading.Event()

    def first(_step: Message, share: float) -> None:
        began.set()
        if share > 0.4:
            left.wait(60)

    def second(step: Message, _share: float) -> None:
        assert "Waiting for another export" in str(step)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(exporter.export, ExportRequest("accent", "merged"), first)
        began.wait()
        with pytest.raises(KeyboardInterrupt):
            exporter.ensure("accent", second)
        with pytest.raises(KeyboardInterrupt):
            exporter.export(ExportRequest("accent"), second)
        left.set()
        assert made.result().problem is None


def test_what_cannot_be_exported_is_refused(registry: ModelRegistry, tmp_path: Path) -> None:
    exporter = Exporter(registry)
    for request, sentence in (
        (ExportRequest("demo", "merged"), "only an adapter can be merged"),
        (ExportRequest("accent", "onnx"), "format must be one of"),
        (ExportRequest("accent", name="my model"), "'my model' cannot be the name of a model"),
        (ExportRequest("accent", "merged", "int8"), "quantization must be one of"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            exporter.export(request, lambda step, _share: pytest.fail(f"it began: {step}"))
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text('{"model_type": "whisper"}', encoding="utf-8")
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    with pytest.raises(ModelError):
        exporter.export(ExportRequest(str(pickled)))
    weights = registry.models / "accent" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelBrokenError, match="cut short"):
        exporter.ensure("accent")
    assert [path.name for path in registry.models.iterdir()] == ["accent"]
