"""What commands answer machines with (`--json`), on input that never changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunStudio
from tests.golden.conftest import Golden, masked, shape

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of "
    "11.76 GiB of which 1.02 GiB is free. Of the allocated memory 9.91 GiB is allocated by PyTorch, and "
    "312.50 MiB is reserved by PyTorch but unallocated."
)
EXACT = {
    "estimate": "estimate --base_model small --gpu RTX-4090 --method dora --per_device_train_batch_size 4",
    "estimate_transcribe": "estimate --use transcribe --base_model large-v3 --gpu 8GiB --num_beams 5",
    "fit": "fit --base_model large-v3 --gpu RTX-3060 --hours 4",
    "fit_claims": "fit --claims",
    "models": "models list",
    "models_show": "models show demo",
    "record": "record list",
    "check_data": "check-data --train_data demo:validation",
    "print_command": "train --print_command",
    "transcribe": "transcribe SAMPLES/kitchen-light.flac --model demo --timestamps word",
}
SHAPES = {
    "evaluate": "evaluate --models demo --test_data demo:test --max_samples 3",
    "doctor": "doctor",
    "plan": "train --plan --train_data demo",
    "add_data": "add-data SAMPLES/../test.jsonl SAMPLES/../audio/test-000.ogg",
    "export": "export demo --quantization int8",
    "probe": "probe --base_model demo --per_device_train_batch_size 1",
}
"""What is answered of this machine, or of arithmetic that differs between machines in the last digit."""


def answer_of(run_studio: RunStudio, demo_speech: Path, words: str) -> Any:
    done = run_studio(*words.replace("SAMPLES", str(demo_speech / "samples")).split(), "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", EXACT)
def test_a_command_answers_what_it_answered_before(
    run_studio: RunStudio, demo_speech: Path, studio_home: Path, golden: Golden, name: str
) -> None:
    golden(f"json_{name}", masked(answer_of(run_studio, demo_speech, EXACT[name]), studio_home))


def test_an_error_is_explained_as_before(
    run_studio: RunStudio, demo_speech: Path, tmp_path: Path, golden: Golden
) -> None:
    error = tmp_path / "error.txt"
    error.write_text(OUT_OF_MEMORY, encoding="utf-8")
    words = f"explain-oom {error} --base_model small --per_device_train_batch_size 16"
    golden("json_explain-oom", masked(answer_of(run_studio, demo_speech, words), tmp_path))


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_command_measures_has_the_names_and_kinds_of_before(
    run_studio: RunStudio, demo_speech: Path, golden: Golden, name: str
) -> None:
    golden(f"json_{name}", shape(answer_of(run_studio, demo_speech, SHAPES[name])))
