"""What a worker gets from the process that starts it."""

import pytest

from studio.jobs.process import environment
from studio.settings import Settings


def test_a_run_does_not_look_for_the_launcher_of_the_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchers = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "ACCELERATE_USE_FSDP",
    )
    for name in launchers:
        monkeypatch.setenv(name, "1")
    assert {*launchers} & environment(settings).keys() == set()
    monkeypatch.delenv("WORLD_SIZE")
    assert "MASTER_PORT" in environment(settings), "somebody has set it for a reason"
