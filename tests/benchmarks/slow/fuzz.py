"""Whatever foreign files and texts hold, changed at random: each is read, or refused in one sentence.

Lists, archives, tables, recordings, settings, commands, errors, links, results, models and runs; none may
take two seconds, or 500 MiB more than before.
"""

import json
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import psutil
import pytest
import soundfile

from studio.cli import train
from studio.cli.follow import as_dict
from studio.cli.parsing import run_options
from studio.errors import ModelError, StudioError
from studio.memory.gpus import card
from studio.memory.oom import explain
from studio.options.arguments import config_to_dict, read_config, write_yaml
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.history import Histories
from studio.runs.view import view
from studio.settings import DEMO_SPEECH
from studio.training.run_dir import RunDir
from studio.transcription.results import ResultsFile
from studio.ui.shared.links import linked_values
from studio.ui.shared.views import model_details
from studio.ui.train.run_views import run_status
from tests.faults.spoiled_files import READERS, mutated, originals
from tests.golden.conftest import HOMES
from tests.reading import read_manifest
from tests.unit.dataset.test_manifest import SAME_ROWS
from tests.unit.registry.conftest import make_adapter, make_whisper

TRIES = 8000
SLOWEST_SECONDS, MOST_MIB = 2.0, 500
Record = Callable[[str, object], None]


def memory_mib(most: bool = False) -> float:
    """What this process holds, or the most that it has held since `forget_peak`."""
    name = "VmHWM" if most else "VmRSS"
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    return int(found[1]) / 1024 if found else 0.0


def forget_peak() -> None:
    """The kernel counts anew."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def tried(
    files: list[Path], read: Callable[[Path], object], record: Record, chance: random.Random, tries: int
) -> None:
    """Reads `tries` changed copies, beside the originals; what else than a sentence comes of one is told."""
    came: Counter[str] = Counter()
    faults: list[str] = []
    slowest = 0.0
    held = psutil.Process().memory_info().rss
    highest_mib = 0.0
    for number in range(tries):
        original = chance.choice(files)
        copy = original.with_name(f"changed-{number}{''.join(original.suffixes)}")
        copy.write_bytes(mutated(original.read_bytes(), chance))
        before, before_mib = len(faults), memory_mib()
        forget_peak()
        began = time.monotonic()
        try:
            read(copy)
            came["read"] += 1
        except StudioError as error:
            came["refused in a sentence"] += 1
            if "\n" in str(error).strip() or not str(error).strip():
                faults.append(f"{copy}: {str(error)!r}")
        except SystemExit as error:  # of a command that cannot be meant
            came["refused in a sentence" if error.code else "read"] += 1  # who asks for help is helped
            if error.code not in (0, 2):
                faults.append(f"{copy}: exit code {error.code}")
        except Exception as error:  # noqa: BLE001 - to find these is what this is for
            faults.append(f"{copy}: {error!r}"[:300])
        slowest = max(slowest, time.monotonic() - began)
        highest_mib = max(highest_mib, memory_mib(most=True) - before_mib)
        if len(faults) == before:  # otherwise the bytes are still needed
            copy.unlink()
    for name, count in came.items():
        record(name, count)
    record("neither", len(faults))
    for text in sorted({re.sub(r"\S*changed-\d+", "…", fault) for fault in faults})[:9]:
        record("for instance", f"`{text}`")
    more_mib = (psutil.Process().memory_info().rss - held) / 2**20
    record("slowest, in seconds", f"{slowest:.2f}")
    record("memory kept, in MiB", f"{more_mib:.0f}")
    record("memory at most, in MiB", f"{highest_mib:.0f}")
    assert faults == [] and slowest < SLOWEST_SECONDS and max(more_mib, highest_mib) < MOST_MIB


@pytest.fixture
def chance(record_property: Record) -> random.Random:
    """Other bytes each time; the report tells the seed."""
    seed = random.randrange(2**32)
    record_property("seed", seed)
    return random.Random(seed)


@pytest.mark.timeout(3600)
def test_changed_manifests_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_HOME", str(tmp_path / "home"))
    (tmp_path / "clips").mkdir()
    for name in ("a.wav", "clips/b.flac"):
        soundfile.write(tmp_path / name, np.zeros(48_000), 16_000)
    files = []
    for number, text in enumerate(SAME_ROWS.values()):
        files.append(tmp_path / f"original-{number}{chance.choice(('.json', '.csv', '.txt'))}")
        files[-1].write_text(text, encoding="utf-8")
    demo = "".join(DEMO_SPEECH.joinpath("train.jsonl").read_text("utf-8").splitlines(keepends=True)[:3])
    for number in range(3):
        (tmp_path / "audio").mkdir(exist_ok=True)
        (tmp_path / "audio" / f"train-00{number}.ogg").symlink_to(
            DEMO_SPEECH / "audio" / f"train-00{number}.ogg"
        )
    files.append(tmp_path / "demo.jsonl")
    files[-1].write_text(demo, encoding="utf-8")
    tried(files, read_manifest, record_property, chance, TRIES)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", READERS)
def test_changed_archives_and_tables_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_HOME", str(tmp_path / "home"))
    files = originals(kind, tmp_path)
    for path in files:
        READERS[kind](path)
    tries = TRIES // 4 if kind == "parquet" else TRIES  # each of which starts a process
    tried(files, READERS[kind], record_property, chance, tries)


def files_of(tmp_path: Path, ending: str, *texts: str) -> list[Path]:
    """One file a text."""
    files = [tmp_path / f"original-{number}{ending}" for number in range(len(texts))]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return files


def text_of(path: Path) -> str:
    """What a visitor's browser, or a shell, makes of any bytes."""
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.timeout(3600)
def test_changed_settings_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record
) -> None:
    config = TrainingConfig(train_data="a.jsonl", target_modules=("q_proj",), language="zh")
    files = files_of(tmp_path, ".yaml", write_yaml(config), json.dumps(config_to_dict(config)))
    tried(files, read_config, record_property, chance, TRIES)


@pytest.mark.timeout(3600)
def test_changed_commands_are_understood_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(
        tmp_path,
        ".txt",
        "--base_model tiny --train_data a.jsonl --lora_r 8 --fp16 --use_adalora=True --output_dir o",
        "--dataset_name owner/name --text_column_name text --do_lower_case --learning_rate 1e-3",
        "--do_train False --resume_from_checkpoint True --optim paged_adamw_8bit",
        "--per_device_train_batch_size 8 --eval_strategy steps --eval_steps 10 --target_modules q_proj,fc1",
    )

    def understood(path: Path) -> None:
        try:
            run_options(train.parser().read_known(text_of(path).split())[1])
        finally:
            capsys.readouterr()

    tried(files, understood, record_property, chance, TRIES)


@pytest.mark.timeout(3600)
def test_changed_errors_are_explained(tmp_path: Path, chance: random.Random, record_property: Record) -> None:
    files = files_of(
        tmp_path,
        ".log",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
        "of 23.64 GiB of which 1.21 GiB is free. Of the allocated memory 20.5 GiB is allocated by PyTorch, "
        "and 1.31 GiB is reserved by PyTorch but unallocated.",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.0 "
        "GiB already allocated; 8.00 MiB free; 6.31 GiB reserved in total by PyTorch)",
        "  0%|  | 3/5000 [00:01<1:00]\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch",
    )
    tried(files, lambda path: explain(text_of(path)), record_property, chance, TRIES)


@pytest.mark.timeout(3600)
def test_changed_links_and_names_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record
) -> None:
    files = files_of(
        tmp_path,
        ".txt",
        "base_model=small&method=lora&gpu=RTX 4090&per_device_train_batch_size=16&lora_r=8&optim=adafactor",
        "base_model=~/models/x&use=transcribe&engine=faster-whisper&gpu=24 GiB&num_beams=5&label_length=20",
    )
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=None)

    def read(path: Path) -> None:
        query = dict(parse_qsl(text_of(path)))
        linked_values(query)
        card(query.get("gpu", ""))
        registry.get(query.get("base_model", ""))

    tried(files, read, record_property, chance, TRIES)


@pytest.mark.timeout(3600)
def test_changed_results_are_gone_on_with_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record
) -> None:
    rows = [{"audio_path": "a.wav", "text": "one", "model": "demo"}, {"audio_path": "b.wav", "error": "none"}]
    files = files_of(tmp_path, ".json", json.dumps(rows))
    sounds = [Path("a.wav"), Path("b.wav")]

    def read(path: Path) -> None:
        found = ResultsFile(path, sounds, "demo", overwrite=False)
        assert len(found.rows) + len(found.todo) == len(sounds)

    tried(files, read, record_property, chance, TRIES)


MINE = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "model.json",
    "model.safetensors",
)


def make_mine(folder: Path) -> Path:
    """A Whisper with everything that is read of one."""
    make_whisper(folder, card={"schema_version": 1, "title": "Mine"})
    (folder / "generation_config.json").write_text('{"is_multilingual": true}', "utf-8")
    return folder


def make_tuned(folder: Path) -> Path:
    """An adapter of the demo."""
    return make_adapter(folder, "demo")


MODEL_FILES = [
    *((make_mine, name) for name in MINE),
    *((make_tuned, name) for name in ("adapter_config.json", "adapter_model.safetensors")),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("make", "name"), MODEL_FILES)
def test_models_with_a_changed_file_are_listed_with_what_is_wrong(
    tmp_path: Path, chance: random.Random, record_property: Record, make: Callable[[Path], Path], name: str
) -> None:
    folder = make(tmp_path / "models" / "mine")
    original = tmp_path / name
    shutil.copy(folder / name, original)
    registry = ModelRegistry(tmp_path / "models", demo=make_whisper(tmp_path / "demo"), hf_cache=None)

    def listed(path: Path) -> None:
        shutil.copy(path, folder / name)
        (mine,) = [spec for spec in registry.all() if spec.id == "mine"]
        model_details(mine, "en")
        if mine.problem is not None:
            raise ModelError("{problem}", problem=mine.problem)

    tried([original], listed, record_property, chance, TRIES // 2)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["config.json", "run.json", "result.json", "process.json", "events.jsonl"])
def test_runs_with_a_changed_file_are_listed(
    tmp_path: Path, chance: random.Random, record_property: Record, name: str
) -> None:
    (old,) = HOMES.iterdir()
    shutil.copytree(old, tmp_path / "home")
    (run,) = [path.parent for path in (tmp_path / "home" / "runs").glob("*/result.json")][:1]
    original = tmp_path / name
    shutil.copy(run / name, original)

    def listed(path: Path) -> None:
        shutil.copy(path, run / name)
        status = view(RunDir(run), Histories().read(run / "events.jsonl"))
        json.dumps(as_dict(status, RunDir(run)))
        run_status(status, "zh-CN")

    tried([original], listed, record_property, chance, TRIES // 2)
