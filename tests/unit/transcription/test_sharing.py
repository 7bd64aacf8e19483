"""Transcripts and runs on one machine. Whether it has a GPU is passed in: the rule needs none."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.options.choices import FASTER_WHISPER
from studio.registry.store import ModelRegistry
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.model_cache import ModelCache
from studio.transcription.sharing import Sharing, precision_on_cpu
from tests.unit.transcription.small_models import CountingLoader, Sample

TRANSCRIBES = """
import sys
from pathlib import Path
from studio.transcription.sharing import Sharing
with Sharing(Path(sys.argv[1]), lambda: None).under_way():
    print("under way", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that transcribes until its input is closed."""
    child = subprocess.Popen(
        [sys.executable, "-c", TRANSCRIBES, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert child.stdout and child.stdout.readline() == "under way\n"
    yield child
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            pipe.close()


def test_a_run_waits_for_a_transcript_of_another_process_and_not_for_ever(
    other: subprocess.Popen[str], tmp_path: Path
) -> None:
    sharing = Sharing(tmp_path, lambda: None)
    assert not sharing.wait_for_others(0.05)
    assert other.stdin
    waiting = threading.Thread(target=sharing.wait_for_others, args=(60.0,))
    waiting.start()
    other.stdin.close()
    waiting.join(60.0)
    assert not waiting.is_alive()
    assert sharing.wait_for_others(0.0) and list(tmp_path.iterdir()) == []


def test_nobody_waits_for_a_process_that_was_killed(other: subprocess.Popen[str], tmp_path: Path) -> None:
    other.kill()
    other.wait()
    assert list(tmp_path.iterdir()), "it had no time to clean up"
    assert Sharing(tmp_path, lambda: None).wait_for_others(0.0)


def test_a_run_does_not_wait_for_the_transcripts_of_its_own_process_twice(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path, lambda: None)
    with sharing.under_way(), sharing.under_way():
        assert sharing.wait_for_others(0.0)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("run", "has_gpu", "asked", "device", "told"),
    [
        (None, True, "auto", "auto", ""),
        (
            "mine",
            True,
            "auto",
            "cpu",
            "Run mine trains on the GPU: until it ends, recordings are transcribed",
        ),
        ("mine", True, "cuda", "cuda", "Run mine trains on this machine"),
        ("mine", False, "auto", "auto", "Run mine trains on this machine: both share its processor"),
    ],
)
def test_a_run_has_the_gpu_to_itself(
    tmp_path: Path, run: str | None, has_gpu: bool, asked: str, device: str, told: str
) -> None:
    sharing = Sharing(tmp_path, lambda: run, lambda: has_gpu)
    assert sharing.device(asked) == device
    assert str(sharing.notice(asked) or "").startswith(told)
    assert bool(sharing.notice(asked)) is bool(told)


def test_nothing_takes_the_gpu_between_its_being_freed_and_the_start_of_the_run(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path, lambda: None, lambda: True)
    assert sharing.device("auto") == "auto"
    sharing.give_way(60.0)
    assert sharing.device("auto") == "cpu"


def test_a_model_on_the_gpu_is_loaded_on_the_cpu_while_a_run_is_at_work(
    registry: ModelRegistry, tmp_path: Path, command: Sample
) -> None:
    real, places, at_work = CountingLoader(), [], [None, "mine", "mine", None]

    def load(folder: Path, engine: str, precision: str, device: str) -> LoadedBase:
        places.append(device)
        return real(folder)

    sharing = Sharing(tmp_path, lambda: at_work.pop(0), lambda: True)
    cache = ModelCache(registry, idle_seconds=300, load=load, sharing=sharing)
    texts = [cache.transcribe("demo", command.path, TranscribeOptions(language="en")).text for _ in range(4)]
    assert places == ["auto", "cpu"] and set(texts) == {command.text}
    cache.close()


def test_a_precision_that_a_cpu_lacks_becomes_the_nearest_that_it_has(registry: ModelRegistry) -> None:
    known = ("float32", "int8", "int8_float32")
    wanted = {"float16": "auto", "int8_float16": "int8", "int8_float32": "int8_float32", "auto": "auto"}
    for precision, found in wanted.items():
        assert precision_on_cpu(EngineChoice(FASTER_WHISPER).engine, precision, known) == found
    assert precision_on_cpu("transformers", "bfloat16", known) == "bfloat16"
