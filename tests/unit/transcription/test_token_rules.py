"""Tokens that may not be written, and how likely those are that were."""

import json
from pathlib import Path

import pytest
import torch

from studio.dataset.audio import read_audio
from studio.transcription.engines.transformers import Forbidden
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.window_model import Search


def test_forbidden_tokens_are_never_likely_and_some_only_not_at_the_beginning() -> None:
    rule = Forbidden((1,), (3,), begin=2)
    scores = torch.zeros(2, 5)
    at_begin, later = (rule(torch.zeros(2, length, dtype=torch.long), scores) for length in (2, 3))
    assert at_begin.isinf().tolist() == [[False, True, False, True, False]] * 2
    assert later.isinf().tolist() == [[False, True, False, False, False]] * 2
    assert not scores.isinf().any()
    assert Forbidden((), (), begin=2)(torch.zeros(2, 2), scores) is scores


@pytest.mark.parametrize("with_times", [False, True])
def test_a_greedy_search_tells_by_the_way_what_a_second_pass_would_find(
    base: LoadedBase, demo_speech: Path, with_times: bool
) -> None:
    decoder = base.model
    rows = map(json.loads, (demo_speech / "test.jsonl").read_text(encoding="utf-8").splitlines()[:3])
    clips = [read_audio(demo_speech / row["audio"]["path"]) for row in rows]
    prompt = decoder.tokens.prompt("en", "transcribe", with_times=with_times)
    with torch.inference_mode():
        encoded = decoder.encode(clips)
        judging = Search(max_new_tokens=60, logprob_threshold=-100.0)
        heard = decoder.generate(encoded, [prompt] * 3, judging)
        for number, written in enumerate(heard):
            # So high a threshold lets a pass of its own look at each text.
            alone = decoder.generate(
                encoded[number : number + 1], [prompt], Search(max_new_tokens=60, logprob_threshold=100.0)
            )[0]
            assert alone.tokens == written.tokens and alone.no_speech_probability > 0
            assert written.average_logprob == pytest.approx(alone.average_logprob, abs=1e-4)
