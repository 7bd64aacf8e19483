"""Steps are counted as the trainer counts them."""

import math
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pytest

from studio.dataset.example import Example
from studio.options.training import TrainingConfig
from studio.training.data.clips import Clip
from studio.training.data.replay import Windows
from studio.training.schedule import Schedule, micro_batch_number, place_among_begun


@pytest.mark.parametrize(
    ("clips", "batch", "accumulated", "epochs", "per_epoch", "steps"),
    [
        (11, 4, 1, 2.0, 3, 6),
        (12, 4, 1, 2.0, 3, 6),
        (9, 2, 2, 2.0, 3, 6),
        (1, 8, 4, 3.0, 1, 3),
        (10, 1, 1, 0.25, 10, 3),
    ],
)
def test_steps_of_a_run(
    clips: int, batch: int, accumulated: int, epochs: float, per_epoch: int, steps: int
) -> None:
    config = TrainingConfig(
        per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated, num_train_epochs=epochs
    )
    assert Schedule.of(config, clips) == Schedule(per_epoch, steps)


def test_max_steps_wins_over_epochs() -> None:
    assert Schedule.of(TrainingConfig(max_steps=7, num_train_epochs=100.0), 50).max_steps == 7


def test_when_a_run_evaluates() -> None:
    schedule = Schedule(steps_per_epoch=3, max_steps=8)

    def steps(config: TrainingConfig) -> list[int]:
        found = [step for step in range(9) if schedule.evaluates_at(step, config)]
        assert schedule.evaluations(config) == (len(found) + 1 if found else 0), "and the base's"
        for step in range(9):
            assert schedule.evaluations_after(step, config) == sum(later > step for later in found)
        return found

    assert steps(TrainingConfig()) == [3, 6, 8]
    assert steps(TrainingConfig(eval_strategy="steps", eval_steps=4)) == [4, 8]
    assert steps(TrainingConfig(eval_strategy="steps", eval_steps=5)) == [5, 8]
    assert steps(TrainingConfig(eval_strategy="no")) == []
    assert steps(TrainingConfig(eval_delay=1.5)) == [6, 8]
    assert steps(TrainingConfig(eval_delay=9)) == [8]
    assert steps(TrainingConfig(eval_strategy="steps", eval_steps=2, eval_delay=4)) == [4, 6, 8]


@pytest.mark.parametrize(
    ("asked", "max_steps", "warmup", "is_said"),
    [(0.1, 100, 10, False), (0.1, 1, 0, False), (0.95, 10, 9, False), (9, 10, 9, False), (10, 10, 9, True)],
)
def test_some_step_has_the_whole_learning_rate(
    asked: float, max_steps: int, warmup: int, is_said: bool
) -> None:
    schedule, config = Schedule(10, max_steps), TrainingConfig(warmup_steps=asked)
    assert schedule.warmup(config) == warmup
    note = schedule.warmup_note(config)
    assert (note is not None) is is_said
    assert note is None or str(note).startswith("warmup_steps 10 leaves no step of 10 with the whole")
    assert schedule.warmup_note(replace(config, lr_scheduler_type="constant")) is None


@pytest.mark.parametrize(("batches", "accumulated"), [(10, 16), (5, 2), (4, 2), (3, 1)])
def test_micro_batches_are_numbered_without_a_gap_over_all_epochs(batches: int, accumulated: int) -> None:
    found, step = [], 0
    for _epoch in range(3):
        for first in range(0, batches, accumulated):
            places = range(min(accumulated, batches - first))
            found += [micro_batch_number(step, place, batches, accumulated) for place in places]
            step += 1
    assert found == list(range(3 * batches))


@pytest.mark.parametrize(("clips", "size"), [(10, 2), (10, 1), (9, 2), (12, 4)])
def test_smaller_micro_batches_have_the_windows_beside_them_that_whole_ones_had(
    clips: int, size: int
) -> None:
    begun, smaller = math.ceil(clips / 4), math.ceil(clips / size)
    places = [place_among_begun(number, smaller, begun, size, 4) for number in range(3 * smaller + 1)]
    label = Clip(Example(Path("x.wav"), "", None, None, None, None, 1.0, (), 1), "en", "transcribe", ())
    windows = Windows([replace(label, no_speech=number) for number in range(5)], 1.5, seed=3)
    parts = [windows.beside(begin, until=end) for begin, end in pairwise(places)]
    whole = [windows.beside(number) for number in range(3 * begun)]
    assert list(chain(*parts)) == list(chain(*whole))
    assert places[::smaller] == [epoch * begun for epoch in range(4)]
