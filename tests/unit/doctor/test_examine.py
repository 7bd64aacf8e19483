"""The doctor on machines of all kinds; what it cannot reach never holds it up."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import ctranslate2
import pytest

from studio.doctor.examine import (
    LibraryState,
    examine,
    examine_for_visitors,
    installed_versions,
    reaches_hub_soon,
    try_libraries,
)
from studio.doctor.gpu import GpuProcess, GpuState, gpu_states
from studio.doctor.report import Check, Health
from studio.doctor.trying import _ctranslate2
from studio.settings import Settings
from studio.transcription.devices import has_cublas
from studio.units import GIB

CARD = GpuState(0, "GeForce RTX 3060", 12 * GIB, 12 * GIB, "580.65", "13.0", ())
WORKS = LibraryState(
    audio="ok", sees_gpu=True, torch_cuda="13.0", has_bf16=True, bitsandbytes="ok", ctranslate2="ok"
)
NO_GPU = LibraryState(audio="ok")


def checks(
    settings: Settings,
    cards: list[GpuState] | None = None,
    libraries: LibraryState = NO_GPU,
    is_online: bool = True,
) -> dict[str, Check]:
    state = replace(libraries, gpus=tuple(cards or ()))
    report = examine(settings, libraries=lambda: state, hub=lambda: is_online)
    assert json.loads(json.dumps(report.to_json()))["has_problem"] == report.has_problem
    for check in report.checks:
        assert (check.advice is None) == (check.health is Health.OK), check
    return {str(check.name): check for check in report.checks}


def test_a_machine_with_a_free_card_is_well(settings: Settings) -> None:
    found = checks(settings, [CARD], WORKS)
    for name in (
        *("GPU 0", "torch and CUDA", "8 and 4 bits (bitsandbytes)", "faster-whisper on the GPU"),
        *("Reading audio", "Model hub"),
    ):
        assert found[name].health is Health.OK, found[name]
    assert "12.0 GiB of 12.0 GiB free; driver 580.65" in str(found["GPU 0"].finding)


def test_a_machine_without_a_card_works_and_is_told_so(settings: Settings) -> None:
    found = checks(settings, is_online=False)
    assert found["GPU"].health is found["Model hub"].health is Health.NOTE
    assert found["8 and 4 bits (bitsandbytes)"].health is Health.NOTE
    assert "on the processor" in str(found["torch and CUDA"].finding)
    assert "faster-whisper on the GPU" not in found


def test_who_holds_a_busy_card_is_named(settings: Settings) -> None:
    game = GpuProcess(4711, "game", 7 * GIB)
    found = checks(settings, [replace(CARD, free_bytes=5 * GIB, processes=(game,))], WORKS)
    assert found["GPU 0"].health is Health.NOTE
    assert "held by game 4711 (7.00 GiB)" in str(found["GPU 0"].finding)
    hidden = checks(settings, [replace(CARD, free_bytes=5 * GIB)], WORKS)
    assert "cannot be seen from here" in str(hidden["GPU 0"].finding)


@pytest.mark.parametrize(
    ("libraries", "finding", "advice"),
    [
        (LibraryState(stuck_at="torch", audio="ok"), "did not answer", "nvidia-smi"),
        (LibraryState(audio="ok", problem="libcudart.so not found"), "libcudart", "Install torch again"),
        (LibraryState(audio="ok"), "built without CUDA", "CUDA build of torch"),
        (
            LibraryState(audio="ok", torch_cuda="13.0"),
            "torch cannot use it",
            "driver to one that runs CUDA 13",
        ),
    ],
)
def test_a_card_that_torch_cannot_use_is_a_problem_with_a_way_out(
    settings: Settings, libraries: LibraryState, finding: str, advice: str
) -> None:
    check = checks(settings, [CARD], libraries)["torch and CUDA"]
    assert check.health is Health.PROBLEM
    assert finding in str(check.finding) and advice in str(check.advice)


def test_a_broken_bitsandbytes_is_a_problem(settings: Settings) -> None:
    broken = replace(WORKS, bitsandbytes="libbitsandbytes_cuda130.so: cannot open")
    check = checks(settings, [CARD], broken)["8 and 4 bits (bitsandbytes)"]
    assert check.health is Health.PROBLEM and "libbitsandbytes" in str(check.finding)


def test_this_machine_is_asked_in_a_process_of_its_own() -> None:
    state = try_libraries()
    assert (state.stuck_at, state.exit_code, state.problem, state.audio) == ("", None, "", "ok")
    assert len(state.gpus) == len(gpu_states())
    assert state.sees_gpu == bool(gpu_states()) or not state.torch_cuda
    assert all(installed_versions().values())


def test_a_process_that_hangs_is_left_behind() -> None:
    assert try_libraries(patience_seconds=0.001) == LibraryState(stuck_at="torch")


DIES_IN_AUDIO = """
import json, os
print(json.dumps({"trying": "gpus"})); print(json.dumps({"gpus": []}))
print(json.dumps({"trying": "audio"}), flush=True)
os.abort()
"""


def test_a_library_that_kills_is_named_and_what_was_found_before_is_kept(settings: Settings) -> None:
    state = try_libraries(module=("-c", DIES_IN_AUDIO))
    assert state.stuck_at == "audio" and state.exit_code not in (None, 0)
    found = checks(settings, None, state)
    assert found["Reading audio"].health is Health.PROBLEM
    assert f"exit code {state.exit_code}" in str(found["Reading audio"].finding)
    assert "not tried" in str(found["torch and CUDA"].finding)
    assert found["Disk"].finding and found["GPU"].health is Health.NOTE


def test_a_card_without_cublas_for_faster_whisper_is_a_note_with_the_command(settings: Settings) -> None:
    missing = replace(WORKS, ctranslate2="missing")
    check = checks(settings, [CARD], missing)["faster-whisper on the GPU"]
    assert check.health is Health.NOTE and "cuBLAS of CUDA 12 is missing" in str(check.finding)
    assert "pip install nvidia-cublas-cu12" in str(check.advice)
    broken = replace(WORKS, ctranslate2="No module named 'ctranslate2'")
    check = checks(settings, [CARD], broken)["faster-whisper on the GPU"]
    assert check.health is Health.PROBLEM and "requirements.txt" in str(check.advice)


def test_only_where_ctranslate2_sees_a_card_it_is_said_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apple's and AMD's accelerators have no use for cuBLAS."""
    assert _ctranslate2() == {}
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 1)
    has_cublas.cache_clear()
    assert _ctranslate2() == {"ctranslate2": "missing"}
    has_cublas.cache_clear()


@pytest.mark.parametrize(
    ("stuck_at", "name"),
    [
        ("gpus", "GPU"),
        ("torch", "torch and CUDA"),
        ("bitsandbytes", "8 and 4 bits (bitsandbytes)"),
        ("ctranslate2", "faster-whisper on the GPU"),
    ],
)
def test_each_thing_that_hangs_is_a_problem_of_its_own(settings: Settings, stuck_at: str, name: str) -> None:
    found = checks(settings, None, LibraryState(stuck_at=stuck_at))
    assert found[name].health is Health.PROBLEM and "in time" in str(found[name].finding)


def test_what_a_library_prints_between_is_passed_over() -> None:
    noise = "print('hello'); print('[1]'); print('{\"trying\": \"\"}'); print('{\"audio\": \"ok\"}')"
    assert try_libraries(module=("-c", noise)) == LibraryState(audio="ok")


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield listener.getsockname()[1]


def test_a_hub_that_says_nothing_counts_as_unreachable(deaf_port: int) -> None:
    assert not reaches_hub_soon(f"http://127.0.0.1:{deaf_port}", patience_seconds=0.3)
    assert not reaches_hub_soon("http://127.0.0.1:9", patience_seconds=2)
    assert not reaches_hub_soon("no address at all", patience_seconds=2)


def test_visitors_of_a_space_are_told_what_was_found_in_the_same_minute(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Settings] = []
    monkeypatch.setattr("studio.doctor.examine.examine", lambda its: looked.append(its) or len(looked))
    monkeypatch.setattr("studio.doctor.examine.time", SimpleNamespace(monotonic=lambda: 100.0))
    space = replace(settings, on_spaces=True, allow_training=False)
    assert [examine_for_visitors(space) for _ in range(3)] == [1, 1, 1]
    assert [examine_for_visitors(settings) for _ in range(2)] == [2, 3], "at home each press looks"
