"""Long work in a thread, its progress in a generator."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from studio.errors import AudioError, ConfigError
from studio.messages import Message
from studio.reports.markup import Html
from studio.serving.waiting import MOST_OF_A_VISITOR, Line
from studio.serving.work import Worked
from studio.ui.shared.tasks import Pace, Stops, Task, Tasks, paced_bar, tells_steps
from tests.event_loop import run_in_loop


async def reports_of(running: Worked[Any, Any]) -> list[Any]:
    return [report async for report in running if report is not None]


def test_reports_come_in_order_and_the_result_at_the_end() -> None:
    turn = threading.Semaphore(0)

    def work(report: "object") -> str:
        for number in range(3):
            report(number)  # type: ignore[operator]
            turn.acquire()
        return "done"

    async def watch() -> list[int | None]:
        seen = []
        async for number in running:
            if number is not None:
                seen.append(number)
                turn.release()
        return seen

    running: Worked[int, str] = Worked(work)
    assert run_in_loop(watch()) == [0, 1, 2] and running.result == "done"


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
    seen = run_in_loop(reports_of(running))
    assert len(seen) <= 1000 and seen == sorted(seen)


def test_an_error_of_the_work_is_raised_where_the_result_is_read() -> None:
    def work(report: object) -> None:
        raise AudioError("{path} is an empty file.", path="a.wav")

    running: Worked[object, None] = Worked(work)
    assert run_in_loop(reports_of(running)) == []
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


class Visit:
    """A request of Gradio's, as far as tasks look at it."""

    def __init__(self, name: str, address: str = "") -> None:
        self.session_hash = name
        self.headers = {"x-forwarded-for": address} if address else {}
        self.client = None


STAYS = gr.skip()


def task(work: Any, **more: Any) -> Task[int, str]:
    return Task(
        work=work,
        begun=Html("begun"),
        show=lambda report: None if report is None else [Html(f"at {report}"), "half"],
        finish=lambda result, was_stopped: [f"{result}, {was_stopped}", "whole"],
        others=1,
        **more,
    )


def test_a_task_shows_how_far_it_is_and_what_came_of_it() -> None:
    go_on = threading.Event()

    def work(report: Any, _should_stop: Any) -> str:
        report(1)
        go_on.wait(60)
        return "done"

    async def visit() -> list[list[Any]]:
        seen = []
        async for step in Tasks(Line(1)).run(task(work), Visit("me")):  # type: ignore[arg-type]
            seen.append(step)
            if step[0] == "at 1":
                go_on.set()
        return seen

    assert run_in_loop(visit()) == [["begun", STAYS], ["at 1", "half"], ["done, False", "whole"]]


def test_who_waits_is_told_so_and_may_cancel_before_it_begins() -> None:
    line = Line(1)
    tasks = Tasks(line)
    began = threading.Event()

    async def visit() -> list[list[Any]]:
        first = line.join()
        seen = []
        async for step in tasks.run(task(lambda _report, _stop: began.set()), Visit("me")):  # type: ignore[arg-type]
            seen.append(step)
            tasks.stops.cancel("me")
        first.leave()
        return seen

    waiting, cancelled = run_in_loop(visit())
    assert "One visitor is ahead of you" in waiting[0] and "Cancelled before it began." in cancelled[0]
    assert waiting[1:] == cancelled[1:] == [STAYS], "what was shown before is not taken away"
    assert not began.is_set() and len(line) == 0


def test_who_has_many_windows_at_work_waits_behind_the_others_and_may_not_have_all_too_many() -> None:
    line = Line(1)
    tasks = Tasks(line)
    served: list[str] = []

    async def visit(name: str, address: str) -> None:
        work = task(lambda _report, _stop: served.append(name))
        async for _step in tasks.run(work, Visit(name, address)):  # type: ignore[arg-type]
            pass

    async def day() -> None:
        first = line.join("somebody else")
        flood = [asyncio.create_task(visit(f"window {n}", "203.0.113.7")) for n in range(MOST_OF_A_VISITOR)]
        other = asyncio.create_task(visit("another", "203.0.113.8"))
        while len(line) < MOST_OF_A_VISITOR + 2:
            await asyncio.sleep(0)
        with pytest.raises(ConfigError, match="You have 60 requests waiting"):
            await visit("one more", "203.0.113.7")
        first.leave()
        await asyncio.gather(*flood, other)

    run_in_loop(day())
    assert served[:2] == ["window 0", "another"] and len(served) == MOST_OF_A_VISITOR + 1


@pytest.mark.parametrize("outlives", [False, True])
def test_a_visitor_who_leaves_ends_the_task_unless_it_is_for_later(outlives: bool) -> None:
    stopped, told, go_on = threading.Event(), threading.Event(), threading.Event()

    def work(report: Any, should_stop: Any) -> str:
        report(1)
        assert told.wait(60)
        if should_stop():
            stopped.set()
        go_on.set()
        return "done"

    async def visit() -> None:
        steps = Tasks(Line(1)).run(task(work, outlives=outlives), Visit("me"))  # type: ignore[arg-type]
        async for _step in steps:
            break
        await steps.aclose()
        told.set()

    run_in_loop(visit())
    assert go_on.wait(60) and stopped.is_set() is not outlives


def test_a_task_that_makes_an_export_tells_its_steps_and_ends_between_two_of_them() -> None:
    tasks = Tasks(Line(1))

    def work(report: Any, should_stop: Any) -> str:
        step = tells_steps(report, should_stop)
        step(Message("Converting …"), 0.5)
        tasks.stops.cancel("me")
        step(Message("Checking …"), 0.9)
        return "done"

    async def visit() -> list[list[Any]]:
        undone = task(work, undone="Cancelled: nothing was exported.")
        return [step async for step in tasks.run(undone, Visit("me"))]  # type: ignore[arg-type]

    *_steps, last = run_in_loop(visit())
    assert "Cancelled: nothing was exported." in last[0] and last[1:] == [STAYS]


def test_what_was_there_before_is_worth_more_than_half_of_the_new() -> None:
    tasks = Tasks(Line(1))

    def work(_report: Any, _should_stop: Any) -> str:
        tasks.stops.cancel("me")
        return "half"

    async def visit() -> list[list[Any]]:
        kept = task(work, back=lambda: ["before"])
        return [step async for step in tasks.run(kept, Visit("me"))]  # type: ignore[arg-type]

    assert "What is shown is from before." in run_in_loop(visit())[-1][0]
    assert run_in_loop(visit())[-1][1:] == ["before"]


def test_an_error_takes_nothing_away_and_names_an_upload_without_its_folder() -> None:
    def work(_report: Any, _should_stop: Any) -> str:
        raise AudioError("{path} is an empty file.", path=Path("/srv/uploads/1f3a/a.wav"))

    async def visit(**more: Any) -> list[list[Any]]:
        seen = []
        with pytest.raises(AudioError, match=r"^a\.wav is an empty file"):
            async for step in Tasks(Line(1)).run(  # type: ignore[arg-type]
                task(work, path=Path("/srv/uploads/1f3a/a.wav"), **more),
                Visit("me"),
            ):
                seen.append(step)
        return seen

    assert run_in_loop(visit()) == [["begun", STAYS]]
    *_steps, last = run_in_loop(visit(back=lambda: ["before"]))
    assert last == [STAYS, "before"], "the error will stand there: nobody has cancelled"


def test_nobody_knows_before_anything_is_done() -> None:
    assert Pace(0.0).left_seconds(60.0, 5.0) is None


def test_one_note_counts_from_the_beginning_and_two_leave_the_loading_out() -> None:
    pace = Pace(0.0)
    pace.note(30.0, 40.0)
    assert pace.left_seconds(90.0, 40.0) == 80.0
    pace.note(60.0, 50.0)
    assert pace.left_seconds(90.0, 50.0) == 10.0


def test_what_was_done_before_it_goes_on_is_no_pace() -> None:
    pace = Pace(0.0, done=60.0)
    pace.note(60.0, 5.0)
    assert pace.left_seconds(90.0, 5.0) is None, "a model is being loaded"
    pace.note(70.0, 10.0)
    assert pace.left_seconds(90.0, 10.0) == 10.0


def test_it_counts_down_between_two_notes_and_never_below_nothing() -> None:
    pace = Pace(0.0)
    pace.note(30.0, 10.0)
    assert pace.left_seconds(60.0, 14.0) == 6.0
    assert pace.left_seconds(60.0, 100.0) == 0.0
    assert "left" not in str(paced_bar("Transcribed", 30.0, 60.0, pace, "en")), "it takes longer than thought"


def test_what_went_by_in_no_time_says_nothing_about_the_rest() -> None:
    pace = Pace(0.0)
    pace.note(5.0, 2.0)
    pace.note(10.0, 2.1)  # a recording of silence
    assert pace.left_seconds(100.0, 2.1) == pytest.approx(18.9)
