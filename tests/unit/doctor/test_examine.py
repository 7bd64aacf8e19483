"""The doctor on machines of all kinds; what it cannot reach never holds it up."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from studio.doctor.examine import examine, reaches_hub_soon
from studio.doctor.gpu import GpuProcess, GpuState, gpu_states
from studio.doctor.libraries import LibraryState, installed_versions, try_libraries
from studio.doctor.report import Check, Health
from studio.settings import Settings
from studio.units import GIB

CARD = GpuState(0, "GeForce RTX 3060", 12 * GIB, 12 * GIB, "580.65", "13.0", ())
WORKS = LibraryState(answered=True, sees_gpu=True, torch_cuda="13.0", has_bf16=True, bitsandbytes="ok")
NO_GPU = LibraryState(answered=True)


def checks(
    settings: Settings,
    cards: list[GpuState] | None = None,
    libraries: LibraryState = NO_GPU,
    is_online: bool = True,
) -> dict[str, Check]:
    report = examine(settings, gpus=lambda: cards or [], libraries=lambda: libraries, hub=lambda: is_online)
    assert json.loads(json.dumps(report.to_json()))["has_problem"] == report.has_problem
    for check in report.checks:
        assert (check.advice is None) == (check.health is Health.OK), check
    return {str(check.name): check for check in report.checks}


def test_a_machine_with_a_free_card_is_well(settings: Settings) -> None:
    found = checks(settings, [CARD], WORKS)
    for name in ("GPU 0", "torch and CUDA", "8 and 4 bits (bitsandbytes)", "Reading audio", "Model hub"):
        assert found[name].health is Health.OK, found[name]
    assert "12.0 GiB of 12.0 GiB free; driver 580.65" in str(found["GPU 0"].finding)


def test_a_machine_without_a_card_works_and_is_told_so(settings: Settings) -> None:
    found = checks(settings, is_online=False)
    assert found["GPU"].health is found["Model hub"].health is Health.NOTE
    assert found["8 and 4 bits (bitsandbytes)"].health is Health.NOTE
    assert "on the processor" in str(found["torch and CUDA"].finding)


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
        (LibraryState(answered=False), "did not answer", "nvidia-smi"),
        (LibraryState(answered=True, problem="libcudart.so not found"), "libcudart", "Install torch again"),
        (LibraryState(answered=True), "built without CUDA", "CUDA build of torch"),
        (
            LibraryState(answered=True, torch_cuda="13.0"),
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
    assert state.answered and not state.problem
    assert state.sees_gpu == bool(gpu_states()) or not state.torch_cuda
    assert all(installed_versions().values())


def test_a_process_that_hangs_is_left_behind() -> None:
    assert try_libraries(patience_seconds=0.001) == LibraryState(answered=False)


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
