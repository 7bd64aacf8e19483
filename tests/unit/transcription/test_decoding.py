"""What becomes of a text that is unsure, silence, or a loop."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from studio.transcription.decoding import Decoded, Window, decode, write
from studio.transcription.engine import USUAL_BEAMS, TranscribeOptions
from studio.transcription.window_model import Search, Written
from tests.unit.transcription.scripted_model import TOKENS, ScriptedModel

PLAIN = TranscribeOptions()
PROMPT = TOKENS.prompt("en", "transcribe", with_times=False)
LOOP = [0, 1] * 40


def decoded(texts: Sequence[Written], options: TranscribeOptions = PLAIN, **window: bool) -> Decoded:
    """What is taken of the texts that a window's temperatures give."""
    left = iter(texts)
    model = ScriptedModel(lambda *_: next(left))
    found = decode(model, [None], [Window(PROMPT, 4.0, **window)], options)[0]
    assert next(left, None) is None, "each temperature was tried"
    return found


def test_an_unsure_text_is_tried_at_each_temperature_and_the_surest_is_taken() -> None:
    tries = [Written([n], odds) for n, odds in enumerate((-1.5, -1.2, -1.4, -1.3, -1.6, -1.7))]
    assert decoded(tries) == Decoded([1], temperature=0.2, average_logprob=-1.2)
    sure = Decoded([1], is_sure=True, temperature=0.2, average_logprob=-0.9)
    assert decoded([Written([0], -1.5), Written([1], -0.9)]) == sure
    warm = replace(PLAIN, temperature=(0.4,))
    assert decoded([Written([0], -1.5)], warm) == Decoded([0], temperature=0.4, average_logprob=-1.5)
    assert decoded([Written([0], -1.5)], is_once=True) == Decoded([0], average_logprob=-1.5)


def test_an_unsure_text_is_silence_where_silence_is_likely() -> None:
    assert decoded([Written([0], -1.5, 0.7)]).tokens == []
    assert decoded([Written([0], -0.5, 0.7)]).tokens == [0]
    once = decoded([Written([0], -1.5, 0.7)], is_once=True)
    assert once == Decoded([0], average_logprob=-1.5), "a voice was found elsewhere"
    assert decoded(
        [Written([0], -1.5, 0.7), Written([1], -0.5)], replace(PLAIN, no_speech_threshold=0.8)
    ).tokens == [1]


def test_a_loop_is_tried_again_and_cut_after_its_first_round_if_nothing_helps() -> None:
    sure = Decoded([3], is_sure=True, temperature=0.2, average_logprob=-0.5)
    assert decoded([Written(LOOP, -0.1), Written([3], -0.5)]) == sure
    assert decoded([Written(LOOP, -0.1)] * 6) == Decoded([0, 1], is_stuck=True)


def test_windows_are_decoded_together_and_only_the_unsure_once_more() -> None:
    model = ScriptedModel(
        lambda _samples, _prompt, search: Written([0], -0.5 if search.temperature else -1.5)
    )
    before = [TOKENS.end - 1, *PROMPT]
    windows = [Window(PROMPT, 4.0), Window(before, 4.0), Window(PROMPT, 4.0, is_once=True)]
    found = decode(model, [None] * 3, windows, PLAIN)
    assert [one.is_sure for one in found] == [True, True, False]
    assert model.batches == [2, 1, 1, 1], "prompts of one length, and then those that are unsure"


def test_prompts_with_and_without_times_are_never_decoded_together() -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    timed = [3, *TOKENS.prompt("en", "transcribe", with_times=True)]
    assert len(timed) == len(PROMPT)
    decode(model, [None] * 2, [Window(timed, 4.0), Window(PROMPT, 4.0)], PLAIN)
    assert model.batches == [1, 1]


@pytest.mark.parametrize(("seconds", "asked", "limit"), [(0.5, 0, 49), (0.5, 7, 7), (30.0, 0, 448 - 4)])
def test_a_window_has_no_more_tokens_than_can_be_said_in_it(seconds: float, asked: int, limit: int) -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    decode(model, [None], [Window(PROMPT, seconds)], replace(PLAIN, max_new_tokens=asked))
    assert [search.max_new_tokens for search in model.searches] == [limit]


def test_options_of_the_search_reach_it() -> None:
    model = ScriptedModel(lambda *_: Written([0], -0.1))
    decode(model, [None], [Window(PROMPT, 30.0)], replace(PLAIN, num_beams=2, suppress_tokens=(3, 5)))
    assert model.searches == [Search(2, 0.0, 444, (3, 5), -1.0)]
    decode(model, [None], [Window(PROMPT, 30.0)], PLAIN)
    assert model.searches[1].num_beams == USUAL_BEAMS


def test_what_is_not_judged_is_written_as_it_is_but_for_loops() -> None:
    texts = iter(2 * [Written([0], -9.0), Written([4, *LOOP])])
    model = ScriptedModel(lambda *_: next(texts))
    asked = (model, [None] * 2, [PROMPT] * 2, Search(max_new_tokens=81))
    assert write(*asked) == [Written([0], -9.0), Written([4, 0, 1])]
    assert [one.tokens for one in write(*asked, cuts_loops=False)] == [[0], [4, *LOOP]]
