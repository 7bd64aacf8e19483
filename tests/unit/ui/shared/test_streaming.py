"""Long work in a thread, its progress in a generator."""

import asyncio
import threading

import pytest

from studio.errors import AudioError
from studio.ui.shared.streaming import Stops, Worked
from studio.ui.shared.waiting import Line
from tests.event_loop import run_in_loop


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


def test_work_may_begin_before_anybody_looks_and_nothing_it_said_is_lost() -> None:
    said, go_on = threading.Event(), threading.Event()

    def work(report: "object") -> str:
        report("first")  # type: ignore[operator]
        said.set()
        go_on.wait(60)
        return "done"

    async def watch() -> list[str | None]:
        running.begin()
        running.begin()
        assert said.wait(60)
        seen = []
        async for step in running:
            seen.append(step)
            go_on.set()
        return seen

    running: Worked[str, str] = Worked(work)
    assert run_in_loop(watch())[0] == "first" and running.result == "done"


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


def test_an_event_loop_hears_of_progress_and_of_time_that_passes() -> None:
    go_on = threading.Event()

    def work(report: "object") -> str:
        report("begun")  # type: ignore[operator]
        go_on.wait(20)
        return "done"

    async def watch() -> list[str | None]:
        seen = []
        async for step in running:
            seen.append(step)
            if step is None:
                go_on.set()
        return seen

    running: Worked[str, str] = Worked(work)
    assert run_in_loop(watch()) == ["begun", None] and running.result == "done"


def test_who_comes_first_is_served_first_and_each_knows_their_place() -> None:
    async def visit(line: Line, name: str, served: list[str], places: dict[str, list[int]]) -> None:
        place = line.join()
        try:
            places[name] = [before async for before in place.wait()]
            served.append(name)
            await asyncio.sleep(0)
        finally:
            place.leave()

    async def day() -> tuple[list[str], dict[str, list[int]], int]:
        line, served, places = Line(at_once=1), [], {}
        await asyncio.gather(*(visit(line, name, served, places) for name in "abcd"))
        return served, places, len(line)

    served, places, left = run_in_loop(day())
    assert served == list("abcd") and left == 0
    assert places == {"a": [], "b": [1], "c": [2, 1], "d": [3, 2, 1]}


def test_who_leaves_the_line_makes_room() -> None:
    async def day() -> list[int]:
        line = Line(at_once=1)
        line.join()
        impatient, patient = line.join(), line.join()
        waiting = patient.wait()
        seen = [await anext(waiting)]
        impatient.leave()
        seen.append(await anext(waiting))
        return seen

    assert run_in_loop(day()) == [2, 1]
