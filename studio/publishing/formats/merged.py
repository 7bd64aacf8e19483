"""An adapter merged into its base: a whole model that any program loads."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.files import read_json, storage_errors, write_json
from studio.messages import Message
from studio.publishing.formats.export_format import ExportFormat, generation_config
from studio.publishing.formats.whole import Whole
from studio.registry.spec import ModelKind, ModelSpec
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.loaded_base import load_base
from studio.transcription.window_model import WindowModel


class Merged(Whole, ExportFormat):
    """A folder of transformers, its weights as safetensors."""

    key = "merged"
    label = "Merged into its base"
    kind = ModelKind.MERGED
    title = "merged"
    ending = "merged"
    quantizations = ("float32", "float16", "bfloat16")
    doing = Message("Writing the merged model …")

    def problem(self, spec: ModelSpec) -> Message | None:
        """It is whole already."""
        if spec.kind is ModelKind.ADAPTER:
            return None
        return Message(
            "{model} is a whole model: only an adapter can be merged into its base.", model=spec.id
        )

    def write(self, decoder: TransformersModel, target: Path, quantization: str, source: Path) -> None:
        """With the generation config of base and adapter."""
        import torch

        model = decoder.model.to(getattr(torch, quantization))
        model.generation_config = generation_config(decoder)
        with storage_errors(target):
            model.save_pretrained(target)
        own = source / "generation_config.json"
        if own.is_file():
            said = read_json(own)
            kept = {name: said[name] for name in ("language", "task") if said.get(name)}
            merged = read_json(target / "generation_config.json")
            write_json(target / "generation_config.json", {**merged, **kept})

    @contextmanager
    def reopened(self, folder: Path) -> Iterator[WindowModel]:
        """As transformers loads it."""
        with load_base(folder, device="cpu", precision="float32").using(None) as decoder:
            yield decoder
