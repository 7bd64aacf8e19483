"""The table of engines: what each takes, what loads it, and what it is not asked for."""

from pathlib import Path

import pytest
import torch

from studio.cli import transcribe
from studio.cli.decoding import choice_of
from studio.errors import ConfigError, ModelBrokenError, RunError
from studio.memory.inference import ESTIMATES
from studio.options.choices import ENGINES
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.transcription.engine import FIELDS, EngineChoice
from studio.transcription.loading import LOADERS, engine_of, loader


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> str:
    """A third engine."""
    monkeypatch.setitem(ENGINES, "mine", ("float32", "int7"))
    monkeypatch.setitem(FIELDS["engine"].metadata["choices"], "mine", "mine")
    return "mine"


def test_each_engine_has_a_loader_and_an_estimate() -> None:
    assert LOADERS.keys() == ESTIMATES.keys() == ENGINES.keys()


def test_an_engine_without_a_loader_is_not_taken_for_another(mine: str, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=mine):
        loader(0)(tmp_path, mine, "auto", "cpu")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        ModelBrokenError("It is broken ({reason}).", reason="CUDA failed with error out of memory"),
        MemoryError(),
    ],
)
def test_a_model_that_memory_does_not_hold_is_not_called_broken(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load_on_a_full_gpu(*_folder: Path, **_how: object) -> None:
        raise error

    monkeypatch.setitem(LOADERS, "transformers", load_on_a_full_gpu)
    with pytest.raises(RunError, match="There is not enough memory for this model: choose a smaller one"):
        loader(0)(tmp_path, "transformers", "auto", "cuda")


def test_an_export_is_of_faster_whisper_alone(mine: str) -> None:
    export = ModelSpec("a-ct2", ModelKind.EXPORT, ModelSource.TRAINED, "a-ct2")
    with pytest.raises(ConfigError, match="a-ct2 is an export, which only faster-whisper runs"):
        engine_of(export, EngineChoice(mine))


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ("--engine mine --dtype float32", ("mine", "float32")),
        ("--engine mine --compute_type int7", ("mine", "int7")),
        ("--engine mine", ("mine", "auto")),
        ("--dtype float32", ("transformers", "float32")),
        ("--use_8bit", ("transformers", "int8")),
        ("--compute_type int8_float32", ("faster-whisper", "int8_float32")),
    ],
)
def test_a_precision_is_that_of_the_engine_that_is_named(
    mine: str, words: str, choice: tuple[str, str]
) -> None:
    assert choice_of(transcribe.parser().read(words.split())) == EngineChoice(*choice)
    with pytest.raises(ConfigError, match="The engine mine has no precision 'int4'"):
        choice_of(transcribe.parser().read(["--engine", mine, "--use_4bit"]))
