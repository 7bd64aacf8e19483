"""Short-audio training: which batches are padded, their pieces, the order of clips, whole runs."""

from pathlib import Path

import pytest
import torch

from studio.dataset.example import Example
from studio.options.training import TrainingConfig
from studio.training.data.clips import Clip, TrainingData
from studio.training.record import evaluations
from studio.training.schedule import Schedule
from studio.training.short_audio.audio_context import (
    ClipsByLength,
    Paces,
    ShortAudio,
    is_short,
    padded,
    padded_batch_size,
)
from tests.micro import make_tones
from tests.unit.training.attempts import Runs, assert_same_weights, told


def clip(number: int, seconds: float) -> Clip:
    example = Example(Path(f"{number}.wav"), "text", "en", None, None, None, seconds, (), number)
    return Clip(example, "en", "transcribe", (1, 2, 3))


def data_of(*seconds: float) -> TrainingData:
    clips = tuple(clip(number, length) for number, length in enumerate(seconds))
    return TrainingData(clips, clips[:1], ())


@pytest.mark.parametrize(
    ("changes", "seconds", "steps", "wanted"),
    [
        ({}, 5.0, 56, True),
        ({}, 5.0, 28, False),
        ({}, 25.0, 1000, False),
        ({"method": "frozen_encoder"}, 5.0, 1000, False),
        ({"short_audio": "on"}, 25.0, 5, True),
        ({"short_audio": "off"}, 5.0, 1000, False),
    ],
)
def test_auto_looks_at_lengths_and_steps(
    changes: dict[str, str], seconds: float, steps: int, wanted: bool
) -> None:
    assert is_short(TrainingConfig(**changes), data_of(seconds, seconds), Schedule(10, steps)) is wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.1, 10), (0.25, 25), (1.0, 100)])
def test_every_tenth_batch_is_padded_or_whatever_was_asked_for(share: float, count: int) -> None:
    short = ShortAudio(share, 8)
    assert sum(map(short.is_padded, range(100))) == count


def test_a_padded_batch_takes_no_more_positions_at_once_than_a_short_one() -> None:
    assert padded_batch_size(8, 1500) == 8
    assert padded_batch_size(8, 512) == 2
    assert padded_batch_size(8, 32) == 1
    for positions in range(32, 1501, 32):
        size = padded_batch_size(8, positions)
        assert size == 1 or size * 1500 <= 8 * positions


def test_the_speedup_is_that_of_the_mix_against_padded_batches_alone() -> None:
    paces = Paces()
    paces.note(2.0, 8, is_padded=False)
    assert paces.speedup is None, "nothing to compare with yet"
    paces.note(8.0, 8, is_padded=True)
    assert paces.speedup == pytest.approx(1.0 / (10 / 16))


def test_pieces_of_a_padded_batch_add_up_to_it() -> None:
    features = torch.randn(5, 80, 200)
    labels = torch.full((5, 4), -100)
    for row in range(5):
        labels[row, : row % 4 + 1] = row
    pieces = ShortAudio(0.1, 2).pieces({"input_features": features, "labels": labels})
    assert [len(piece["labels"]) for piece, _ in pieces] == [2, 2, 1]
    assert float(sum(share for _, share in pieces)) == pytest.approx(1)
    whole = torch.cat([piece["input_features"] for piece, _ in pieces])
    assert whole.shape == (5, 80, 3000)
    assert torch.equal(whole[..., :200], features)
    assert (whole[..., 200:] == features[..., -1:]).all()
    assert torch.equal(padded(whole), whole)


def test_batches_are_of_like_lengths_in_an_order_of_seed_and_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    clips = [clip(i, 1 + 19 * float(torch.rand(1, generator=generator))) for i in range(203)]
    epoch = 0
    sampler = ClipsByLength(clips, 8, seed=7, epoch=lambda: epoch)
    before = torch.random.get_rng_state()
    first = list(sampler)
    assert torch.equal(before, torch.random.get_rng_state())
    assert sorted(first) == list(range(203)) and len(sampler) == 203
    assert list(sampler) == first == list(ClipsByLength(clips, 8, 7, lambda: 0))
    batches = [first[at : at + 8] for at in range(0, 203, 8)]
    longest = [max(clips[i].example.duration_seconds or 0 for i in batch) for batch in batches]
    mean = sum(8 * length for length in longest) / sum(c.example.duration_seconds or 0 for c in clips)
    assert mean < 1.2, "hardly any padding"
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)
    epoch = 1
    assert list(sampler) != first


def test_a_short_run_that_was_resumed_equals_an_unbroken_one(runs: Runs, tmp_path: Path) -> None:
    tones = make_tones(tmp_path / "tones", count=12, seconds=1.5)
    sizes = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2}
    changes = {"train_data": str(tones), "short_audio": "on", "padded_share": 0.3, **sizes}
    unbroken = runs.new("unbroken", **changes)
    outcome = runs.carry_out(unbroken)
    assert outcome.state == "finished"
    broken = runs.broken(2, 5, **changes)
    assert_same_weights(unbroken.checkpoints / "checkpoint-6", broken.checkpoints / "checkpoint-6")
    assert evaluations(unbroken) == evaluations(broken)
    last = told(unbroken, "step")[-1]
    assert last["speedup"] > 0 and last["data_wait_share"] is not None
    assert [plan["audio_context"] for plan in told(unbroken, "plan")] == ["short"]
    assert outcome.model_id and runs.registry.get(outcome.model_id).audio_context == "short"
    mean, longest = runs.registry.get(outcome.model_id).clip_seconds or (0.0, 0.0)
    assert 0 < mean <= longest < 30


def test_with_every_batch_padded_it_learns_what_the_plain_run_learns(runs: Runs) -> None:
    """Pieces of padded batches add up to the gradient of the whole batch."""
    same = {"max_train_samples": 4, "max_steps": 1, "lora_dropout": 0.0, "eval_strategy": "no"}
    whole = runs.finished("whole", short_audio="off", padded_share=0.0, **same)
    pieces = runs.finished("pieces", short_audio="on", padded_share=1.0, **same)
    steps = [told(run, "step")[0] for run in (whole, pieces)]
    first, second = ((step["loss"], step["grad_norm"]) for step in steps)
    assert first == pytest.approx(second, rel=1e-3)


def test_a_run_on_clips_as_they_are_says_that_its_model_sees_30_seconds(runs: Runs) -> None:
    outcome = runs.carry_out(runs.new(short_audio="auto", max_steps=1, eval_strategy="no"))
    assert outcome.model_id and runs.registry.get(outcome.model_id).audio_context == "full"
