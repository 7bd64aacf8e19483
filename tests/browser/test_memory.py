"""The memory tab in a real browser: from a question to a run in the Train tab, wide and narrow."""

import re
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import (
    OpenPage,
    assert_nothing_is_too_wide,
    held,
    press_and_read,
    show_tab,
    unfold,
)

ERROR = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "11.63 GiB of which 1.44 GiB is free. Process 4321 has 3.02 GiB memory in use. Including non-PyTorch "
    "memory, this process has 7.10 GiB memory in use. Of the allocated memory 6.50 GiB is allocated by "
    "PyTorch, and 210.00 MiB is reserved by PyTorch but unallocated."
)
GRADIO_LOOKS_MILLISECONDS = 2000
"""So often, when it has lost the studio."""
SECTIONS = ("estimate", "fit", "oom", "doctor")


def show_section(page: Page, name: str) -> None:
    """Opens a section by its place."""
    page.locator("#memory-sections > .tab-wrapper [role=tab]").nth(SECTIONS.index(name)).click()


def choose(page: Page, field: str, option: str) -> None:
    page.locator(f"#{field} input").click()
    page.get_by_role("option", name=option).first.click()


def test_a_stranger_learns_in_three_choices_how_to_tune_large_v3_on_a_3060_and_sends_a_link_to_it(
    open_page: OpenPage,
) -> None:
    """GPU, model, method and longest text are those of the other section. A link opens the page with the plan
    or the fit that somebody found, also when it is followed while a slow server calculates: the browser ends
    the page's connections at once, and Gradio would load it again."""
    page = open_page()
    expect(page.locator("#memory-chart figure")).to_be_visible()
    show_section(page, "fit")
    expect(page.locator("#fit-verdict")).to_contain_text("Fits")
    expect(page.locator("#fit-base_model input")).to_have_value(re.compile("Automatic"))
    choose(page, "fit-gpu", "GeForce RTX 3060")
    expect(page.locator("#fit-verdict")).to_contain_text("RTX 3060")
    show_section(page, "estimate")
    expect(page.locator("#memory-verdict")).to_contain_text("RTX 3060")
    expect(page.locator("#memory-method input")).to_have_value("LoRA (small adapter)")
    choose(page, "memory-method", "DoRA")
    page.locator("#memory-label_length input").fill("100")
    expect(page.locator("#memory-base_model input")).to_have_value(re.compile("^Whisper small "))
    let_go = held(page, "queue/join")  # whoever is quicker than the answers
    choose(page, "memory-base_model", "Whisper medium ")
    show_section(page, "fit")
    expect(page.locator("#fit-base_model input")).to_have_value(re.compile("^Whisper medium "))
    expect(page.locator("#fit-method input")).to_have_value(re.compile("^DoRA"))
    expect(page.locator("#fit-label_length input")).to_have_value("100")
    let_go()
    expect(page.locator("#fit-command textarea")).to_have_value(re.compile("openai/whisper-medium "))
    choose(page, "fit-base_model", "Automatic")
    page.locator("#fit-label_length input").fill("90")
    show_section(page, "estimate")
    expect(page.locator("#memory-label_length input")).to_have_value("90")
    expect(page.locator("#memory-base_model input")).to_have_value(re.compile("^Whisper medium "))
    show_section(page, "fit")
    expect(page.locator("#fit-base_model input")).to_have_value(re.compile("Automatic"))

    choose(page, "fit-base_model", "Whisper large-v3 ")
    choose(page, "fit-method", "LoRA (small adapter)")
    expect(page.locator("#fit-verdict")).to_contain_text("Fits on GeForce RTX 3060")
    expect(page.locator("#fit-ladder")).to_contain_text("Gradient checkpointing on")
    preset = page.locator("tr", has_text="large-v3 on a card with 12 GB")
    expect(preset.locator("td").nth(1)).to_have_text("Whisper large-v3")
    expect(page.locator("#fit-command textarea")).to_have_value(re.compile("--gradient_checkpointing"))
    assert_nothing_is_too_wide(page)
    page.locator("#fit-use").click()
    expect(page.locator("#train-base_model input")).to_have_value(re.compile("large-v3"))
    expect(page.locator("#train-per_device_train_batch_size input")).to_have_value("16")
    expect(page.locator("#train-train_data input")).to_have_value("demo")

    show_tab(page, "memory")
    show_section(page, "estimate")
    choose_label(page, "Method", "All weights")
    link = page.locator("#memory-link .plan-link")
    expect(link).to_have_attribute("href", re.compile("method=full"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press_and_read(link, "Copied")
    page.goto(str(page.evaluate("navigator.clipboard.readText()")))
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--method full"))
    expect(page.get_by_label("Method", exact=True).first).to_have_value("All weights")

    query = {"section": "fit", "memory_gib": 8, "base_model": "openai/whisper-large-v3", "hours": 5}
    let_go = held(page, "*section=fit")
    page.get_by_label("Gradient checkpointing", exact=True).first.check()
    page.evaluate("(there) => { setTimeout(() => { location.href = there; }); }", f"/?{urlencode(query)}")
    page.wait_for_timeout(3 * GRADIO_LOOKS_MILLISECONDS)  # it would have come back by then
    let_go()
    expect(page).to_have_url(re.compile("section=fit"))
    expect(page.locator("#fit-verdict")).to_contain_text("Fits on 8 GiB")
    expect(page.locator("#fit-verdict")).to_contain_text("Under 10 hours")
    link = page.locator("#fit-links .plan-link")
    expect(link).to_have_attribute("href", re.compile("section=fit.*memory_gib=8.*hours=5"))

    page.goto(f"{page.url.partition('?')[0]}?lora_r=0x10")
    expect(page.locator("#memory-refused")).to_contain_text("lora_r='0x10'")
    expect(page.get_by_test_id("toast-body")).to_have_count(0)


def test_a_telephone_keeps_the_verdict_in_sight_and_an_error_that_is_pasted_becomes_a_run_that_fits(
    open_page: OpenPage,
) -> None:
    """Between them: what Use in Train fills in is named, options that contradict each other are refused."""
    page = open_page(width=390)
    expect(page.locator("#memory-verdict")).to_contain_text("Fits")
    page.locator("#memory-per_device_train_batch_size").scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)
    expect(page.locator("#memory-verdict")).to_be_in_viewport(ratio=1)
    while_it_waits = "(one) => { one.ariaBusy = 'true'; return getComputedStyle(one).opacity; }"
    assert page.locator("#memory-verdict").evaluate(while_it_waits) == "1", "the form is not read through it"
    show_section(page, "fit")
    page.locator("#fit-label_length").scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)
    expect(page.locator("#fit-verdict")).to_contain_text("Fits")
    expect(page.locator("#fit-verdict")).to_be_in_viewport(ratio=1)
    expect(page.locator("#fit-more td[data-label=Question]").first).to_have_css("display", "block")

    show_section(page, "estimate")
    choose(page, "memory-base_model", "Whisper medium ")
    page.locator("#memory-per_device_train_batch_size input").fill("3")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("train_batch_size 3"))
    page.locator("#memory-to-train").click()
    expect(page.locator("#train-filled")).to_contain_text("Filled in from the plan: Base model, Batch size")
    marked = "element => getComputedStyle(element).borderLeftWidth"
    assert page.locator("#train-base_model").evaluate(marked) == "3px"
    assert page.locator("#train-train_data").evaluate(marked) != "3px"
    expect(page.locator("#train-plan")).not_to_contain_text("demo")
    show_tab(page, "memory")
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator("#memory-to-train").click()
    expect(page.locator("#train-filled")).to_contain_text("already has the settings")
    expect(page.locator("#train-filled")).to_be_in_viewport(ratio=0.9)

    show_tab(page, "memory")
    page.get_by_label("fp32", exact=True).first.check()
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--precision fp32"))
    unfold(page, "More options")
    choose(page, "memory-attn_implementation", "flash_attention_2")
    sentence = "Flash attention needs half precision: give precision bf16 or fp16, or sdpa."
    expect(page.locator("#memory-verdict")).to_contain_text(sentence)
    expect(page.locator("#memory-attn_implementation")).to_contain_text(sentence)
    expect(page.locator("#memory-to-train")).to_be_disabled()
    choose(page, "memory-attn_implementation", "eager")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--attn_implementation eager"))
    assert_nothing_is_too_wide(page)

    show_section(page, "oom")
    pasted, answer = page.locator("#oom-text textarea"), page.locator("#oom-answer")
    pasted.fill("<img src=x onerror=alert(1)> ${alert(2)}")
    expect(answer).to_contain_text("Nothing here says that memory ran out")
    pasted.fill("<img src=x onerror=alert(1)> CUDA error: out of memory ${alert(2)}")
    expect(answer).to_contain_text("onerror=alert(1)")
    pasted.fill("")
    expect(answer).to_have_text("")
    pasted.dispatch_event("paste")
    pasted.fill(ERROR)
    expect(answer).to_contain_text("1.44 GiB of its 11.6 GiB were free")
    expect(answer).to_be_in_viewport()
    expect(answer).to_contain_text("4321 (3.02 GiB)")
    expect(page.locator("#oom-use")).to_be_disabled()
    choose(page, "oom-base_model", "Whisper large-v3 ")
    expect(answer.locator("table")).to_contain_text("Gradient checkpointing on")
    assert_nothing_is_too_wide(page)
    shown_whole = "field => field.scrollWidth <= field.clientWidth"
    assert page.locator("#oom-method input").evaluate(shown_whole), "on a telephone, too"
    page.locator("#oom-use").click()
    expect(page.locator("#train-base_model input")).to_have_value(re.compile("large-v3"))
    expect(page.locator("#train-filled")).to_be_in_viewport(ratio=0.9)  # until then the page glides
    unfold(page, "Adapter, quantization and precision")
    expect(page.get_by_label("Gradient checkpointing", exact=True).last).to_be_checked()


def test_verdict_charts_cards_a_traced_step_and_parts_follow_the_form(open_page: OpenPage) -> None:
    page = open_page(width=390)
    page.get_by_label("Batch size").first.fill("16")
    batches, cards = page.locator("#memory-batches figure"), page.locator("#memory-cards summary")
    expect(batches).to_contain_text(re.compile(r"Largest batch that fits: \d"))
    sixteen = batches.locator("[data-said^='Batch size 16: ']")
    sixteen.hover()
    said = sixteen.evaluate("node => getComputedStyle(node, '::after').content")
    assert re.fullmatch(r'"Batch size 16: [\d.]+ GiB"', said)
    library = "performance.getEntriesByType('resource').filter((one) => one.name.includes('Plotly')).length"
    assert page.evaluate(library) == 0

    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("#memory-trace").click()
    expect(page.locator("#memory-step .js-plotly-plot")).to_be_visible()
    assert page.evaluate(library) > 0
    expect(page.locator("#memory-step-said")).to_contain_text("operation by operation")
    drawn, counted = batches.locator("b").inner_text(), cards.inner_text()
    checkpointing = page.get_by_label("Gradient checkpointing", exact=True).first
    checkpointing.check()
    expect(cards).not_to_have_text(counted)
    expect(batches.locator("b")).not_to_have_text(drawn)
    expect(page.locator("#memory-step-said")).to_be_hidden()
    checkpointing.uncheck()

    verdict = page.locator("#memory-verdict")
    expect(verdict).to_contain_text("Fits on GeForce RTX 4090")
    expect(page.locator("#memory-chart figure")).to_be_visible()
    use = page.get_by_role("button", name="Use in Train").first
    expect(use).to_have_class(re.compile("primary"))
    chart = page.locator("#memory-chart")
    place = whole_pixels(chart)
    choose_label(page, "Model", "Whisper large-v3 ")
    page.get_by_label("Batch size").first.fill("64")
    expect(verdict).to_contain_text("Does not fit on GeForce RTX 4090")
    expect(verdict).to_contain_text("a smaller batch, 4 bits for the base")
    assert whole_pixels(chart) == place, "nothing moves because something does not fit"
    expect(page.locator("#memory-lora_r")).to_be_visible()
    choose_label(page, "Method", "All weights")
    expect(verdict).to_contain_text("LoRA instead of all weights")
    expect(page.locator("#memory-lora_r")).to_be_hidden()
    expect(verdict).to_contain_text("Does not fit on GeForce RTX 4090")
    expect(use).to_have_class(re.compile("secondary"))
    command = page.locator("#memory-command textarea")
    expect(command).to_have_value(re.compile("--method full"))

    unfold(page, "More options")
    page.locator("#memory-num_gpus input[type=number]").fill("8")
    choose(page, "memory-sharding", "ZeRO-3: and weights")
    parts = page.locator("#memory-parts")
    expect(parts).to_contain_text("÷ 8 GPUs (ZeRO-3, Rajbhandari et al. 2020)")
    expect(parts).to_contain_text("Resuming")

    page.get_by_label("Transcribe with it").check()
    page.get_by_label("Batch size").first.fill("8")
    expect(verdict).to_contain_text("Fits on GeForce RTX 4090")
    expect(page.get_by_label("Method", exact=True)).to_be_hidden()
    for of_training in ("#memory-trace", "#memory-measure"):
        expect(page.locator(of_training)).to_be_hidden()
    page.get_by_label("8 bits").first.check()
    expect(parts).to_contain_text("parameters of linear layers in 8bit")
    expect(command).to_have_value(re.compile("--quantization 8bit"))
    page.get_by_label("None", exact=True).first.check()
    page.get_by_label("faster-whisper").check()
    page.get_by_label("int8", exact=True).check()
    expect(command).to_have_value(re.compile("--engine faster-whisper --precision int8"))
    expect(page.locator("#memory-to-train")).to_be_disabled()


def whole_pixels(place: Locator) -> list[int]:
    """x and y in the page, however far it is scrolled, width and height; a line of text may be a fraction of
    a pixel higher than another."""
    pixels: list[int] = place.evaluate(
        """one => {
          const {x, y, width, height} = one.getBoundingClientRect();
          return [x, y + scrollY, width, height].map(Math.round);
        }"""
    )
    return pixels


def choose_label(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).first.click()
    page.get_by_role("option", name=option).first.click()
