"""Tables whose rows can be chosen: HTML with buttons, and the event they fire."""

from typing import Any

import gradio as gr

from studio.ui.shared.light_page import bare

_ON_LOAD = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-pick]');
  if (!button) return;
  window.picked = button.dataset.pick;
  trigger('pick', {id: window.picked});
});
"""


def picking_table(**options: Any) -> gr.HTML:
    """An HTML component; a click on an element with `data-pick` fires its event `pick`.

    In the browser, `window.picked` is what was clicked last.
    """
    return gr.HTML(js_on_load=bare(_ON_LOAD), **options)


def picked_id(event: gr.EventData) -> str:
    """The `data-pick` of what was clicked."""
    data = event._data
    return str(data.get("id", "")) if isinstance(data, dict) else ""
