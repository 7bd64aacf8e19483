"""`transcribe` with models and wishes that cannot be: one sentence, and nothing written."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from studio.cli import transcribe
from studio.errors import StudioError
from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from tests.studio_process import ROOT
from tests.unit.transcription.small_models import save_adapter

Refused = Callable[..., str]


@pytest.fixture(scope="module")
def adapter(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of the demo model that changes nothing."""
    return save_adapter(demo_model, tmp_path_factory.mktemp("adapter") / "mine", seed=1, strength=0.0)


@pytest.fixture
def refused(settings: Settings, demo_speech: Path, tmp_path: Path) -> Refused:
    """The sentence with which a command on a real recording is refused."""

    def run(*arguments: str | Path) -> str:
        clip = demo_speech / "samples" / "kitchen-light.flac"
        written = tmp_path / "out" / "results.json"
        with pytest.raises(StudioError) as error:
            transcribe.run([str(clip), *map(str, arguments), "--output_file", str(written)], settings)
        assert not written.exists()
        return str(error.value)

    return run


def test_that_no_recording_is_there_is_said_before_libraries_and_model_are_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from studio.cli.main import main; words = sys.argv[1:]; "
        "print(main(words), 'torch' in sys.modules)"
    )
    (tmp_path / "empty.wav").touch()
    environ = {**os.environ, "STUDIO_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    words = ("transcribe", "gone.wav", "empty.wav", "--output_file", "a.json")
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=environ, capture_output=True, encoding="utf-8"
    )
    assert done.stdout.split() == ["2", "False"], done.stderr
    assert "Error: There is no audio file gone.wav.\nError: empty.wav is an empty file.\n" in done.stderr
    rows = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert [(row["model"], row["error"]) for row in rows] == [
        ("demo", "There is no audio file gone.wav."),
        ("demo", "empty.wav is an empty file."),
    ]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("cut", r"adapter_model\.safetensors is cut short \(\d+ of \d+ bytes\): copy or download it again\."),
        ("garbled", r"adapter_model\.safetensors is not a safetensors file: copy or download it again\."),
        ("config", r"adapter_config\.json cannot be read as JSON: copy the model again\."),
        ("pickle", r"adapter_model\.bin is a pickle, and loading a pickle can run any program: save the"),
    ],
    ids=("cut", "garbled", "config", "pickle"),
)
def test_a_damaged_or_pickled_adapter_is_refused_with_the_reason(
    settings: Settings, adapter: Path, refused: Refused, damage: str, sentence: str
) -> None:
    folder = settings.models / "mine"
    shutil.copytree(adapter, folder)
    weights = folder / "adapter_model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-500])
    elif damage == "garbled":
        weights.write_bytes(b"no weights " * 50)
    elif damage == "config":
        (folder / "adapter_config.json").write_text("{broken", encoding="utf-8")
    else:
        weights.rename(folder / "adapter_model.bin")
    told = refused("--model", "mine")
    assert told.startswith("mine cannot be used: ")
    assert re.search(sentence, told), told


def test_an_adapter_of_another_base_is_refused_with_what_does_not_fit(
    settings: Settings, micro_model: Path, refused: Refused
) -> None:
    # Its card says that it is one of the demo model.
    save_adapter(micro_model, settings.models / "other", seed=1)
    told = refused("--model", "other")
    assert told.startswith(
        "The adapter other belongs to another base model: its q_proj in decoder layer 0 is"
    )
    assert told.endswith("Choose the base it was trained on.")


def test_a_pickled_model_is_refused_with_the_reason(
    settings: Settings, demo_model: Path, refused: Refused
) -> None:
    folder = shutil.copytree(demo_model, settings.models / "old")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    told = refused("--model", "old")
    assert "pytorch_model.bin is a pickle, and loading a pickle can run any program" in told


@pytest.fixture(scope="module")
def export(micro_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real export for faster-whisper."""
    registry = ModelRegistry(tmp_path_factory.mktemp("exports"), demo=None, hf_cache=None)
    path = Exporter(registry).ensure(str(micro_model)).path
    assert path is not None
    return path


@pytest.mark.parametrize("is_known", [True, False])
def test_an_export_that_was_cut_short_is_refused_whether_its_length_is_known_or_not(
    settings: Settings, export: Path, refused: Refused, is_known: bool
) -> None:
    folder = shutil.copytree(export, settings.models / "half")
    weights = folder / "model.bin"
    weights.write_bytes(weights.read_bytes()[:-1000])
    if is_known:
        told = refused("--model", "half")
        assert re.search(r"half cannot be used: model\.bin is cut short \(\d+ of \d+ bytes\)", told), told
        return
    (folder / "model.json").unlink()
    told = refused("--model", "half")
    assert told.startswith(f"The export in {folder} cannot be loaded (")
    assert told.endswith("): export the model again.")


def test_an_export_never_borrows_the_tokenizer_of_another_model(
    settings: Settings, export: Path, refused: Refused
) -> None:
    folder = shutil.copytree(export, settings.models / "half")
    (folder / "tokenizer.json").unlink()
    told = refused("--model", "half")
    assert told.startswith("half cannot be used: tokenizer.json is missing: copy it from the model that")


@pytest.mark.parametrize("engine", ["transformers", "faster-whisper"])
def test_what_a_model_lacks_or_cannot_hold_is_refused_by_both_engines(refused: Refused, engine: str) -> None:
    chosen = ("--model", "demo", "--engine", engine)
    told = refused(*chosen, "--language", "Cantonese")
    assert told.startswith("This model does not know the language 'Cantonese': choose one of en (english), ")
    assert len(told) < 250
    long = "turn on the light " * 200
    assert refused(*chosen, "--initial_prompt", long) == (
        "initial_prompt and hotwords have 800 tokens together, and this model takes 223: shorten them."
    )
    assert "800 tokens together" in refused(*chosen, "--hotwords", long)


def test_what_was_done_before_is_shown_and_written_in_the_format_that_is_asked_for(
    settings: Settings, demo_speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip, silence = (demo_speech / "samples" / f"{name}.flac" for name in ("kitchen-light", "silence"))
    asked = ("--output_file", str(tmp_path / "results.json"), "--num_beams", "1")
    assert transcribe.run([str(clip), *asked], settings) == 0
    text = capsys.readouterr().out
    assert "kitchen light" in text
    assert transcribe.run([str(clip), str(silence), *asked], settings) == 0
    assert capsys.readouterr().out.startswith(f"# {clip}\n{text}# {silence}\n")
    folder = tmp_path / "captions"
    folder.mkdir()
    (folder / "silence.srt").write_text("mended by hand", encoding="utf-8")
    given = (*asked, "--output_dir", str(folder), "--format", "srt")
    assert transcribe.run([str(clip), str(silence), *given], settings) == 0
    assert "-->" in (folder / "kitchen-light.srt").read_text(encoding="utf-8")
    assert (folder / "silence.srt").read_text(encoding="utf-8") == "mended by hand"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--word_timestamps True --timestamps none", "Give one of --timestamps and --word_timestamps"),
        ("--format txt --output_format srt", "Give one of --format and --output_format"),
        ("--output_format doc", "doc"),
        ("--temperature_increment_on_fallback 0", "0.01"),
        ("--threads -1", "threads must be between 0 and"),
    ],
)
def test_what_contradicts_or_cannot_be_is_refused(words: str, sentence: str, refused: Refused) -> None:
    assert sentence in refused(*words.split())


def test_a_recording_that_is_added_takes_no_captions_from_one_of_the_same_name(
    settings: Settings, demo_speech: Path, tmp_path: Path
) -> None:
    clips, folder = tmp_path / "clips", tmp_path / "captions"
    given = ("--num_beams", "1", "--output_dir", str(folder), "--output_file", str(tmp_path / "r.json"))

    def texts_with(month: str, sample: str) -> dict[str, str]:
        (clips / month).mkdir(parents=True)
        shutil.copy(demo_speech / "samples" / f"{sample}.flac", clips / month / "x.flac")
        assert transcribe.run([str(clips), *given], settings) == 0
        return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}

    first = texts_with("2024-01", "kitchen-light")
    assert "kitchen light" in first["x.txt"]
    both = texts_with("2023-12", "silence")
    assert both.keys() == {"x.txt", "x-2.txt"} and both["x.txt"] == first["x.txt"] != both["x-2.txt"]


def test_a_recording_that_is_cut_off_is_transcribed_and_said_to_be_so(
    settings: Settings, demo_speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, path = demo_speech / "samples" / "kitchen-light.flac", tmp_path / "half.flac"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert transcribe.run([str(path), "--json", "--num_beams", "1"], settings) == 0
    told = capsys.readouterr()
    [row] = json.loads(told.out)
    assert (row["error"], row["notes"]) == (
        None,
        ["The file says 4.5 s, and holds 2.0 s: it is cut off or damaged."],
    )
    assert f"Note: {row['notes'][0]}" in told.err
    assert transcribe.run([str(path), str(whole), "--num_beams", "1"], settings) == 0
    assert f"Note: {path}: {row['notes'][0]}" in capsys.readouterr().err
