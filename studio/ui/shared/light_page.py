"""The page's HTML without what no browser reads.

Gradio writes the whole description of the page into it, for everybody who may come: of each component what
programs have to know, three times over, of each event every setting that it does not use, and the texts in
all languages. That is more than what the page is made of, and all of it is read before anything is drawn.
Programs ask `/config` and `/info`, which stay whole. What is left is told, byte by byte, in
`tests/benchmarks/reports/page_weight.md`.
"""

import inspect
import json
import re
from collections.abc import Container
from pathlib import Path
from typing import Any

import gradio as gr

_BEGIN = "<script>window.gradio_config = "
_BETWEEN = ";</script><script>window.gradio_api_info = "
_END = ";</script>"
_NO_INFO: dict[str, Any] = {"named_endpoints": {}, "unnamed_endpoints": {}}
"""The page asks by number; without this, its script would fetch what is there for programs."""
_OF_COMPONENTS = (
    *("api_info", "api_info_as_input", "api_info_as_output", "example_inputs", "skip_api"),
    "component_class_id",  # finds what is none of Gradio's own
)
_OF_PROPERTIES = ("preserved_by_key", "delete_callback", "_api_info")
_AS_IN_THE_BROWSER = {
    "html_template": "${value}",
    "css_template": "",
    "apply_default_css": True,
    "component_class_name": "HTML",
    "js_on_load": inspect.signature(gr.HTML)
    .parameters["js_on_load"]
    .default,  # unless one listens to its click
}
"""Properties of a piece of HTML, with the values that the browser takes without being told."""
_OF_EVENTS = (
    *("api_description", "batch", "collects_event_data", "max_batch_size"),
    *("scroll_to_output", "stream_every"),
)
_OF_EVENTS_UNLESS_USED = (
    *("component_prop_inputs", "event_specific_args", "js", "js_implementation", "render_id", "rendered_in"),
    *("show_progress_on", "time_limit", "trigger_only_on_failure", "trigger_only_on_success"),
)
_MARKED = re.compile(r'__i18n__\{\\"__type__\\": \\"translation_metadata\\", \\"key\\": \\"(\w+)\\"\}')
"""A text that the browser is to put in, as it stands in a string of JSON."""
_REMARK = re.compile(r"(^|\s+)// .*")
"""To the end of a line of a script; no text of the studio's scripts has two slashes between blanks."""
_GOES_ON = re.compile(r"(?<=[;{(,])\n")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MEANS_NOTHING = re.compile(r'("[^"]*")|\s*([{};,])\s*|(:)\s+')
"""In a style sheet: space around what separates, but not in a text; nor before a colon, where it selects."""
_SPELT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
"""Of what could end a script."""


def script(path: Path) -> str:
    """A script of the studio without indentation and comments."""
    return bare(path.read_text(encoding="utf-8"))


def bare(code: str) -> str:
    """A script without indentation, comments, and the ends of lines at which it goes on."""
    lines = "\n".join(filter(None, (_REMARK.sub("", line).strip() for line in code.splitlines())))
    return _GOES_ON.sub("", lines)


def style_sheet(path: Path) -> str:
    """A style sheet of the studio without comments, and without the space that means nothing."""
    plain = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    return _MEANS_NOTHING.sub(lambda found: found[1] or found[2] or found[3], plain).strip()


def lightened(page: bytes, locale: str) -> bytes:
    """The page in one language; one that is not built as expected is left as it is."""
    text = page.decode()
    begin, between = text.find(_BEGIN), text.find(_BETWEEN)
    end = text.find(_END, between + len(_BETWEEN))
    if -1 in (begin, between, end):
        return page
    config = json.loads(text[begin + len(_BEGIN) : between])
    texts = (config["i18n_translations"] or {}).get(locale)
    if texts is None:
        return page
    clicked = {at for one in config["dependencies"] for at, event in one["targets"] if event == "click"}
    light = {
        **config,
        "components": [_light_component(one, clicked) for one in config["components"]],
        "dependencies": [_light_event(one) for one in config["dependencies"]],
        "i18n_translations": {locale: texts},  # for answers that name a text by its key
    }
    del light["layout"]  # that of the first of its pages, each of which has its own
    described = _MARKED.sub(lambda found: _written(texts[found[1]])[1:-1], _written(light)).translate(_SPELT)
    return "".join([text[:begin], _BEGIN, described, _BETWEEN, json.dumps(_NO_INFO), text[end:]]).encode()


def _light_component(one: dict[str, Any], clicked: Container[int]) -> dict[str, Any]:
    left_out = (*_OF_COMPONENTS, *(["key"] if one["key"] is None else []))
    unread = (*_OF_PROPERTIES, *(["name"] if one["type"] != "tabs" else []))  # of those there are two kinds
    properties = {
        name: value
        for name, value in one["props"].items()
        if name not in unread and (name, value) != ("_selectable", False)
    }
    if one["type"] == "html":
        usual = {**_AS_IN_THE_BROWSER, **({"js_on_load": None} if one["id"] in clicked else {})}
        properties = {name: value for name, value in properties.items() if usual.get(name) != value}
    return {**{name: value for name, value in one.items() if name not in left_out}, "props": properties}


def _light_event(one: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in one.items()
        if name not in _OF_EVENTS
        and (value or name not in _OF_EVENTS_UNLESS_USED)
        and (name, value) != ("connection", "sse")  # only "stream" is asked for
    }


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
