"""Long tasks behind a page: in turn, in a thread, with progress and the time left, until done or cancelled.

A section has its `Tasks`. Each start is a `Task`, whose steps are what the page shows: the place in the line,
that a run shares the machine, how far it is, and what came of it.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

import gradio as gr
from gradio.blocks import Block

from studio.errors import ConfigError, StudioError
from studio.messages import Message
from studio.reports.markup import Html, join
from studio.reports.pieces import note, progress_bar
from studio.serving.asgi import visitor_of
from studio.serving.waiting import MOST_OF_A_VISITOR, Line, too_many
from studio.serving.work import Report, Result, Worked, named
from studio.transcription.model_cache import ModelCache
from studio.translation import paragraph, said, tr
from studio.ui.shared.errors import FROM_BEFORE, told_in
from studio.ui.shared.i18n import request_locale
from studio.units import duration_message
from studio.watching import OnStep, ShouldStop, never

Shown = list[Any]
"""Values of a section's outputs; the first of them is its status."""


@dataclass(frozen=True)
class Task(Generic[Report, Result]):
    """What a visitor has started."""

    work: Callable[[Callable[[Report | "ExportStep"], None], ShouldStop], Result]
    """Runs in a thread; it reports how far it is, and ends soon after it should stop. Exports are told of by
    themselves (`tells_steps`)."""
    begun: Html
    """The status until the first report."""
    finish: Callable[[Result, bool], Shown]
    """What it shows at the end; the second argument tells whether it was cancelled."""
    show: Callable[[Report], Shown] | None = None
    """What the page shows after a report."""
    show_time: Callable[[], Shown | None] | None = None
    """What it shows each second in which no report came."""
    others: int = 0
    """Outputs behind the status. What they show stays until the task has something to show there, so what it
    shows may end before them: whatever is cancelled or fails takes nothing away."""
    filled: Sequence[Any] = ()
    """What they show once it has begun, if there is something."""
    back: Callable[[], Shown] | None = None
    """What they show once it is cancelled or has failed, if there is something from before: that is worth
    more than half of the new, so nothing is waited for. Without it, and with nothing from before, what is at
    hand is still finished and shown."""
    undone: str = ""
    """What is said if its work ends with `Cancelled`, and nothing came of it."""
    engines: ModelCache | None = None
    """Models that it listens with: they may share the machine with a run, which is told."""
    outlives: bool = False
    """Whether it goes on when its visitor leaves: what it makes is for later."""
    path: Path | None = None
    """An upload. It lies in a folder of the server, whose name says nothing to the visitor: errors speak of
    its name alone."""


class Tasks:
    """The long tasks of a section, one a visitor: a new start ends the one before."""

    def __init__(self, line: Line) -> None:
        """`line` is where those wait who come at once."""
        self.stops = Stops()
        self._line = line

    def handler(
        self, make: Callable[..., Task[Any, Any]], outputs: Sequence[Block], form: Mapping[str, Block]
    ) -> dict[str, Any]:
        """Function, inputs and outputs of a button's click: `make(request, **values)` gives the task of the
        form's values, and the first of the outputs is the status, where errors stand, too. Of these values
        `before` is what there is from an earlier time, if something is: it stays, unless the task says what
        else to show.
        """

        async def handle(request: gr.Request, **values: Any) -> AsyncIterator[Shown]:
            """Makes the task and shows its steps."""
            task = make(request, **values)
            if values.get("before") and task.back is None:
                task = replace(task, back=list)
            async with aclosing(self.run(task, request)) as steps:
                async for step in steps:
                    yield step

        return {**told_in(outputs[0], handle, outputs, form), "inputs_kwargs": form}

    async def run(self, task: Task[Report, Result], request: gr.Request) -> AsyncGenerator[Shown]:
        """What the page shows of a task, step by step. A visitor who leaves ends it, unless it outlives them.

        Raises: what its work raises.
        """
        visitor = str(request.session_hash)
        stopped = self.stops.begin(visitor)
        try:
            async with aclosing(self.turn(task, stopped.is_set, request)) as steps:
                async for step in steps:
                    yield step
        except StudioError as error:
            if task.back and (before := task.back()):
                yield [gr.skip(), *before]
            if task.path is None:
                raise
            raise named(error, task.path) from error
        finally:
            self.stops.end(visitor, stopped, is_over=not task.outlives)

    async def turn(
        self, task: Task[Report, Result], should_stop: ShouldStop, request: gr.Request
    ) -> AsyncGenerator[Shown]:
        """Waits in the line, then works; for those who see to `stops` themselves.

        Raises:
            ConfigError: if the visitor has too much waiting already, in other windows.
            Whatever its work raises.
        """
        locale, visitor = request_locale(request), visitor_of(request, request.session_hash)
        if (waiting := self._line.of_visitor(visitor)) >= MOST_OF_A_VISITOR:
            refusal = too_many(waiting)
            raise ConfigError(refusal.template, **refusal.values)
        place = self._line.join(visitor)
        work: Worked[Report | ExportStep, Result] = Worked(lambda report: task.work(report, should_stop))

        def whole(status: Any, *others: Any) -> Shown:
            """Values of all outputs: what is behind those that there are stays."""
            return [status, *others, *[gr.skip()] * (task.others - len(others))]

        try:
            async for before in place.wait():
                if should_stop():
                    break
                yield whole(waiting_note(before, locale))
            if should_stop():
                yield whole(note(tr("Cancelled before it began.", locale), "warning"))
                return
            # Before the page hears of it: bringing it the first line takes a while, in which work can go on.
            work.begin()
            told = await asyncio.to_thread(shared_note, task.engines, locale) if task.engines else Html("")
            yield whole(join([told, task.begun]), *task.filled)
            async for report in work:
                if should_stop() and task.back:
                    break
                if should_stop():
                    yield whole(note(tr("Cancelling …", locale)))
                elif shown := _shown(task, report, locale):
                    yield whole(join([told, shown[0]]), *shown[1:])
            if should_stop() and task.back:
                cancelled = paragraph([tr("Cancelled.", locale), tr(FROM_BEFORE, locale)], locale)
                yield whole(note(cancelled, "warning"), *task.back())
            else:
                yield whole(*task.finish(work.result, should_stop()))
        except Cancelled:
            yield whole(note(tr(task.undone, locale), "warning"))
        finally:
            place.leave()


# ---------------------------------------------------------------------- what is shown meanwhile


def _shown(task: Task[Report, Any], report: "Report | ExportStep | None", locale: str) -> Shown | None:
    """What a page shows after a report, or after a second without one; None: what it shows already."""
    if isinstance(report, ExportStep):
        return [progress_bar(report.share, said(report.doing, locale))]
    if report is None:
        return task.show_time() if task.show_time else None
    return task.show(report) if task.show else None


@dataclass(frozen=True)
class ExportStep:
    """How far an export is, which faster-whisper needs of a model that it has not played yet."""

    doing: Message
    share: float


class Cancelled(Exception):
    """Ends a work between two of its steps."""


def tells_steps(report: Callable[[Any], None], should_stop: ShouldStop = never) -> OnStep:
    """For work that makes exports: each of its steps is reported; one that is cancelled ends at the next with
    `Cancelled`.
    """

    def tell(doing: Message, share: float) -> None:
        """Before a step: what it does, and how far the work is."""
        if should_stop():
            raise Cancelled
        report(ExportStep(doing, share))

    return tell


def paced_bar(doing: str, done: float, total: float, pace: "Pace", locale: str) -> Html:
    """How far it is, and how long it will take as far as that is known."""
    left = pace.left_seconds(total, time.monotonic())
    amount = tr("about {left} left", locale, left=duration_message(left)) if left and left >= 1 else ""
    return progress_bar(done / total if total else 0.0, doing, amount)


def waiting_note(before: int, locale: str) -> Html:
    """What somebody reads whose turn has not come."""
    if before == 1:
        return note(tr("One visitor is ahead of you: you are next.", locale))
    return note(tr("{count} visitors are ahead of you.", locale, count=before))


def shared_note(engines: ModelCache, locale: str) -> Html:
    """What somebody reads whose model shares the machine with a run; nothing while no run is at work.

    Not for the event loop: whether there is a GPU is known once torch is there.
    """
    notice = engines.notice()
    return note(said(notice, locale), "warning") if notice else Html("")


_LEAST_SECONDS = 1.0
"""A pace is known once it was watched for so long: silence, say, is done with at once."""


class Pace:
    """How fast work of a known amount goes, and how long it will still take. Times are those of one clock,
    in seconds.
    """

    def __init__(self, began: float, done: float = 0.0) -> None:
        """`began` is when the work started, and `done` what of it lay behind then; loading a model is part of
        it and not of its pace.
        """
        self._began = began
        self._before = done
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def note(self, done: float, now: float) -> None:
        """`done` of the work lies behind at the time `now`."""
        self._first = self._first or (done, now)
        self._last = (done, now)

    def left_seconds(self, total: float, now: float) -> float | None:
        """Seconds until all of `total` is done, counting down between two notes; None while nobody knows."""
        if self._first is None or self._last is None:
            return None
        done, at = self._last
        amount, since = done - self._first[0], at - self._first[1]
        if amount <= 0 or since < _LEAST_SECONDS:  # counted from the beginning, which holds the loading, too
            amount, since = done - self._before, at - self._began
        if amount <= 0:
            return None
        return max(0.0, since / amount * (total - done) - (now - at))


# ---------------------------------------------------------------------- how it is stopped


class Stops:
    """One stop signal a visitor: a new start replaces the old one, Cancel sets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, threading.Event] = {}

    def begin(self, visitor: str) -> threading.Event:
        """A fresh signal; work that this visitor started before is asked to stop."""
        with self._lock:
            if visitor in self._events:
                self._events[visitor].set()
            event = self._events[visitor] = threading.Event()
        return event

    def end(self, visitor: str, event: threading.Event, *, is_over: bool = True) -> None:
        """Sets the signal if the work is over, and forgets it unless newer work has taken its place."""
        if is_over:
            event.set()
        with self._lock:
            if self._events.get(visitor) is event:
                del self._events[visitor]

    def cancel(self, visitor: str) -> bool:
        """Asks the visitor's work to stop; False if there is none."""
        with self._lock:
            event = self._events.get(visitor)
        if event is not None:
            event.set()
        return event is not None
