"""What is wrong, word by word, and which clips are asked for."""

import json
import random
import time
from collections.abc import Sequence

import pytest

from studio.errors import ConfigError
from studio.evaluation.explorer import Explorer, Query, repeats_itself
from studio.evaluation.metrics import error_rates
from studio.evaluation.result import Evaluation, ModelRow, UtteranceRow
from studio.translation import said

SAID = ["turn on the light", "打开 kitchen 灯", "the light", "", "turn off"]
A = ["turn on the light", "打开 kitchen 灯", "the night", "", "turn off"]
B = ["turn the night", "打开 chicken 登", "the light", "thank you", "turn " + "off and " * 30]


def evaluation(references: Sequence[str], *texts: Sequence[str], normalizer: str = "none") -> Evaluation:
    """Clip by clip of one second more each, every second one of another speaker and louder."""
    names = "ab"[: len(texts)]
    models = tuple(ModelRow(name, 0.0, 0.0, 0.0, normalizer, len(references), 0.1, {}) for name in names)
    rows = tuple(
        UtteranceRow(
            *(name, f"{n}.wav", n + 1, None, None, n + 1.0, reference, texts[place][n], 0.0, 0.0),
            speaker="PQ"[n % 2],
            loudness_db=-20.0 - 20 * (n % 2),
            average_logprob=None if n == 3 else -0.2 * (n + place),
        )
        for n, reference in enumerate(references)
        for place, name in enumerate(names)
    )
    return Evaluation("list", models, (), rows)


def test_each_word_is_counted_as_said_and_right_and_each_mistake_with_its_clips() -> None:
    found = Explorer(evaluation(SAID, A, B)).errors[1]
    assert {row.word: (row.said, row.right) for row in found.words_by_errors()} == {
        "turn": (2, 2),
        "on": (1, 0),
        "the": (2, 2),
        "light": (2, 1),
        "打": (1, 1),
        "开": (1, 1),
        "kitchen": (1, 0),
        "灯": (1, 0),
        "off": (1, 1),
    }
    assert found.most_frequent("deletion") == [(("on", ""), 1)]
    assert dict(found.most_frequent("confusion")).keys() == {
        *(("light", "night"), ("kitchen", "chicken"), ("灯", "登"))
    }
    assert found.mistakes["", "thank"] == [3]
    assert found.mistakes["", "off"] == [4] * 29
    assert found.errors.sum() / found.lengths.sum() == error_rates(SAID, B).mer


def test_clips_are_found_by_what_is_wrong_in_them() -> None:
    explorer = Explorer(evaluation(SAID, A, B))
    for query, places in (
        (Query(1, sort="list"), [0, 1, 2, 3, 4]),
        (Query(1), [4, 3, 0, 1, 2]),
        (Query(1, show="lost", sort="list"), [0, 1, 3, 4]),
        (Query(1, show="gained"), [2]),
        (Query(0, show="errors"), [2]),
        (Query(0, show="unsure"), [2, 4]),
        (Query(1, sort="unsure"), [4, 2, 1, 0, 3]),
        (Query(1, show="corrected", corrected={4, 1}, sort="list"), [1, 4]),
        (Query(1, show="silence"), [3]),
        (Query(1, show="loops"), [4]),
        (Query(1, sort="difference"), [4, 0, 1, 3, 2]),
        (Query(1, sort="longest"), [4, 3, 2, 1, 0]),
        (Query(1, by="speaker", group="Q", sort="list"), [1, 3]),
        (Query(1, by="duration", group="2 to 5 s", sort="list"), [1, 2, 3]),
        (Query(1, search="KITCHEN"), [1]),
        (Query(1, search="chicken"), [1]),
        (Query(1, mistake=("light", None)), [0]),
        (Query(1, mistake=("", None), sort="list"), [3, 4]),
        (Query(0, mistake=("light", "night")), [2]),
        (Query(0, mistake=("light", "sight")), []),
        (Query(1, cell=(0, 50)), [0, 1]),
        (Query(1, cell=(0, 100), show="silence"), [3]),
        (Query(0, against=1, cell=(50, 0), sort="list"), [0, 1]),
        (Query(1, cell=(50, 50)), []),
    ):
        assert explorer.select(query).tolist() == places, query
    for wrong in (Query(2), Query(show="all of it"), Query(sort="size"), Query(by="mood")):
        with pytest.raises(ConfigError):
            explorer.select(wrong)


def test_clips_are_counted_by_the_errors_of_two_models_and_each_cell_asks_for_its_own() -> None:
    said = ["a b c d e f g h i j k l m n o p q r s t"] * 21
    texts = [" ".join(["x"] * wrong + said[0].split()[wrong:]) for wrong in range(21)]
    explorer = Explorer(evaluation([*said, ""], [*said, ""], [*texts, "thank you very much"]))
    steps = [((0, 5 * wrong), 1) for wrong in range(20)]
    assert explorer.cells(1, 0) == [*steps, ((0, 100), 2)], "no step falls short of itself"
    assert explorer.cells(0, 0) == [((0, 0), 22)]
    for cell, count in explorer.cells(1, 0):
        assert len(explorer.select(Query(1, cell=cell))) == count


def test_groups_are_ranges_in_order_and_add_up_to_the_whole() -> None:
    explorer = Explorer(evaluation(SAID, A, B))
    assert explorer.groupings == ["duration", "speaker", "loudness", "speed"], "no language is named"
    assert [group.key for group in explorer.groups("duration", 1)] == ["< 2 s", "2 to 5 s", "5 to 10 s"]
    assert [group.key for group in explorer.groups("loudness", 1)] == ["-42 to -36 dB", "-24 to -18 dB"]
    labels = [said(group.label, "zh-TW") for group in explorer.groups("duration", 1)]
    assert labels == ["< 2 秒", "2 至 5 秒", "5 至 10 秒"]
    assert [said(group.label, "zh-CN") for group in explorer.groups("speaker", 1)] == ["P", "Q"]
    for by in ("duration", "speaker", "loudness"):
        groups = explorer.groups(by, 1)
        assert sum(group.errors for group in groups) == explorer.errors[1].errors.sum()
        assert sum(group.clips for group in groups) == len(SAID)
    assert "" not in [group.key for group in explorer.groups("speed", 1)], "nothing is said in one clip"
    told = json.loads(json.dumps(explorer.summary(1)))
    assert told["silence"] == {"clips": 1, "with_text": 1, "words": 2}
    assert told["loops"] == 1
    assert told["groups"]["speaker"][0]["key"] == "P"


def test_a_loop_is_one_only_where_nobody_said_it() -> None:
    again = ("thank you very much " * 12).split()
    assert repeats_itself(again, ["thank", "you"])
    assert not repeats_itself(again, again)
    assert not repeats_itself(["no", "no", "no"], ["no"])


def test_one_clip_and_texts_of_any_signs_are_looked_into() -> None:
    explorer = Explorer(evaluation(["\x00 😀 שלום"], ["\x00 😀 שלום <b>"]))
    assert explorer.groupings == []
    assert explorer.errors[0].errors.tolist() == [1]
    assert explorer.select(Query(search="<B>")).tolist() == [0]


def test_many_clips_are_asked_for_page_by_page() -> None:
    """What is kept is proportional to the clips, and a question does not align anything anew."""
    choose = random.Random(0)
    words = [f"word{n}" for n in range(200)]
    references = [" ".join(choose.choices(words, k=6)) for _ in range(5000)]
    texts = [line.replace("word1", "ward1") for line in references]
    explorer = Explorer(evaluation(references, references, texts))
    began = time.process_time()
    asked = [
        Query(1, show="lost", search="ward1"),
        Query(1, mistake=("word1", "ward1")),
        Query(1, by="speed"),
    ]
    counts = [len(explorer.select(query)) for query in asked]
    assert counts[0] > counts[1] > 0
    assert counts[2] == 5000
    assert time.process_time() - began < 1.0, "a twentieth of the clips, in a twentieth of what is bearable"
