"""What a check found is told alike by command line, page and card, whatever stands in the file."""

from typing import Any

import pytest

from studio.evaluation.capabilities import CHECKS
from studio.publishing.card import model_card
from studio.publishing.findings import (
    CHECK_NAMES,
    in_one_script,
    loss_of,
    name_of_check,
    non_speech_of,
    unchecked_of,
)
from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.ui.shared.views import model_details
from studio.ui.train.run_views import capabilities_table


def test_each_check_has_its_name_what_is_most_at_risk_first() -> None:
    assert tuple(CHECK_NAMES) == CHECKS


def test_how_much_of_a_gain_is_another_script_of_chinese_is_told() -> None:
    def told(**base: Any) -> str:
        found = in_one_script({"base": base, "final": {"cer": 0.145, "cer_in_one_script": 0.145}})
        return str(found or "")

    assert told(cer=0.422, cer_in_one_script=0.169).endswith("are 16.9 % before and 14.5 % after.")
    assert told(cer=0.422, cer_in_one_script=0.42) == "", "that is little"
    assert told(cer=0.422) == told(cer="0.4", cer_in_one_script=[]) == told() == ""


def test_what_was_not_checked_is_said_where_nothing_was() -> None:
    """A model of which nothing is known must not look like one that has lost nothing."""
    why = {"long_form": "time", "language": "no_language"}
    found = {
        "checks": [],
        "lost": [],
        "unchecked": ["long_form", "silence", "language"],
        "why_unchecked": why,
    }
    names = (
        "Long recordings (out of time: a minute, or a tenth of the training)",
        "No text on silence",
        "Language detection (no clip names its language)",
    )
    spec = ModelSpec("x", ModelKind.BASE, ModelSource.TRAINED, "x", card={"capabilities": found})
    for said in (str(unchecked_of(found)), model_card(spec), model_details(spec, "en")):
        assert f"Not checked: {', '.join(names)}." in said
    table = str(capabilities_table(found, "en"))
    assert all(name in table for name in names) and table.count("not checked") == 3
    assert unchecked_of({"checks": [], "unchecked": []}) is capabilities_table({"checks": []}, "en") is None


def test_english_that_was_made_by_a_program_is_called_so() -> None:
    row = {"check": "other_languages", "base": 0.9, "tuned": 0.2, "verdict": "worse"}
    found: dict[str, Any] = {"checks": [row], "lost": ["other_languages"], "is_synthetic": True}
    table = str(capabilities_table(found, "en"))
    assert "Synthetic English" in table and "Right: tuned" in table, "no error rates"
    assert "Synthetic English" in str(name_of_check("other_languages", found))
    assert "Other languages" in str(name_of_check("other_languages", {**found, "is_synthetic": False}))
    assert "future" in str(capabilities_table({"checks": [{**row, "check": "future"}]}, "en"))


def test_what_a_model_makes_up_is_told_beside_its_base() -> None:
    both = {
        "base": {"words_per_hour": 1240.0, "loop_rate": 0.167},
        "tuned": {"words_per_hour": 0, "loop_rate": 0},
    }
    assert str(non_speech_of({"non_speech": both})) == (
        "Words per hour of non-speech: 1,240 → 0; texts that are loops: 16.7 % → 0.0 %."
    )


@pytest.mark.parametrize(
    "odd", [None, [], "timestamps", 3, {"base": 1}, {"base": {"words_per_hour": "many"}}]
)
def test_what_another_make_has_written_tells_nothing(odd: Any) -> None:
    found = {"lost": odd, "unchecked": odd, "why_unchecked": odd, "non_speech": odd}
    assert loss_of(found) is unchecked_of(found) is non_speech_of(found) is None
