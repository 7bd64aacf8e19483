"""How long it will still take."""

import pytest

from studio.ui.shared.pace import Pace


def test_nobody_knows_before_anything_is_done() -> None:
    assert Pace(0.0).left_seconds(60.0, 5.0) is None


def test_one_note_counts_from_the_beginning_and_two_leave_the_loading_out() -> None:
    pace = Pace(0.0)
    pace.note(30.0, 40.0)
    assert pace.left_seconds(90.0, 40.0) == 80.0
    pace.note(60.0, 50.0)
    assert pace.left_seconds(90.0, 50.0) == 10.0


def test_it_counts_down_between_two_notes_and_never_below_nothing() -> None:
    pace = Pace(0.0)
    pace.note(30.0, 10.0)
    assert pace.left_seconds(60.0, 14.0) == 6.0
    assert pace.left_seconds(60.0, 100.0) == 0.0


def test_what_went_by_in_no_time_says_nothing_about_the_rest() -> None:
    pace = Pace(0.0)
    pace.note(5.0, 2.0)
    pace.note(10.0, 2.1)  # a recording of silence
    assert pace.left_seconds(100.0, 2.1) == pytest.approx(18.9)
