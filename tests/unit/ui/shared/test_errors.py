"""Errors on the page: where they stand, what they leave alone, and how they speak."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from studio.errors import ConfigError
from studio.ui.shared.errors import shows_errors, told_in
from studio.ui.shared.i18n import _
from tests.event_loop import run_in_loop

STAYS = gr.skip()


class Visit(gr.Request):
    """A request in a language."""

    def __init__(self, locale: str = "en") -> None:
        self.headers = {"accept-language": locale}


@pytest.fixture
def page() -> tuple[gr.HTML, gr.Textbox, gr.Number]:
    with gr.Blocks():
        return gr.HTML(), gr.Textbox(), gr.Number(label=_("Epochs"))


def refuse(request: gr.Request) -> str:
    raise ConfigError("{name} is empty: give a number.", name="num_train_epochs")


def test_an_error_stands_in_its_place_and_is_gone_with_the_next_answer(page: Any) -> None:
    place, text, _epochs = page
    refused = told_in(place, refuse, [text])
    assert refused["outputs"] == [text, place]
    stays, told = refused["fn"](Visit())
    assert stays == STAYS and "num_train_epochs is empty: give a number." in told["value"]
    answered = told_in(place, lambda: "whole", [text])
    assert answered["fn"]() == ["whole", ""]


def test_an_error_says_that_what_stands_below_is_from_an_earlier_time(page: Any) -> None:
    place, text, epochs = page

    def refuse_again(request: gr.Request, before: str | None) -> str:
        return refuse(request)

    refused = told_in(place, refuse_again, [text], {"num_train_epochs": epochs})["fn"]
    *_, told = refused(Visit(), before="a transcript")
    assert told["value"].endswith("What is shown is from before.</div>")
    *_, told = refused(Visit(), before=None)
    assert "from before" not in told["value"]


def test_a_place_among_the_outputs_is_filled_by_the_handler_itself(page: Any) -> None:
    place, text, _epochs = page
    answered = told_in(place, lambda: ["status", "whole"], [place, text])
    assert answered["outputs"] == [place, text]
    assert answered["fn"]() == ["status", "whole"]
    told, stays = told_in(place, refuse, [place, text])["fn"](Visit())
    assert stays == STAYS and "note-bad" in told["value"]


@pytest.mark.parametrize(("locale", "said"), [("en", "Epochs is empty"), ("zh-CN", "轮数为空")])
def test_a_field_is_called_by_its_label(locale: str, said: str, page: Any) -> None:
    place, text, epochs = page
    told = told_in(place, refuse, [text], {"num_train_epochs": epochs})["fn"](Visit(locale))[-1]
    assert said in told["value"]


def test_what_is_said_cannot_become_markup(page: Any) -> None:
    def refuse_name(request: gr.Request) -> str:
        raise ConfigError("There is no {name}.", name="<img src=x onerror=alert(1)>")

    told = told_in(page[0], refuse_name)["fn"](Visit())
    assert "<img" not in told["value"] and "&lt;img" in told["value"]


@pytest.mark.parametrize("bug", [False, True])
def test_steps_that_end_in_an_error_say_so_and_nothing_is_under_way(bug: bool, page: Any) -> None:
    place, text, _epochs = page
    is_closed = []

    async def work(request: gr.Request) -> AsyncIterator[list[Any]]:
        try:
            yield ["at work", "half"]
            raise ZeroDivisionError if bug else ConfigError("There is no {name}.", name="room")
        finally:
            is_closed.append(True)

    async def visit() -> list[list[Any]]:
        seen: list[list[Any]] = []
        try:
            async for step in told_in(place, work, [place, text])["fn"](Visit()):
                seen.append(step)
        except ZeroDivisionError:
            assert bug
        return seen

    begun, ended = run_in_loop(visit())
    assert begun == ["at work", "half"] and ended[1] == STAYS and is_closed
    assert ended[0] == "" if bug else "There is no room." in ended[0]["value"]


def test_strangers_are_not_told_where_something_lies(
    page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse_path(request: gr.Request) -> str:
        raise ConfigError("{path} is not there.", path=tmp_path / "notes.jsonl")

    monkeypatch.setenv("SPACE_ID", "someone/space")
    told = told_in(page[0], refuse_path)["fn"](Visit())
    assert "notes.jsonl is not there" in told["value"] and str(tmp_path) not in told["value"]


def test_what_cannot_be_sent_is_said_escaped(page: Any) -> None:
    def refuse_name(request: gr.Request) -> str:
        raise ConfigError("There is no option --{name}.", name="\ud800")

    assert "--\\ud800." in told_in(page[0], refuse_name)["fn"](Visit())["value"]


def test_programs_get_an_error_of_gradios_own() -> None:
    with pytest.raises(gr.Error, match="num_train_epochs is empty"):
        shows_errors(refuse)(Visit())
