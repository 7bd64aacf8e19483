"""What a browser is sent of the page."""

import json
from pathlib import Path

import gradio as gr
import pytest
from gradio.routes import toorjson

from studio.ui.build import STYLE_SHEET
from studio.ui.shared.i18n import _, page_translations
from studio.ui.shared.light_page import lightened, script, style_sheet

UNSAFE = "</script><script>alert('&')"


def _double(number: int) -> int:
    return 2 * number


@pytest.fixture
def page() -> bytes:
    """As Gradio's template writes it."""
    with gr.Blocks() as app:
        rate = gr.Number(1, label=_("Learning rate"), elem_id="rate")
        text = gr.Textbox(UNSAFE)
        rate.change(lambda value: value, rate, text)
        rate.submit(None, rate, text, js="(value) => value")
        gr.api(_double, api_name="double")
    config = {**app.get_config_file(), "i18n_translations": page_translations().translations_dict}
    return (
        f"<html><script>window.gradio_config = {toorjson(config)};</script><script>window.gradio_api_info = "
        f'{{"named_endpoints": {{"/one": 1}}}};</script></html>'
    ).encode()


def test_a_browser_gets_what_it_reads_in_one_language(page: bytes) -> None:
    light = lightened(page, "zh-TW").decode()
    assert len(light) < 0.6 * len(page) and "</script>" not in light.partition("</script>")[0]
    before, _rest = json.JSONDecoder().raw_decode(page.decode().partition("gradio_config = ")[2])
    after, _rest = json.JSONDecoder().raw_decode(light.partition("gradio_config = ")[2])
    (rate,) = (one for one in after["components"] if one["props"].get("elem_id") == "rate")
    assert rate["props"]["label"] == "學習率" and rate["type"] == "number"
    assert UNSAFE in [one["props"].get("value") for one in after["components"]]
    assert [*after["i18n_translations"]] == ["zh-TW"]
    assert '"_api_info"' in page.decode() and '"_api_info"' not in light
    assert after["page"] == before["page"]
    for one, whole in zip(after["dependencies"], before["dependencies"], strict=True):
        assert one.items() <= whole.items()
        assert one.get("js") == whole["js"] and one["inputs"] == whole["inputs"]


def test_html_without_a_script_of_its_own_is_sent_without_gradios() -> None:
    with gr.Blocks() as app:
        still, clicked = gr.HTML("a", elem_id="still"), gr.HTML("b", elem_id="clicked")
        gr.HTML("c", elem_id="own", js_on_load="element.title = 'c';", html_template="<p>${value}</p>")
        clicked.click(lambda: "d", None, still)
    config = {**app.get_config_file(), "i18n_translations": page_translations().translations_dict}
    page = (
        f"<script>window.gradio_config = {toorjson(config)};</script><script>window.gradio_api_info = "
        '{"named_endpoints": {}};</script>'
    )
    light = lightened(page.encode(), "en").decode()
    after, _rest = json.JSONDecoder().raw_decode(light.partition("gradio_config = ")[2])
    sent = {one["props"]["elem_id"]: one["props"] for one in after["components"] if one["type"] == "html"}
    assert "js_on_load" not in sent["still"] and "html_template" not in sent["still"]
    assert "trigger('click')" in sent["clicked"]["js_on_load"]
    assert sent["own"]["js_on_load"] == "element.title = 'c';"
    assert sent["own"]["html_template"] == "<p>${value}</p>"
    assert sent["still"]["value"] == "a"


def test_a_page_that_is_built_in_another_way_is_left_as_it_is(page: bytes) -> None:
    other = page.replace(b"gradio_api_info", b"gradio_info")
    assert lightened(other, "zh-TW") == other
    assert lightened(page, "klingon") == page


def test_scripts_come_without_what_is_for_their_readers(tmp_path: Path) -> None:
    path = tmp_path / "one.js"
    path.write_text(
        "// Says why.\n(() => {\n  const at = 'http://x';  // here\n\n  // more\n})();\n", "utf-8"
    )
    assert script(path) == "(() => {const at = 'http://x';})();"


def test_the_style_sheet_keeps_its_rules_and_loses_its_comments() -> None:
    whole, light = STYLE_SHEET.read_text("utf-8"), style_sheet(STYLE_SHEET)
    assert "/*" not in light and len(light) < 0.9 * len(whole)
    assert light.count("{") == light.count("}") == whole.count("{")
