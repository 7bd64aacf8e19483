"""Tells the visitor that a run has ended while they looked elsewhere: page title and notification.

The browser compares what it is shown with what it was shown before; the server remembers nothing.
"""

import gradio as gr

from studio.jobs.status import ACTIVE, RunStatus
from studio.ui.i18n import tr
from studio.ui.markup import Html, tag
from studio.ui.run_views import STATE_NAMES, error_change, run_title

_ON_LOAD = """
const plain = document.title;
let before = {};
const may = () => 'Notification' in window && Notification.permission === 'granted';
const look = () => {
  const now = element.querySelector('[data-run]');
  if (!now) return;
  const button = element.querySelector('[data-allow]');
  if (button) button.hidden = !('Notification' in window) || Notification.permission !== 'default';
  const {run, active, text} = now.dataset;
  if (before.run === run && before.active === 'yes' && active === 'no') {
    document.title = text;
    if (may() && document.hidden) new Notification(text);
  }
  before = {run, active};
};
new MutationObserver(look).observe(element, {childList: true, subtree: true});
look();
element.addEventListener('click', (event) => {
  if (event.target.closest('[data-allow]')) Notification.requestPermission().then(look);
});
const seen = () => { if (!document.hidden) document.title = plain; };
document.addEventListener('visibilitychange', seen);
document.addEventListener('pointerdown', seen);
"""


def run_notice() -> gr.HTML:
    """The component; show `notice_of` in it."""
    return gr.HTML(js_on_load=_ON_LOAD, elem_id="run-notice")


def notice_of(status: RunStatus | None, locale: str) -> Html:
    """What the browser watches, and the button that allows notifications while a run is at work."""
    if status is None:
        return Html("")
    is_active = status.state in ACTIVE
    said = " · ".join(
        filter(None, [tr(STATE_NAMES[status.state][0], locale), run_title(status), error_change(status)])
    )
    ask = tag(
        "button",
        tr("Tell me when it ends", locale),
        type="button",
        class_="link-button",
        data_allow=True,
        hidden=True,
    )
    watched = tag(
        "span", data_run=status.run_id, data_active="yes" if is_active else "no", data_text=said, hidden=True
    )
    return tag("div", watched, ask if is_active else None)
