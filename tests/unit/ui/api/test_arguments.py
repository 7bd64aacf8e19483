"""What programs send: any JSON, and an answer or one sentence for each."""

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest

from studio.errors import ConfigError, StudioError
from studio.services import Services
from studio.settings import Settings
from studio.ui.api.arguments import checked, endpoints_of
from studio.ui.api.endpoints import Endpoints
from studio.ui.api.transcribe import transcribe_endpoint

ODD: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**400, float("nan"), float("inf"), "", "x", "\0", "\ud800", "7" * 5000),
    *([], [None], {}, {"a": {}}, [[[]]]),
]
MEASURES = {"trace", "probe", "doctor", "presets", "memory_claims", "models", "runs"}
"""Those that take long, and those that take nothing."""
USUAL = {
    "base_model": "demo",
    "model": "demo",
    "models": "demo",
    "config": {"base_model": "demo"},
    "train_data": "demo",
    "test_data": "nowhere.csv",
    "run_id": "none",
    "text": "out of memory",
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services.open(Settings(home=tmp_path_factory.mktemp("home")))
    yield made
    made.close()


def endpoints(services: Services) -> dict[str, Callable[..., Any]]:
    every = endpoints_of(Endpoints(services))
    return {endpoint.__name__: endpoint for endpoint in every}


def test_whatever_is_sent_is_answered_or_refused_with_a_sentence(services: Services) -> None:
    asked = 0
    for name, endpoint in endpoints(services).items():
        parameters = inspect.signature(endpoint).parameters
        for parameter in () if name in MEASURES else parameters:
            for odd in ODD:
                given = {key: USUAL[key] for key in parameters if key in USUAL} | {parameter: odd}
                try:
                    json.dumps(checked(endpoint)(**given))
                except StudioError as error:
                    assert str(error).strip(), (name, parameter, odd)
                asked += 1
    assert asked > 500


def test_a_recording_is_sent_with_options_of_their_kinds(services: Services) -> None:
    with gr.Blocks() as page:
        transcribe_endpoint(services)
    (event,) = page.fns.values()
    assert event.fn is not None
    _audio, *fields = event.inputs
    for place in range(len(fields)):
        for odd in (*ODD, 1e308):
            sent = [odd if at == place else field.value for at, field in enumerate(fields)]
            options = [field.preprocess(value) for field, value in zip(fields, sent, strict=True)]
            with pytest.raises(gr.Error) as caught:
                event.fn("gone.wav", *options, gr.Request())
            caught.value.message.encode()


def test_null_is_what_stands_unless_something_is_given() -> None:
    def endpoint(a: int, b: int = 3, c: dict[str, Any] | None = None) -> tuple[int, int, Any]:
        return a, b, c

    assert checked(endpoint)(2.0, None, None) == (2, 3, None)
    assert checked(endpoint)(a="2", c={"x": 1}) == (2, 3, {"x": 1})
    for wrong in ({"a": None}, {"a": 1.5}, {"a": True}, {"a": 1, "c": []}):
        with pytest.raises(ConfigError):
            checked(endpoint)(**wrong)  # type: ignore[arg-type]
