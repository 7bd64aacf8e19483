"""Ladders, cards, diagnoses and the doctor's report as the visitor sees them."""

from dataclasses import replace

import pytest

from studio.doctor.report import Check, DoctorReport, Health
from studio.memory.fit import cards_for, fit
from studio.memory.gpus import GPUS
from studio.memory.myths import claims
from studio.memory.oom import explain
from studio.memory.plan import TrainingPlan
from studio.messages import Message
from studio.registry.catalog import find_released
from studio.translation import LOCALES, catalogue
from studio.ui.memory.views import (
    cards_view,
    claims_view,
    diagnosis_view,
    doctor_view,
    ladder_view,
    no_fit,
    said,
)
from studio.units import GIB

MODEL = find_released("large-v3")
assert MODEL is not None
WISH = TrainingPlan(base_dtype="bf16", batch_size=16)
RESULT = fit(MODEL.dimensions, 4 * GIB, WISH)
EVIL = "<img src=x onerror=alert(1)>"


def test_the_ladder_has_a_row_a_change_and_bars_that_shrink() -> None:
    html = ladder_view(RESULT, "en")
    assert html.count("<tr>") == len(RESULT.rungs) + 2
    widths = [float(part.split("%")[0]) for part in html.split("width:")[1:]]
    assert widths[0] == 100 and widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("locale", [locale for locale in LOCALES if locale != "en"])
def test_no_change_and_no_cost_stays_english(locale: str) -> None:
    html = ladder_view(RESULT, locale) + claims_view(claims(), locale) + no_fit(RESULT, GIB, locale)
    for rung in RESULT.rungs:
        assert said(rung.cost, locale) in html and str(rung.cost) not in html
    for claim in claims():
        assert str(claim.truth) not in html and claim.truth.template in catalogue(locale)


def test_every_card_is_named_once_under_its_verdict() -> None:
    html = cards_view(cards_for(RESULT.elsewhere), "en")
    assert html.count("GeForce RTX 5090<") == 1
    assert "Runs on" in html and "smallest GeForce RTX 2060" in html
    huge = replace(RESULT.estimate, device_bytes=10**15, high_bytes=10**15)
    assert f"none of {len(GPUS)}" in cards_view(cards_for(lambda _gpu: huge), "en")


def test_what_was_pasted_is_shown_as_text() -> None:
    html = diagnosis_view(explain(f"{EVIL} CUDA error: out of memory"), "en")
    assert "onerror=alert(1)" in html and "<img" not in html
    long = diagnosis_view(explain("CUDA error: out of memory, " + "and so on, " * 20), "en")
    assert "and so on, …</code>" in long


def test_a_value_that_is_named_text_or_locale_reaches_the_sentence() -> None:
    check = Check(Message("Python"), Health.OK, Message("{text}", text=EVIL))
    html = doctor_view(DoctorReport((check,), {}), "zh-CN")
    assert "&lt;img" in html and "正常" in html
