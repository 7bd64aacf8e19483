"""What one starts is brought into view, in a low window and on a telephone."""

import json
import re

from playwright.sync_api import Locator, expect

from studio.ui.build import SCRIPTS
from tests.browser.conftest import OpenPage, held, show_tab

LATER = """() => {
  const now = performance.now.bind(performance);
  performance.now = () => now() + 60_000;
}"""
LOOKED_FOR = """async () => {  // what never appears: how often looked for in a second, and how often unasked
  const find = document.getElementById.bind(document);
  let looks = 0, unasked = 0, changes = 0;
  const observer = new MutationObserver(() => { changes += 1; });
  observer.observe(document.body, {subtree: true, childList: true, attributes: true});
  document.getElementById = id => {
    if (id === 'data-preview') { looks += 1; unasked += !changes; changes = 0; }
    return find(id);
  };
  const button = Object.assign(document.createElement('button'), {id: 'data-check'});
  document.body.append(button);
  button.click();
  await new Promise(resolve => setTimeout(resolve, 1000));
  observer.disconnect();
  document.getElementById = find;
  button.remove();
  return [looks, unasked];
}"""
LOW, TELEPHONE = {"width": 1366, "height": 700}, {"width": 390, "height": 800}


def is_in_view(place: Locator) -> None:
    """Waits until the beginning of a place stands in the window."""
    place.page.wait_for_function(
        """place => {
          const {top, height} = place.getBoundingClientRect();
          return height && top > -1 && top < innerHeight;
        }""",
        arg=place.element_handle(),
    )


def test_on_a_telephone_a_page_glides_to_what_was_asked_for_and_stops_under_a_hand_as_in_a_low_window(
    open_page: OpenPage,
) -> None:
    page = open_page("train")
    page.set_viewport_size(TELEPHONE)
    page.mouse.move(4, 400)
    page.locator("#data-check").evaluate("one => { scrollTo({top: 0, behavior: 'instant'}); one.click(); }")
    page.wait_for_function("scrollY > 0")
    page.mouse.down()
    place = page.evaluate("() => scrollY")
    page.wait_for_timeout(200)  # on its way it would be far from there by then
    assert page.evaluate("() => scrollY") < place + 100
    page.mouse.up()
    expect(page.locator("#data-preview")).to_contain_text("112")

    # The run, the form that it fills and the question before it goes are each brought into view.
    with page.expect_response("**/queue/join*"):
        page.get_by_label("Name of the run").fill("seen")
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)  # or Start waits for what is held back below
    start = page.locator("#train-start")
    start.scroll_into_view_if_needed()
    status = page.locator("#run-status")
    let_go = held(page, "queue/join")
    start.click()
    is_in_view(status)  # still empty
    page.wait_for_function("scrollY + innerHeight > document.body.scrollHeight - 2")
    page.wait_for_timeout(600)  # it has come to rest, and was looked at once more
    page.evaluate(LATER)
    let_go()
    expect(status).to_contain_text("seen")
    expect(page.locator("#run-stop")).to_be_visible()
    is_in_view(status)
    page.locator("#run-stop").click()
    expect(page.locator("#run-remove")).to_be_visible()
    page.locator("#run-reuse").click()
    is_in_view(page.locator("#train-preset"))
    page.locator("#run-remove").click()
    is_in_view(page.locator("#run-remove-question"))
    page.locator("#run-remove-delete").click()
    expect(status).not_to_contain_text("seen")

    show_tab(page, "playground")
    page.get_by_role("button", name="Kitchen light", exact=True).click()
    page.locator("#transcribe-start").click()
    is_in_view(page.locator("#transcribe-status"))

    show_tab(page, "models")
    page.get_by_role("button", name="Whisper base (openai/whisper-base)").click()
    details = page.locator("#models-details")
    expect(details).to_contain_text("openai/whisper-base")
    is_in_view(details)

    page.set_viewport_size(LOW)
    show_tab(page, "memory")
    for start, shown in (("memory-trace", "memory-step"), ("memory-measure", "memory-measured")):
        button = page.locator(f"#{start}")
        button.evaluate("one => one.scrollIntoView({block: 'end', behavior: 'instant'})")
        let_go = held(page, "queue/join")
        button.click()
        page.wait_for_timeout(200)  # it is looked for by then, and a minute goes by
        page.evaluate(LATER)
        let_go()
        is_in_view(page.locator(f"#{shown}"))
    page.evaluate("document.getElementById('memory-measure-stop')?.click()")  # unless it has ended by itself
    expect(page.locator("#memory-measure-stop")).to_be_hidden()

    show_tab(page, "train")
    check = page.locator("#data-check")
    check.evaluate("one => one.scrollIntoView({block: 'end', behavior: 'instant'})")
    check.click()
    expect(page.locator("#data-preview")).to_contain_text("112")
    is_in_view(page.locator("#data-preview"))

    show_tab(page, "evaluate")
    looks, unasked = page.evaluate(LOOKED_FOR)  # only a while can tell that nothing happens
    assert looks and not unasked, "what never appears is looked for where the page changes, not by the clock"
    script = next(path for path in SCRIPTS if path.name == "in_view.js").read_text(encoding="utf-8")
    named = {word for pair in re.findall(r"'([a-z-]+)': '([a-z-]+)'", script) for word in pair}
    known = json.loads(
        page.evaluate("JSON.stringify(gradio_config.components.map(one => one.props.elem_id))")
    )
    assert named and named <= set(known), "all that is brought into view is on the page"
