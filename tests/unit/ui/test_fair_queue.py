"""The queue: who asks much waits behind those who ask little."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest

from studio.serving.asgi import visitor_of
from studio.serving.waiting import MOST_OF_A_VISITOR
from studio.ui import fair_queue
from studio.ui.fair_queue import make_fair


class Slow:
    """A page with one function that answers when it is let go on, one question after the other."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.goes_on = threading.Event()
        self.is_at_work = threading.Event()
        with gr.Blocks() as self.app:
            asked, shown = gr.Textbox(), gr.Textbox()
            asked.submit(self.answer, asked, shown, concurrency_limit=1)
        make_fair(self.app)
        self.app.launch(server_name="127.0.0.1", quiet=True, prevent_thread_lock=True)

    def answer(self, name: str) -> str:
        self.is_at_work.set()
        assert self.goes_on.wait(60)
        self.answered.append(name)
        return name

    def ask(self, name: str, visitor: str, **headers: str) -> httpx.Response:
        asked = {"data": [name], "fn_index": 0, "session_hash": visitor}
        place = f"{self.app.local_url}gradio_api/queue/join"
        return httpx.post(place, json=asked, headers=headers, timeout=60)


@pytest.fixture
def slow() -> Iterator[Slow]:
    page = Slow()
    yield page
    page.goes_on.set()
    page.app.close(verbose=False)


def test_a_visitor_who_floods_the_queue_waits_behind_everybody_else(slow: Slow) -> None:
    for number in range(20):
        assert slow.ask(f"flood {number}", "a").status_code == 200
    assert slow.is_at_work.wait(60)
    for visitor in ("b", "c"):
        for number in range(2):
            assert slow.ask(f"{visitor} {number}", visitor).status_code == 200
    slow.goes_on.set()
    deadline = time.monotonic() + 60
    while len(slow.answered) < 24 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert slow.answered[:7] == ["flood 0", "flood 1", "b 0", "c 0", "flood 2", "b 1", "c 1"]
    assert slow.answered[7:] == [f"flood {number}" for number in range(3, 20)]


@pytest.mark.parametrize("way", ["run/answer", "api/answer"])
def test_nobody_goes_around_the_queue(slow: Slow, way: str) -> None:
    slow.goes_on.set()
    refused = httpx.post(f"{slow.app.local_url}gradio_api/{way}", json={"data": ["first"]}, timeout=60)
    assert refused.status_code == 404 and "join the queue" in refused.text and slow.answered == []


def test_who_has_too_many_waiting_is_told_so_and_others_come_in(slow: Slow) -> None:
    assert slow.ask("first", "a").status_code == 200 and slow.is_at_work.wait(60)
    for number in range(MOST_OF_A_VISITOR):
        assert slow.ask(str(number), "a").status_code == 200
    refused = slow.ask("more", "a", **{"accept-language": "zh-TW"})
    assert refused.status_code == 503 and "個請求在等待" in refused.text
    assert slow.ask("other", "b").status_code == 200


def test_who_has_much_waiting_waits_until_there_is_memory_for_more(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "MOST_BYTES", 16_000)
    assert slow.ask("first", "a").status_code == 200 and slow.is_at_work.wait(60)
    assert slow.ask("x" * 3_000, "a").status_code == 200
    refused = slow.ask("more", "a")
    assert refused.status_code == 503 and "waiting" in refused.text
    for visitor in "bcdef":
        assert slow.ask("x" * 3_000, visitor).status_code == 200
    assert "busy: 6 requests of all visitors" in slow.ask("more", "g").text


def test_a_queue_that_is_full_takes_nobody_until_it_moves(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "MOST", 5)
    assert slow.ask("at work", "a").status_code == 200 and slow.is_at_work.wait(60)
    for visitor in "bcdef":
        assert slow.ask(visitor, visitor).status_code == 200
    refused = slow.ask("one more", "g")
    assert refused.status_code == 503 and "busy: 5 requests of all visitors" in refused.text
    slow.goes_on.set()
    while slow.ask("later", "g").status_code != 200:
        time.sleep(0.05)


def test_new_sessions_do_not_help_who_comes_through_a_proxy() -> None:
    asked = SimpleNamespace(headers={"x-forwarded-for": "203.0.113.7, 10.0.0.1"}, client=None)
    assert visitor_of(asked, "one") == visitor_of(asked, "two") == "203.0.113.7"
    assert visitor_of(None, "one") == "one"


def test_questions_are_not_counted_anew_after_each(slow: Slow) -> None:
    slow.goes_on.set()
    for number in range(3):
        assert slow.ask(f"{number}", "a").status_code == 200
    deadline = time.monotonic() + 60
    while len(slow.answered) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    queue = slow.app._queue
    assert queue.events_recorded == len(slow.answered) == 3
    assert queue.event_count_at_last_cache == 0, (
        "one line each: the third is asked when the second was counted"
    )
