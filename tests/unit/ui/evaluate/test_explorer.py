"""The explorer's list as a visitor turns its pages."""

import json
import re
from dataclasses import replace

from studio.evaluation.explorer import Explorer, Query
from studio.ui.evaluate.explorer import PAGE, Seen, _asked, _listed
from tests.unit.evaluation.test_explorer import evaluation

SAID = [f"clip {n}" for n in range(2 * PAGE + 3)]
EXPLORER = Explorer(evaluation(SAID, SAID, [*SAID[:-1], "clap"]))


def page_of(seen: Seen, query: Query | None = None) -> tuple[list[int], list[dict[str, object]]]:
    """The lines that are shown, and what can be asked from there."""
    shown = _listed(EXPLORER, query or Query(1, sort="list"), seen, "en")
    asked = [json.loads(text.replace("&quot;", '"')) for text in re.findall('data-ask="([^"]*)"', shown)]
    return [int(line) for line in re.findall(r">line (\d+)<", shown)], asked


def test_pages_follow_one_another_and_none_is_beyond_the_last() -> None:
    first, asked = page_of(Seen())
    assert first == [*range(1, PAGE + 1)]
    assert {"page": 1} in asked and {"play": 0} in asked
    assert page_of(Seen(page=2))[0] == page_of(Seen(page=99))[0] == [51, 52, 53]
    assert page_of(Seen(page=-4))[0] == first
    assert page_of(Seen(), Query(1, search="nothing of this"))[0] == []


def test_a_click_is_a_question_and_what_no_click_can_be_changes_nothing() -> None:
    seen = Seen(page=1)
    assert _asked(EXPLORER, {"said": "clip", "written": None}, seen) == (Seen(mistake=("clip", None)), None)
    assert _asked(EXPLORER, {"cell": [0, 50], "clips": 1}, seen) == (Seen(cell=(0, 50)), None)
    assert _asked(EXPLORER, {"group": "2 to 5 s", "clips": 3}, seen) == (Seen(), "2 to 5 s")
    assert _asked(EXPLORER, {"play": 7}, seen) == (replace(seen, playing=7), None)
    assert _asked(EXPLORER, {"play": 10**6}, seen) == (seen, None)
    assert _asked(EXPLORER, {"forget": True}, Seen(cell=(0, 0), mistake=("", "x"))) == (Seen(), None)
    assert _asked(EXPLORER, "play", seen) == (seen, None)  # type: ignore[arg-type]
