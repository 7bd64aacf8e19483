"""What assistants read about the interface for programs."""

import inspect

from gradio.blocks import Block
from gradio.utils import get_function_description

from studio.services import Services
from studio.serving.waiting import AT_ONCE, Line
from studio.settings import Settings
from studio.transcription.engine import FIELDS
from studio.ui.api.mcp import ARGUMENTS, answer_in_json, explained
from studio.ui.build import build_app


def test_every_argument_is_explained_and_every_option_of_a_transcription_is_one_and_a_field_of_the_page(
    settings: Settings,
) -> None:
    app = build_app(Services.open(settings), Line(AT_ONCE))
    public = [fn.fn for fn in app.fns.values() if fn.api_visibility == "public" and fn.fn is not None]
    told = {}
    for function in public:
        description, arguments, _returns = get_function_description(function)
        assert description and "Args" not in description
        names = [name for name in inspect.signature(function).parameters if name != "request"]
        told |= {name: arguments[name] for name in names}
    assert told == {name: explained(name) for name in told} and all(told.values())
    assert set(ARGUMENTS) <= set(told), "studio/ui/api/mcp.py says what each argument is, and nothing else"
    options = {name for name, f in FIELDS.items() if f.metadata["label"]}
    fields = {each.elem_id for each in app.blocks.values() if isinstance(each, Block)}
    assert options <= set(told)
    assert {f"{form}-{name}" for form in ("transcribe", "many") for name in options} <= fields


class Server:
    """Stands where Gradio's server does: keeps what it is to write."""

    def __init__(self) -> None:
        self.written: list[object] = []

    def postprocess_output_data(self, data: list[object], _root_url: str) -> list[object]:
        self.written = data
        return data


def test_answers_are_json_and_files_stay_files() -> None:
    server = Server()
    answer_in_json(server)
    file = {"path": "/tmp/a.wav"}
    server.postprocess_output_data([{"fits": True, "name": "é"}, "text", file], "http://here")
    assert server.written == ['{"fits": true, "name": "é"}', "text", file]
