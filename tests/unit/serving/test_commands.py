"""How a model is served elsewhere: what each server takes, as commands."""

import shlex
from pathlib import Path

import pytest

from studio.publishing.export import Exporter, ExportRequest
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.registry.store import ModelRegistry
from studio.serving.commands import ways_to_serve
from tests.unit.transcription.small_models import save_adapter

MODELS = Path("/home/ada/my models")


def spec_of(kind: ModelKind, **given: object) -> ModelSpec:
    return ModelSpec(  # type: ignore[arg-type]
        **{
            "id": "mine",
            "kind": kind,
            "source": ModelSource.TRAINED,
            "title": "Mine",
            "path": MODELS / "mine",
            **given,
        }
    )


def commands_of(spec: ModelSpec, **asked: object) -> dict[str, list[list[str]]]:
    ways = ways_to_serve(spec, MODELS, **asked)  # type: ignore[arg-type]
    return {way.server: [shlex.split(line) for line in way.commands] for way in ways}


def test_vllm_gets_whole_weights_under_the_models_own_name() -> None:
    serve = ["vllm", "serve", str(MODELS / "mine"), "--served-model-name", "mine"]
    assert commands_of(spec_of(ModelKind.MERGED))["vLLM"] == [serve]
    released = spec_of(ModelKind.BASE, id="openai/whisper-tiny", source=ModelSource.RELEASED, path=None)
    assert commands_of(released)["vLLM"] == [["vllm", "serve", "openai/whisper-tiny"]]
    assert commands_of(spec_of(ModelKind.EXPORT))["vLLM"] == []


def test_speaches_gets_an_export_from_the_hub() -> None:
    of_export = commands_of(spec_of(ModelKind.EXPORT))["speaches"]
    publish = ["python", "-m", "studio", "publish"]
    assert of_export[0] == [*publish, "mine", "OWNER/mine", "--public"]
    of_base = commands_of(spec_of(ModelKind.BASE))["speaches"]
    assert of_base[0] == ["python", "-m", "studio", "export", "mine"]
    assert of_base[1] == [*publish, "mine-ct2", "OWNER/mine-ct2", "--public"]
    assert of_base[-1][-1].endswith("/v1/models/OWNER/mine-ct2")


def test_an_adapter_is_merged_to_where_its_commands_look_for_it(demo_model: Path, tmp_path: Path) -> None:
    save_adapter(demo_model, tmp_path / "faint", seed=1, strength=0.0)
    registry = ModelRegistry(tmp_path, demo=demo_model, hf_cache=None)
    merge, serve = ways_to_serve(registry.get("faint"), tmp_path)[1].commands
    assert merge == "python -m studio export faint --format merged"
    made = Exporter(registry).export(ExportRequest("faint", "merged"))
    assert shlex.split(serve)[2] == str(made.path)


def test_our_own_line_brings_the_key_and_strangers_read_no_place() -> None:
    ours = commands_of(spec_of(ModelKind.BASE), has_key=True, address="https://studio.lab")["Whisper Studio"]
    # The page answers already: who pastes both is not kept from it by the other.
    ask, serve = ours
    assert serve == ["python", "-m", "studio", "serve", "--model", "mine"]
    assert ask[:2] == ["curl", "https://studio.lab/v1/audio/transcriptions"]
    assert "Authorization: Bearer $STUDIO_API_KEY" in ask and ask[-1] == "model=mine"
    for kind in ModelKind:
        assert "my models" not in str(commands_of(spec_of(kind), is_public=True))


@pytest.mark.parametrize("context", ["short", "full"])
def test_who_reads_whole_windows_only_is_told_of_a_model_of_short_clips(context: str) -> None:
    ways = ways_to_serve(spec_of(ModelKind.BASE, card={"audio_context": context}), MODELS)
    assert ("windows of 30 seconds" in str(ways[0].note)) is (context == "short")
