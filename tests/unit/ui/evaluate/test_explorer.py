"""The explorer's list as a visitor turns its pages."""

import json
import re
from dataclasses import replace

import pytest

from studio.errors import DataError
from studio.evaluation.explorer import Explorer, Query
from studio.reports.markup import join
from studio.ui.evaluate.explorer import (
    PAGE,
    Seen,
    _asked,
    _errors_of,
    _figures,
    _list,
    _listed,
    _only,
    _query,
    seen_of,
    shown,
)
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
    both = Seen(cell=(0, 0), mistake=("", "x"))
    assert _asked(EXPLORER, {"forget": "cell"}, both) == (Seen(mistake=("", "x")), None)
    assert _asked(EXPLORER, {"forget": "mistake"}, both) == (Seen(cell=(0, 0)), None)
    assert _asked(EXPLORER, "play", seen) == (seen, None)  # type: ignore[arg-type]


def test_a_form_that_is_not_filled_yet_asks_what_is_shown() -> None:
    """Who plays a clip at once goes on hearing it when the form is there."""
    empty = dict.fromkeys(("model", "against", "by", "show", "group", "sort", "search"))
    of_page = shown(EXPLORER, "en")[-2]
    assert isinstance(of_page, Seen) and of_page.query is not None
    assert _query(EXPLORER, empty, of_page) == of_page.query


def test_all_that_was_clicked_is_named_to_be_taken_back() -> None:
    query = Query(1, mistake=("clip", None), cell=(0, 50))
    assert re.findall("<button[^>]*>(.*?)</button>", str(join(_only(query, "en") or []))) == [
        "<bdi>clip</bdi> → <bdi>…</bdi> ✕",
        "0 % · 50 % ✕",
    ]


def test_the_titles_of_the_scatter_have_room_in_chinese_too() -> None:
    assert _errors_of("第一次训练（演示模型的适配器，第二次）", "zh-CN").count("<br>") == 1
    assert "<br>" not in _errors_of("first run", "en")


def test_who_comes_back_finds_what_they_asked_last() -> None:
    form = {"model": "a", "against": "b", "by": "duration", "show": "errors", "group": "2 to 5 s"}
    asked = _query(EXPLORER, {**form, "sort": "shortest", "search": "clip"}, Seen())
    values = shown(EXPLORER, "en", Seen(query=asked, playing=3))
    fields = [values[at].value for at in (1, 2, 3, 4, 5, 7)]
    assert fields == ["a", "b", "duration", "errors", "2 to 5 s", "clip"]
    assert isinstance(seen := values[-2], Seen) and (seen.query, seen.playing) == (asked, None), "none asked"
    assert seen_of(EXPLORER.named(str.upper), seen) is seen


def test_what_was_seen_and_corrected_in_one_evaluation_is_not_in_the_next() -> None:
    """An answer about the one before may come after the next is shown: places of clips are not the same."""
    corrected = shown(EXPLORER, "en", Seen(corrected={0: "clip nought"}, cell=(0, 0)))[-2]
    after = Explorer(evaluation(SAID, SAID, SAID))
    assert seen_of(EXPLORER, corrected).corrected == {0: "clip nought"}
    assert seen_of(after, corrected) == seen_of(after, Seen(corrected={0: "x"})) == Seen()


def test_a_dot_is_as_large_as_its_clips_are_many_and_asks_for_them() -> None:
    found = _figures(EXPLORER, Query(1, against=0), "zh-TW")[1]
    drawn = json.loads(found.value["plot"])
    (dots,) = drawn["data"]
    assert list(zip(dots["x"], dots["y"], strict=True)) == [(0.0, 0.0), (0.0, 1.0)]
    assert [dot["clips"] for dot in dots["customdata"]] == [len(SAID) - 1, 1]
    assert dots["marker"]["size"][0] > dots["marker"]["size"][1] and "段" in dots["hovertemplate"]
    titles = [drawn["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
    assert [title[-2:] for title in titles] == ["：a", "：b"], "across the one that is compared with"
    seen, _ = _asked(EXPLORER, dots["customdata"][1], Seen())
    assert page_of(seen, Query(1, cell=seen.cell))[0] == [len(SAID)]
    assert not _figures(EXPLORER, Query(1, against=1), "en")[1].visible, "a model beside itself is no pair"


def test_references_are_corrected_taken_back_and_counted() -> None:
    seen, group = _asked(
        EXPLORER, {"correct": [[3, " clap \n 3"], [4, "clip  4"], [5, "<|nospeech|>"]]}, Seen(page=1)
    )
    assert (seen, group) == (Seen(page=1, corrected={3: "clap 3", 5: ""}), None), "the page stays"
    fewer, _ = _asked(EXPLORER, {"correct": [[3, None]]}, seen)
    assert fewer.corrected == {5: ""}
    assert _asked(EXPLORER, {"correct": "nothing"}, seen)[0].corrected == {}
    for wrong in ([[1, ""]], [[1, "a\0b"]], [[10**6, "x"]], [[-1, "x"]]):
        with pytest.raises(DataError):
            _asked(EXPLORER, {"correct": wrong}, seen)


def test_a_corrected_reference_is_what_its_row_is_compared_with() -> None:
    seen = Seen(corrected={0: "<b>clip</b> שלום"})
    query = Query(1, sort="list", show="corrected", corrected=seen.corrected.keys())
    shown = _listed(EXPLORER, query, seen, "en")
    assert "1 of 53 clips" in shown and "&lt;b&gt;clip&lt;/b&gt; שלום" in shown and "<b>clip" not in shown
    assert "100.0 %" in shown and 'title="clip 0"' in shown
    values = _list(EXPLORER, query, seen, "en")
    assert "Corrected references: 1." in values[1].value and values[2].visible
    assert not _list(EXPLORER, query, Seen(), "en")[2].visible
