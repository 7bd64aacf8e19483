"""A frozen encoder's states: computed once, kept on disk, and the same run as without them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from studio.options.training import TrainingConfig
from studio.training.plan import training_plan
from studio.training.record import evaluations
from studio.training.schedule import Schedule
from studio.training.short_audio import encoder_states
from studio.training.short_audio.encoder_states import EncoderStates, repeats_itself
from tests.unit.training.attempts import Runs, assert_same_weights, losses
from tests.unit.training.short_audio.test_audio_context import clip

FROZEN = {"method": "frozen_encoder", "learning_rate": 1e-3, "short_audio": "off"}
"""Only windows of 30 s come out the same in each epoch."""


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of this machine may have less free than is left to checkpoints."""
    monkeypatch.setattr(encoder_states, "_LEFT_FREE_BYTES", 0)


@pytest.mark.parametrize("loss_chunk_size", [256, 0])
def test_a_run_whose_states_are_kept_learns_the_same_to_the_last_bit_and_leaves_none(
    loss_chunk_size: int, runs: Runs
) -> None:
    kept, anew = (
        runs.finished(
            name, cache_encoder_states=is_kept, loss_chunk_size=loss_chunk_size, max_train_samples=8, **FROZEN
        )
        for name, is_kept in (("kept", True), ("anew", False))
    )
    assert losses(kept) == losses(anew) and len(losses(kept)) > 1
    assert evaluations(kept) == evaluations(anew)
    last = max(path.name for path in kept.checkpoints.glob("checkpoint-*"))
    assert_same_weights(kept.checkpoints / last, anew.checkpoints / last)
    assert not kept.cache.exists()


def test_a_stopped_run_keeps_its_states_and_a_resumed_one_takes_them(runs: Runs) -> None:
    run = runs.new(**FROZEN)
    assert runs.carry_out(run, stop_at=3).state == "stopped"
    files = sorted(run.cache.rglob("*.safetensors"))
    written = [file.stat().st_mtime_ns for file in files]
    assert len(files) == 11, "each clip to learn from once; none was evaluated yet"
    assert runs.carry_out(run, stop_at=4).state in ("stopped", "finished")
    there = [file for file in files if file.exists()]
    assert [file.stat().st_mtime_ns for file in there] == written[: len(there)]


def test_states_of_other_weights_or_of_another_part_of_a_file_are_others(
    micro_model: Path, tmp_path: Path
) -> None:
    states = EncoderStates(tmp_path, micro_model, "fp32")
    first, second = clip(1, 2.0), clip(2, 2.0)
    rows = torch.randn(2, 3, 4)
    states.keep((first, second), rows)
    found = states((second, first))
    assert found is not None and torch.equal(found, rows.flip(0))
    assert states((first, clip(3, 2.0))) is None
    assert EncoderStates(tmp_path, micro_model, "bf16")((first,)) is None
    assert not list(tmp_path.rglob("*.[0-9]*")), "nothing half written"


def test_a_disk_that_is_nearly_full_keeps_its_room_for_checkpoints(
    micro_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_states, "_LEFT_FREE_BYTES", 2**62)
    states = EncoderStates(tmp_path, micro_model, "fp32")
    states.keep((clip(1, 2.0),), torch.ones(1, 9, 4))
    assert states((clip(1, 2.0),)) is None and not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", [0, 100, 150])
def test_states_that_were_cut_short_are_computed_again(left: int, micro_model: Path, tmp_path: Path) -> None:
    states, first = EncoderStates(tmp_path, micro_model, "fp32"), clip(1, 2.0)
    for _attempt in range(2):
        states.keep((first,), torch.ones(1, 9, 4))
        assert states((first,)) is not None
        (file,) = tmp_path.rglob("*.safetensors")
        file.write_bytes(file.read_bytes()[:left])
        assert states((first,)) is None and not file.exists()


@pytest.mark.parametrize(
    ("changes", "more", "wanted"),
    [
        ({}, {}, True),
        ({"method": "lora"}, {}, False),
        ({"cache_encoder_states": False}, {}, False),
        ({}, {"is_short": True}, False),
        ({"noise_prob": 0.5}, {}, False),
        ({"no_speech_share": 0.1}, {}, False),
    ],
)
def test_only_what_would_be_computed_again_is_kept(
    changes: dict[str, object], more: dict[str, bool], wanted: bool
) -> None:
    config = TrainingConfig(**{"method": "frozen_encoder", **changes})  # type: ignore[arg-type]
    options = {"is_short": False, **more}
    assert repeats_itself(config, Schedule(10, 20), **options) is wanted
    assert repeats_itself(config, Schedule(10, 10), **options) is False


@pytest.mark.parametrize(
    "changes",
    [{"num_train_epochs": 1.0}, {"apply_spec_augment": True}, {"noise_prob": 0.5}, {"no_speech_share": 0.1}],
)
def test_memory_is_planned_for_states_only_where_they_can_be_kept(changes: dict[str, Any]) -> None:
    config = TrainingConfig(method="frozen_encoder", num_train_epochs=3)
    assert training_plan(config, has_gpu=True).keeps_encoder_states
    assert not training_plan(replace(config, **changes), has_gpu=True).keeps_encoder_states
