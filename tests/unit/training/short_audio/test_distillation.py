"""Distillation for short audio: what the base reads, how it is learned, whole runs on audio without texts."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from studio.errors import ConfigError, ManifestError
from studio.files import append_json_line, read_json_lines
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training.adapters import Precision, load_training_base
from studio.training.after_check import MadeModel, measure_after
from studio.training.attempt import Attempt
from studio.training.events import EventLog
from studio.training.outcome import Outcome
from studio.training.record import evaluations
from studio.training.short_audio.distillation import Teacher, distillation_loss
from studio.training.stop import StopSignal
from tests.unit.training.attempts import Runs, assert_same_weights, losses, told


@pytest.fixture
def audio(demo_speech: Path, tmp_path: Path) -> Path:
    """A folder of sound files, and nothing else."""
    folder = tmp_path / "sounds"
    folder.mkdir()
    for name in sorted(path.name for path in (demo_speech / "audio").glob("test-*"))[:8]:
        shutil.copy(demo_speech / "audio" / name, folder / name)
    return folder


SHORT = {
    "distill": True,
    "language": "en",
    "generation_max_length": 40,
    "validation_share": 0.25,
    "per_device_train_batch_size": 2,
    "per_device_eval_batch_size": 4,
    "num_train_epochs": 1.0,
    "lora_dropout": 0.0,
}
"""Three steps of two clips."""


@pytest.fixture
def distilled(settings: Settings, demo_model: Path, audio: Path) -> Runs:
    """Runs of the demo model on sounds without texts; one thread adds up in one order."""
    return Runs(replace(settings, threads=1), demo_model, audio)


def test_a_folder_of_audio_makes_an_adapter_that_reads_short_and_is_measured_beside_its_base(
    distilled: Runs,
) -> None:
    run = distilled.new(**SHORT, eval_on_start=True)
    outcome = Outcome()
    work = Attempt(run, distilled.settings, StopSignal(run.stop_request), outcome)
    work.carry_out()
    assert outcome.state == "finished" and outcome.model_id
    assert set(evaluations(run)) == {0, 3}
    assert losses(run)[1] > 1e-4, "there is something to learn"
    assert not run.cache.exists(), "what was read is needed no more"
    made = MadeModel(
        work.registry,
        work.config,
        work.eval_examples,
        outcome,
        EventLog(run.events),
        work.stop,
        work.settings,
    )
    measure_after(made, threads=1)
    card = distilled.registry.get(outcome.model_id)
    assert card.audio_context == "short" and card.card["kind"] == "adapter"
    report = card.card["short_audio"]
    assert report == outcome.short_audio and report["clips"] == 2
    ways = [(row["is_base"], row["audio_context"]) for row in report["readings"]]
    assert ways == [(True, "full"), (True, "short"), (False, "short"), (False, "full")]
    assert report["readings"][0]["disagreement"] == 0.0
    assert all(row["error"] is None and row["seconds"] > 0 for row in report["readings"])


def test_the_base_is_asked_once_and_a_resumed_run_equals_an_unbroken_one(distilled: Runs) -> None:
    changes = {**SHORT, "padded_share": 0.3, "eval_strategy": "no"}
    unbroken, broken = distilled.finished("unbroken", **changes), distilled.new("broken", **changes)
    assert distilled.carry_out(broken, stop_at=2).state == "stopped"
    rows = read_json_lines(broken.cache / "readings.jsonl")[0]
    assert len(rows) == 8 and all(row["labels"] for row in rows)
    with (broken.cache / "states.f16").open("ab") as file:
        file.write(b"half a row")  # of a worker that was killed
    assert distilled.carry_out(broken).state == "finished"
    asked = [event["done"] for event in told(broken, "eval_progress")]
    assert asked.count(0) == 1, "the resumed run found all eight readings"
    assert_same_weights(unbroken.checkpoints / "checkpoint-3", broken.checkpoints / "checkpoint-3")


@pytest.mark.parametrize(("rows_missing", "known"), [(0, 2), (1, 0)])
def test_readings_whose_states_a_power_failure_took_are_read_again(
    rows_missing: int, known: int, micro_model: Path, tmp_path: Path
) -> None:
    decoder = load_training_base(micro_model, TrainingConfig(), Precision("fp32")).decoder
    row_bytes = 2 * decoder.model.config.d_model
    (tmp_path / "states.f16").write_bytes(bytes(row_bytes * (5 - rows_missing)))
    for name, labels, place in (("one", [1, 2, 3], 0), ("two", [1, 2], 3)):
        append_json_line(tmp_path / "readings.jsonl", {"clip": name, "labels": labels, "place": place})
    for _attempt in range(2):
        teacher = Teacher(tmp_path, decoder, lambda _clip: np.empty(0, np.float16))
        teacher._take_up()
        assert len(teacher._found) == known
        assert (tmp_path / "states.f16").stat().st_size == (row_bytes * 5 if known else 0)


def test_a_student_that_reads_padded_clips_has_nothing_to_learn(distilled: Runs) -> None:
    """Its states are then those that were kept of its teacher, up to their rounding."""
    once = {**SHORT, "max_steps": 1, "eval_strategy": "no", "max_train_samples": 2, "max_eval_samples": 1}
    assert losses(distilled.finished(**once, padded_share=1.0))[1] < 1e-4


def test_a_base_that_finds_no_end_has_nothing_to_teach(runs: Runs) -> None:
    with pytest.raises(ManifestError, match="ends in none of the clips"):
        runs.carry_out(runs.new(distill=True))


@pytest.mark.parametrize("chunk_size", [3, 0])
def test_the_loss_in_chunks_is_divergence_and_distance_of_the_known_tokens(chunk_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(2, 4, 8, generator=generator, requires_grad=True)
    taught = torch.randn(2, 4, 8, generator=generator)
    weight = torch.randn(11, 8, generator=generator)
    known = torch.tensor([[True, True, True, False], [True, True, False, False]])
    loss = distillation_loss(states, taught, weight, known, chunk_size)
    student, teacher = states[known], taught[known]
    given, wanted = ((rows @ weight.T).log_softmax(-1) for rows in (student, teacher))
    divergence = (wanted.exp() * (wanted - given)).sum() / len(student)
    distance = functional.mse_loss(student, teacher) / teacher.var()
    assert float(loss) == pytest.approx(float(divergence + distance), rel=1e-5)
    gradient = torch.autograd.grad(loss, states, retain_graph=True)[0]
    assert torch.allclose(gradient, torch.autograd.grad(divergence + distance, states)[0], atol=1e-6)
    assert not gradient[~known].any()
    assert float(distillation_loss(taught, taught, weight, known, chunk_size)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "full"}, "distill makes an adapter, got method full"),
        ({"speed_prob": 0.5}, "speed_prob 0.5 does not go with distill"),
        ({"adapter": "mine"}, "adapter mine does not go with distill"),
        ({"short_audio": "off"}, "distill is for short audio"),
        ({"num_processes": 2}, "distill runs in one process, got 2"),
    ],
)
def test_what_does_not_go_with_distillation_is_refused_in_a_sentence(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainingConfig(distill=True, **changes)  # type: ignore[arg-type]
