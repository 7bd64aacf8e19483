"""An option, a method, an engine and an export format are added from outside: each is a field or a file, and
flag, file, form, estimate, training, transcription, page and export follow.
"""

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forking import Popen, forked_server, forking
from tests.studio_process import ROOT, StudioProcess, command

OPTION = """
    label_noise: float = method_option(
        0.125, "Label noise", "Share of the tokens that are taught wrong.", bounds=(0.0, 0.5)
    )
"""
METHOD = '''
"""LoRA whose scale is divided by the root of the rank (Kalajdzievski 2023, arXiv 2312.03732)."""

from typing import Any

from studio.methods.lora import Lora
from studio.methods.method import AdapterSettings


class RankStabilized(Lora):
    """In PEFT 0.21."""

    key = "rslora"
    label = "rsLoRA (stable at high ranks)"
    switches = ("use_rslora",)

    def peft_config(self, settings: AdapterSettings) -> Any:
        """A `LoraConfig` with `use_rslora`."""
        from peft import LoraConfig

        return LoraConfig(r=settings.rank, use_rslora=True, **settings.shared)
'''
MIRROR = "studio.transcription.engines.mirror"
FORMAT = '''
"""All of a model in one archive, for a program that nobody has written."""

import shutil
from contextlib import contextmanager

from studio.messages import Message
from studio.publishing.formats.export_format import ExportFormat, generation_config
from studio.registry.spec import ModelKind
from studio.transcription.loaded_base import load_base


class Packed(ExportFormat):
    """`model.tar` and nothing else."""

    key = "packed"
    label = "For packed (one archive)"
    kind = ModelKind.FOREIGN
    title = "for packed"
    ending = "packed"
    quantizations = ("float32",)
    doing = Message("Packing ...")
    weights = "model.tar"
    what = "An archive for packed"
    library = "packed"
    files = (weights,)
    use = ("packed", "bash", "packed --of {name} speech.wav")
    server = ("packed", Message("Its own server takes this file."), "packed serve {place}")

    def write(self, decoder, target, quantization, source):
        """As transformers has it, packed."""
        decoder.model.generation_config = generation_config(decoder)
        decoder.model.save_pretrained(target)
        archive = shutil.make_archive(str(target.with_name("packed")), "tar", target)
        for path in target.iterdir():
            path.unlink()
        shutil.move(archive, target / self.weights)

    @contextmanager
    def reopened(self, folder):
        """Unpacked for as long as it plays."""
        unpacked = folder / "unpacked"
        shutil.unpack_archive(folder / self.weights, unpacked, filter="data")
        with load_base(unpacked, device="cpu", precision="float32").using(None) as decoder:
            yield decoder
        shutil.rmtree(unpacked)
'''
ENGINE = '''
"""transformers, in a studio of one's own."""

from studio.transcription.loaded_base import LoadedBase, load_base


class LoadedMirror(LoadedBase):
    """Tells which engine it is."""

    engine = "mirror"


def load_mirror(folder, *, device, precision, threads):
    """Seven bits are as many as float32 has, here."""
    kind = "float32" if precision == "int7" else precision
    loaded = load_base(folder, device=device, precision=kind, threads=threads)
    return LoadedMirror(loaded.model, loaded._dimensions)
'''
FOLLOWS = """
import sys
from pathlib import Path

from studio.errors import ConfigError
from studio.publishing.publish import PublishRequest, prepare
from studio.registry.store import ModelRegistry
from studio.serving.commands import ways_to_serve
from studio.ui.shared.views import model_choices, model_details

registry = ModelRegistry(Path(sys.argv[1]), demo=None, hf_cache=None)
spec = registry.get(sys.argv[2])
sent = prepare(registry, PublishRequest(spec.id, "ada/mine"))
print(sorted(file.name for file in sent.files))
print(sent.card)
try:
    prepare(registry, PublishRequest(spec.id, "ada/mine", is_space=True))
except ConfigError as error:
    print(error)
print([way.commands for way in ways_to_serve(spec, registry.models)])
print([[id_ for _, id_ in model_choices([spec], "en", to_run=run)] for run in (True, False)])
print(model_details(spec, "en"))
"""


def add_line(path: Path, before: str, line: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{before!r} in {path}"
    path.write_text(text.replace(before, line + before), encoding="utf-8")


def add_engine(studio: Path) -> None:
    """An engine's file, and its line in each of the tables."""
    engines = studio / "transcription" / "engines"
    (engines / "mirror.py").write_text(ENGINE.lstrip(), encoding="utf-8")
    loading, memory = studio / "transcription" / "loading.py", studio / "memory"
    add_line(loading, "from studio.transcription.loaded_base", f"from {MIRROR} import load_mirror\n")
    for path, before, line in (
        (studio / "options" / "choices.py", "TRANSFORMERS: (", '"mirror": ("float32", "int7"),\n    '),
        (loading, "TRANSFORMERS: load_base", '"mirror": load_mirror,\n    '),
        (memory / "inference.py", "TRANSFORMERS: _trans", '"mirror": _transformers, '),
        (memory / "inference_plan.py", '"fp32": 4', '"int7": 4, '),
    ):
        add_line(path, before, line)


def register(package: Path, name: str, kind: str, last: str) -> None:
    """A file's line among its like: an import, and a place in the table."""
    module = ".".join(package.relative_to(package.parents[1 if package.name == "methods" else 2]).parts)
    text = (package / "__init__.py").read_text(encoding="utf-8")
    assert text.count(last) == 1
    text = text.replace(last, f"{last[:-1]}, {kind}())")
    text = text.replace("\n\n", f"\n\nfrom {module}.{name} import {kind}\n", 1)
    (package / "__init__.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the studio with the four in it."""
    copy = tmp_path_factory.mktemp("extended")
    for name in ("studio", "assets"):
        shutil.copytree(ROOT / name, copy / name)
    (copy / "tests").mkdir()
    for name in ("app.py", "tests/forking.py", "tests/forked_studio.py"):
        shutil.copy2(ROOT / name, copy / name)
    add_line(copy / "studio" / "options" / "training.py", "    # method\n", OPTION)
    add_engine(copy / "studio")
    methods, formats = copy / "studio" / "methods", copy / "studio" / "publishing" / "formats"
    (methods / "rank_stabilized.py").write_text(METHOD.lstrip(), encoding="utf-8")
    register(methods, "rank_stabilized", "RankStabilized", "FrozenEncoder())")
    (formats / "packed.py").write_text(FORMAT.lstrip(), encoding="utf-8")
    register(formats, "packed", "Packed", "Ggml())")
    return copy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def popen(
    extended: Path, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Popen]:
    """Commands, workers and the page are forked from one process that has the copy loaded."""
    with forking(tmp_path_factory.mktemp("forking"), environ, extended) as popen:
        yield popen


Run = Callable[..., str]
"""Words of a command in, its standard output out."""


@pytest.fixture(scope="module")
def run(extended: Path, home: Path, environ: dict[str, str], popen: Popen) -> Run:
    def run(*arguments: str) -> str:
        with command(arguments, environ, home, extended, **forked_server(popen)) as done:
            said, _ = done.communicate(timeout=300)
        assert done.returncode == 0, (extended / "stderr").read_text("utf-8")
        return str(said)

    return run


def estimate(run: Run, method: str) -> dict[str, Any]:
    words = ("estimate", "--base_model", "tiny", "--method", method, "--json")
    return dict(json.loads(run(*words)))


def test_help_flags_and_files_know_the_option(extended: Path, home: Path, run: Run) -> None:
    assert "Share of the tokens that are taught wrong." in run("train", "--help")
    script = (
        "import sys; from studio.options.arguments import parse_training_arguments, read_config, write_yaml\n"
        "from pathlib import Path\n"
        "config, _ = parse_training_arguments(['--train_data', 'demo', '--label-noise', '0.25'])\n"
        "Path(sys.argv[1]).write_text(write_yaml(config))\n"
        "assert read_config(Path(sys.argv[1])) == config and config.label_noise == 0.25\n"
        "try: parse_training_arguments(['--train_data', 'demo', '--label_noise', '3'])\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(home / "run.yaml")],
        cwd=extended,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "label_noise must be between 0 and 0.5, got 3.", done.stderr


def test_estimate_and_trace_know_the_method(run: Run) -> None:
    lora, stable = (estimate(run, method) for method in ("lora", "rslora"))
    assert stable == lora
    traced = json.loads(run("estimate", "--base_model", "demo", "--use_rslora", "--trace", "--json"))
    assert abs(max(traced["phases"].values()) / traced["trace"]["peak_bytes"] - 1) < 0.01


def test_the_engine_hears_as_it_is_asked_to_and_is_sized(run: Run) -> None:
    sound = str(ROOT / "assets" / "demo-speech" / "audio" / "test-000.ogg")
    (heard,) = json.loads(run("transcribe", sound, "--engine", "mirror", "--compute_type", "int7", "--json"))
    assert heard["engine"] == "mirror" and heard["text"]
    sized, full = (
        json.loads(run("estimate", "--inference", "--precision", precision, *words, "--json"))["device_bytes"]
        for precision, words in (("int7", ("--engine", "mirror")), ("fp32", ()))
    )
    assert sized == full


def test_what_the_engine_lacks_is_refused(run: Run) -> None:
    with pytest.raises(
        AssertionError, match="The engine mirror has no precision 'bfloat16': choose one of auto"
    ):
        run("transcribe", "none.wav", "--engine", "mirror", "--dtype", "bfloat16")


def test_it_trains_and_what_its_adapter_is_exported_to_is_followed_by_all_that_tell_of_it(
    extended: Path, home: Path, run: Run, micro_model: Path, tones: Path
) -> None:
    options = ("--max_steps", "2", "--eval_strategy", "no", "--capability_check", "False")
    words = ("--base_model", str(micro_model), "--train_data", str(tones), "--method", "rslora")
    run("train", *words, *options, "--run_name", "stable")
    (adapter,) = (home / "models").glob("*/adapter_config.json")
    assert json.loads(adapter.read_text(encoding="utf-8"))["use_rslora"] is True
    made = json.loads(run("export", adapter.parent.name, "--format", "packed", "--json"))
    assert made["kind"] == "foreign" and made["id"].endswith("-packed")
    assert made["card"]["parity"][-1]["b"] == "packed" and made["card"]["parity"][-1]["equal"]
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWS, str(home / "models"), made["id"]],
        cwd=extended,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files, *card, space, serve, choices, details = done.stdout.splitlines()
    assert files == str(["README.md", "model.json", "model.tar"])
    assert {"library_name: packed", "packed --of ada/mine speech.wav"} <= set(card)
    assert any(line.endswith(", for packed") for line in card)
    assert any(line.startswith("An archive for packed that turns speech into text") for line in card)
    assert "studio transcribe" not in str(card), "the studio does not play it"
    assert "is for another program (packed), which no Space runs" in space
    assert serve == str([(f"packed serve {home / 'models' / made['id'] / 'model.tar'}",)])
    assert choices == str([[], [made["id"]]]), "listed, but nowhere to be run"
    assert "For packed (one archive)" in details


def test_the_page_offers_all_of_them(
    extended: Path, home: Path, environ: dict[str, str], popen: Popen
) -> None:
    with StudioProcess(home, environ, checkout=extended, **forked_server(popen)) as studio:
        page, served = (
            urllib.request.urlopen(f"{studio.url}/{path}", timeout=60).read().decode()
            for path in ("config", "v1/models")
        )
    for text in ("Label noise", "rsLoRA (stable at high ranks)", "For packed (one archive)", "mirror"):
        assert text in page, text
    assert "stable" in served and "-packed" not in served
