"""Visitors share the description of the page, and nothing of what they do with it."""

import gradio as gr
import pytest
from gradio.blocks import BlocksConfig
from gradio.state_holder import SessionState

from studio.ui.light_sessions import make_light


@pytest.fixture
def app() -> gr.Blocks:
    with gr.Blocks() as made:
        gr.Textbox("as it was", label="Name")
        gr.Dropdown(["a", "b"], label="Choice")
    return made


def described(app: gr.Blocks) -> dict[int, object]:
    return SessionState(app).config_values


def test_a_session_knows_the_same_of_the_page_as_before(app: gr.Blocks) -> None:
    before = described(app)
    make_light(app)
    assert described(app) == before and described(app) == before


def test_a_component_is_described_once_for_all_visitors(
    app: gr.Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_light(app)
    described(app)
    monkeypatch.setattr(BlocksConfig, "config_for_block", lambda *_: pytest.fail("described again"))
    described(app)


def test_what_one_visitor_changes_no_other_sees(app: gr.Blocks) -> None:
    make_light(app)
    name = next(at for at, block in app.blocks.items() if isinstance(block, gr.Textbox))
    one, other = SessionState(app), SessionState(app)
    one._update_value_in_config(name, "a secret")
    one[name] = gr.Textbox("a secret", label="Mine", render=False)
    one._update_config(name)
    assert one.config_values[name]["props"]["label"] == "Mine"
    for session in (other, SessionState(app)):
        assert session.config_values[name]["props"]["value"] == "as it was"
        assert session[name].label == "Name"
