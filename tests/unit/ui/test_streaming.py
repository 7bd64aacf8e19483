"""Long work in a thread, its progress in a generator."""

import threading

import pytest

from studio.errors import AudioError
from studio.ui.streaming import Stops, Worked


def test_reports_come_in_order_and_the_result_at_the_end() -> None:
    turn = threading.Semaphore(0)

    def work(report: "object") -> str:
        for number in range(3):
            report(number)  # type: ignore[operator]
            turn.acquire()
        return "done"

    running: Worked[int, str] = Worked(work)
    seen = []
    for number in running:
        seen.append(number)
        turn.release()
    assert seen == [0, 1, 2] and running.result == "done"


def test_reports_that_come_too_fast_are_passed_over() -> None:
    def work(report: "object") -> None:
        for number in range(1000):
            report(number)  # type: ignore[operator]

    running: Worked[int, None] = Worked(work)
    seen = list(running)
    assert len(seen) <= 1000 and seen == sorted(seen)


def test_an_error_of_the_work_is_raised_where_the_result_is_read() -> None:
    def work(report: object) -> None:
        raise AudioError("{path} is an empty file.", path="a.wav")

    running: Worked[object, None] = Worked(work)
    assert list(running) == []
    with pytest.raises(AudioError, match=r"a\.wav is an empty file"):
        _ = running.result


def test_cancel_stops_the_work_of_its_visitor_alone() -> None:
    stops = Stops()
    mine, theirs = stops.begin("me"), stops.begin("them")
    stops.cancel("me")
    assert mine.is_set() and not theirs.is_set()


def test_a_new_start_stops_the_visitors_older_work() -> None:
    stops = Stops()
    older, newer = stops.begin("me"), stops.begin("me")
    assert older.is_set() and not newer.is_set()
    stops.end("me", older)
    stops.cancel("me")
    assert newer.is_set()
