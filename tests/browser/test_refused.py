"""What cannot be, on the page: it is said in its place, by the name of its field, and nothing is lost."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, show_tab, unfold
from tests.browser.test_memory import choose, show_section


def no_toast(page: Page) -> None:
    expect(page.get_by_test_id("toast-body")).to_have_count(0)


NUMBERS = (
    ("per_device_train_batch_size", "2.5", "must be a whole number, got 2.5"),
    ("per_device_train_batch_size", "999999", "must be between 1 and"),
    ("lora_r", "-3", "must be between 1 and"),
    ("label_length", "", "is empty: give a number"),
)


def test_what_cannot_be_is_refused_at_its_field_at_its_button_and_in_the_verdict_and_in_no_other_tab(
    open_page: OpenPage,
) -> None:
    """Without the answer before. A card may be a size; a fit says when nothing fits."""
    page = open_page()
    for field, given, said in NUMBERS:
        place = page.locator(f"#memory-{field}")
        label = place.locator("[data-testid=block-info]").inner_text().strip()
        place.locator("input").fill(given)
        expect(page.locator("#memory-verdict")).to_contain_text(f"{label} {said}")
        expect(place).to_contain_text(f"{label} {said}")
        expect(page.locator("#memory-to-train")).to_be_disabled()
        expect(place.locator("input")).to_have_value(given)
        no_toast(page)
        place.locator("input").fill("16")
        expect(page.locator("#memory-verdict")).to_contain_text("Fits on")
        expect(place).not_to_contain_text(said)

    for section in ("memory", "fit"):
        gpu, verdict = page.locator(f"#{section}-gpu"), page.locator(f"#{section}-verdict")
        expect(verdict).to_contain_text("Fits on")
        for given, said in (("2x A100", "is several cards"), ("A1000000", "There is no GPU")):
            gpu.locator("input").fill(given)
            gpu.locator("input").press("Enter")
            expect(gpu).to_contain_text(said)
            expect(verdict).to_contain_text(said)
            expect(gpu.locator("input")).to_have_value(given)
        gpu.locator("input").fill("24 GiB")
        gpu.locator("input").press("Tab")
        expect(verdict).to_contain_text("Fits on 24 GiB")
        expect(gpu).not_to_contain_text("There is no GPU")
        show_section(page, "fit")

    choose(page, "fit-gpu", "GeForce RTX 3060")
    expect(page.locator("#fit-ladder table")).to_be_visible()
    memory, length = page.locator("#fit-memory_gib"), page.locator("#fit-label_length")
    memory.locator("input").fill("-5")
    for place in (verdict, memory):
        expect(place).to_contain_text("must be between 0 and 100000, got -5")
    expect(verdict).not_to_contain_text("Fits on")
    memory.locator("input").fill("")
    expect(verdict).to_contain_text("Fits on GeForce")
    memory.locator("input").fill("8")
    expect(verdict).to_contain_text("Fits on 8 GiB")
    expect(memory).not_to_contain_text("must be between")
    length.locator("input").fill("449")
    expect(length).to_contain_text("between 1 and 448")
    length.locator("input").fill("448")

    choose(page, "fit-base_model", "Whisper large-v3 ")
    memory.locator("input").fill("1")
    expect(verdict).to_contain_text("Nothing fits")
    expect(page.locator("#fit-use")).to_be_disabled()

    choose(page, "fit-preset", "Aggressive")
    expect(page.locator("#fit-claim")).to_contain_text("fp16 halves everything")
    expect(memory.locator("input")).to_have_value("3.5")
    expect(page.locator("#fit-ladder")).to_contain_text("Frozen weights in")
    page.get_by_text("What guides say about memory, and what is true").click()
    expect(page.locator("#fit-more")).to_contain_text("16 bytes a parameter")

    # At its button, and at its field by the label.
    show_tab(page, "train")
    page.locator("#train-train_data input, #train-train_data textarea").first.fill("nowhere.jsonl")
    page.keyboard.press("Tab")
    page.locator("#data-check").click()
    expect(page.locator("#data-preview")).to_contain_text("nowhere.jsonl")
    expect(page.get_by_text("Error", exact=True)).to_have_count(0)
    no_toast(page)

    page.locator("#train-train_data input, #train-train_data textarea").first.fill("demo")
    epochs, refused = page.locator("#train-num_train_epochs"), page.locator("#train-refused")
    for given, said in (("", "Epochs is empty: give a number."), ("-1", "Epochs must be between")):
        epochs.locator("input").fill(given)
        expect(epochs).to_contain_text(said)
        page.locator("#train-start").click()
        expect(refused).to_contain_text(said)
        expect(epochs).to_contain_text(said)
    for _ in range(3):  # the panel asks after its runs meanwhile
        page.wait_for_event("requestfinished", lambda request: "/gradio_api/" in request.url)
    expect(epochs).to_contain_text(said)
    page.locator("#train-per_device_train_batch_size input").fill("2.5")
    epochs.locator("input").fill("1")
    page.locator("#train-start").click()
    expect(refused).to_contain_text("Batch size must be a whole number, got 2.5.")
    expect(epochs).not_to_contain_text("Epochs must")
    expect(page.locator("#run-status")).to_contain_text("No runs yet")
    page.locator("#train-per_device_train_batch_size input").fill("4")
    expect(refused).to_be_empty()
    unfold(page, "Adapter, quantization and precision")
    page.locator("#train-lora_dropout input").fill("2")
    expect(refused).to_contain_text("LoRA dropout (under “Adapter, quantization and precision”) must be")
    expect(page.locator("#train-lora_dropout")).to_contain_text(
        "LoRA dropout (under “Adapter, quantization and precision”) must be"
    )
    no_toast(page)

    show_tab(page, "evaluate")
    page.locator("#evaluate-data input").fill("nowhere.jsonl")
    page.get_by_label("Clips at most").fill("1.5")
    page.locator("#evaluate-start").click()
    status = page.locator("#evaluate-status")
    expect(status).to_contain_text("Clips at most must be a whole number, got 1.5.")
    page.get_by_label("Clips at most").fill("2")
    page.locator("#evaluate-start").click()
    expect(status).to_contain_text(re.compile("nowhere.jsonl"))
    show_tab(page, "models")
    no_toast(page)
