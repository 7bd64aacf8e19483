import random

import jiwer
import numpy as np
import pytest

from studio.errors import ConfigError
from studio.evaluation.metrics import (
    align,
    error_rates,
    errors_of_parts,
    metric_for,
    paired_bootstrap,
    rate_interval,
    token_distances,
    utterance_errors,
)
from studio.evaluation.normalize import normalize
from tests.unit.evaluation.test_normalize import TEN_SCRIPTS


def corpus(seed: int, size: int = 60) -> tuple[list[str], list[str]]:
    choose = random.Random(seed)
    words = ["turn", "on", "the", "light", "kitchen", "off", "one", "two"]
    references = [" ".join(choose.choices(words, k=choose.randint(1, 8))) for _ in range(size)]
    hypotheses = [
        " ".join(choose.choice(words) if choose.random() < 0.3 else word for word in text.split())
        for text in references
    ]
    return references, hypotheses


def test_rates_are_those_of_jiwer_over_the_whole_corpus() -> None:
    references, hypotheses = corpus(1)
    rates = error_rates(references, hypotheses)
    assert rates.wer == pytest.approx(jiwer.wer(references, hypotheses))
    assert rates.cer == pytest.approx(jiwer.cer(references, hypotheses))
    assert rates.mer == rates.wer
    assert rates.n == len(references)


@pytest.mark.parametrize("text", TEN_SCRIPTS.values(), ids=TEN_SCRIPTS)
@pytest.mark.parametrize("normalizer", ["none", "basic"])
def test_rates_are_those_of_jiwer_to_the_last_digit_in_ten_scripts(text: str, normalizer: str) -> None:
    choose = random.Random(text)
    words = text.split()
    references = [" ".join(choose.choices(words, k=choose.randint(1, 9))) for _ in range(40)]
    hypotheses = [
        " ".join(word[: choose.randint(1, len(word))] for word in said.split() if choose.random() < 0.9)
        for said in references
    ]
    rates = error_rates(references, hypotheses, normalizer)
    sides = [[normalize(line, normalizer) for line in side] for side in (references, hypotheses)]
    assert (rates.wer, rates.cer) == (jiwer.wer(*sides), jiwer.cer(*sides))
    assert 0 < rates.cer < rates.wer
    for metric, rate in (("wer", rates.wer), ("cer", rates.cer)):
        errors, lengths = token_distances(*sides, metric)
        assert errors.sum() / lengths.sum() == rate


def test_a_corpus_counts_edits_and_does_not_average_rates() -> None:
    assert error_rates(["a", "b c d e f g h i j"], ["x", "b c d e f g h i j"]).wer == 0.1


def test_each_edit_is_told_as_what_it_is() -> None:
    found = [(piece.kind, piece.reference, piece.hypothesis) for piece in align("a b c d", "a x c d e f")]
    assert found == [
        ("equal", "a", "a"),
        ("substitute", "b", "x"),
        ("equal", "c d", "c d"),
        ("insert", "", "e f"),
    ]
    assert [(piece.kind, piece.reference) for piece in align("a b c", "")] == [("delete", "a b c")]
    assert error_rates(["a b  c"], ["a\tb\nc"]).wer == 0.0, "any white space separates words"


def test_words_where_nothing_was_said_count_as_insertions() -> None:
    assert error_rates(["", "a b"], ["thank you", "a b"]).wer == 1.0
    assert error_rates([""], ["thank you"]).wer == 2.0
    assert error_rates([""], [""]).wer == 0.0
    assert error_rates([], []).n == 0


def test_mixed_text_counts_ideographs_and_words() -> None:
    assert error_rates(["打开 kitchen 的灯"], ["打开 chicken 的登"]).mer == 2 / 5
    assert error_rates(["你好"], ["你 好"]).mer == 0.0


def test_raw_character_errors_count_spaces_and_punctuation_and_normalized_ones_do_not() -> None:
    assert error_rates(["你好吗"], [" 你好，吗 "]).cer == pytest.approx(1 / 3)
    assert error_rates(["你好吗"], ["你好，嗎"], "chinese").cer == 0.0


def test_utterances_add_up_to_the_corpus() -> None:
    references, hypotheses = corpus(2)
    for metric in ("wer", "cer", "mer"):
        pairs = [utterance_errors(a, b, metric) for a, b in zip(references, hypotheses, strict=True)]
        errors, length = (sum(column) for column in zip(*pairs, strict=True))
        assert errors / length == pytest.approx(getattr(error_rates(references, hypotheses), metric))


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ConfigError, match="wer, cer, mer"):
        utterance_errors("a", "b", "bleu")
    with pytest.raises(ValueError):
        error_rates(["a"], [])
    with pytest.raises(ConfigError, match="no utterance"):
        paired_bootstrap([], [], [])


def test_a_model_against_itself_does_not_differ() -> None:
    references, hypotheses = corpus(3)
    comparison = paired_bootstrap(references, hypotheses, hypotheses)
    assert (comparison.difference, comparison.ci_low, comparison.ci_high) == (0.0, 0.0, 0.0)
    assert not comparison.significant


def test_a_clearly_better_model_is_significantly_better() -> None:
    references, hypotheses = corpus(4)
    comparison = paired_bootstrap(references, hypotheses, references)
    assert comparison.difference == pytest.approx(-error_rates(references, hypotheses).wer)
    assert comparison.ci_low <= comparison.difference <= comparison.ci_high < 0
    assert comparison.significant


def test_one_lucky_utterance_is_not_significant() -> None:
    references, hypotheses = corpus(5)
    lucky = [references[0] + " x", *hypotheses[1:]]
    assert not paired_bootstrap(references, hypotheses, lucky).significant


@pytest.mark.parametrize("clips", range(1, 7))
def test_of_fewer_than_five_clips_no_difference_is_significant(clips: int) -> None:
    said = ["a b c d"] * clips
    comparison = paired_bootstrap(said, ["a b c x"] * clips, said)
    assert comparison.significant is (clips >= 5) and comparison.ci_high < 0


def test_what_is_written_on_silence_counts_beside_the_words_there_are_and_not_beside_none() -> None:
    said = ["one two three four"] * 2 + [""] * 18
    written = [*said[:2], *["thank you"] * 3, *[""] * 15]
    comparison = paired_bootstrap(said, said, written)
    assert comparison.difference == 0.75
    assert 0 <= comparison.ci_low < 0.75 < comparison.ci_high <= 2 * 7 / 8, "of eight words in each draw"
    assert rate_interval(said, written, "wer") == (comparison.ci_low, comparison.ci_high)
    assert rate_interval([""] * 4, ["one"] * 4, "wer") == (4.0, 4.0), "without any word: what was written"


def test_the_bootstrap_repeats_itself_and_agrees_with_plain_resampling() -> None:
    references, first = corpus(6)
    second = corpus(6)[0][1:] + corpus(6)[0][:1]
    comparison = paired_bootstrap(references, first, second, resamples=4000)
    assert comparison == paired_bootstrap(references, first, second, resamples=4000)
    a = np.array([utterance_errors(r, h, "wer") for r, h in zip(references, first, strict=True)])
    b = np.array([utterance_errors(r, h, "wer") for r, h in zip(references, second, strict=True)])
    rng = np.random.default_rng(9)
    drawn = [rng.integers(len(a), size=len(a)) for _ in range(4000)]
    plain = [(b[i, 0].sum() - a[i, 0].sum()) / a[i, 1].sum() for i in drawn]
    low, high = np.quantile(plain, [0.025, 0.975])
    assert comparison.ci_low == pytest.approx(low, abs=0.02)
    assert comparison.ci_high == pytest.approx(high, abs=0.02)


def test_texts_are_shown_side_by_side() -> None:
    pieces = align("turn on the big light", "please turn off the light")
    assert [(p.kind, p.reference, p.hypothesis) for p in pieces] == [
        ("insert", "", "please"),
        ("equal", "turn", "turn"),
        ("substitute", "on", "off"),
        ("equal", "the", "the"),
        ("delete", "big", ""),
        ("equal", "light", "light"),
    ]
    assert [p.kind for p in align("打开灯", "打开了灯")] == ["equal", "insert", "equal"]
    assert align("", "") == []
    assert [p.hypothesis for p in align("", "你好 world")] == ["你好world"]


@pytest.mark.parametrize(
    ("parts", "heard", "metric", "wanted"),
    [
        (["one two", "three four"], "one two three four", "wer", [(0, 2), (0, 2)]),
        (["one two", "three four"], "one three four", "wer", [(1, 2), (0, 2)]),
        (["one two", "three four"], "one two oh three five", "wer", [(0, 2), (2, 2)]),
        (["one two", "three"], "one two three and so on", "wer", [(0, 2), (3, 1)]),
        (["你好", "再见了"], "你好 再了", "cer", [(0, 2), (1, 3)]),
        (["one two", "three"], "", "wer", [(2, 2), (1, 1)]),
        (["", ""], "one", "wer", [(0, 0), (0, 0)]),
    ],
)
def test_errors_of_a_recording_are_those_of_its_sentences(
    parts: list[str], heard: str, metric: str, wanted: list[tuple[int, int]]
) -> None:
    assert errors_of_parts(parts, heard, metric) == wanted


def test_the_interval_of_a_rate_holds_it_and_is_narrower_of_more_utterances() -> None:
    references, hypotheses = ["a b c d"] * 10, ["a b c d"] * 5 + ["a b x x"] * 5
    low, high = rate_interval(references, hypotheses, "wer")
    assert low < error_rates(references, hypotheses).wer == 0.25 < high
    more = rate_interval(references * 20, hypotheses * 20, "wer")
    assert more[1] - more[0] < (high - low) / 3
    assert rate_interval(references, references, "cer") == (0.0, 0.0)


@pytest.mark.parametrize(
    ("language", "texts", "metric"),
    [
        ("zh", [], "cer"),
        ("Thai", [], "cer"),
        ("en", ["打开灯"], "wer"),
        ("", [], "wer"),
        ("auto", ["turn on the light", "打开灯"], "wer"),
        ("", ["", "打开 kitchen 的灯", "厨房里的灯打开"], "cer"),
        ("", ["ปิดไฟในห้องครัว"], "cer"),
        ("", ["부엌 불을 켜 줘"], "wer"),
        ("no language of Whisper", ["電気をつけて"], "cer"),
        ("", ["好。", "对！"], "cer"),
    ],
)
def test_characters_count_where_no_space_stands_between_words_and_texts_tell_what_no_list_says(
    language: str, texts: list[str], metric: str
) -> None:
    assert metric_for(language, texts) == metric
