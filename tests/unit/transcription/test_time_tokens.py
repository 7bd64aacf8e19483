"""Time tokens: which may be written, and the segments that they make."""

from pathlib import Path

import pytest
import torch

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.transcription.loaded_base import LoadedBase
from studio.transcription.time_tokens import TokenSegment, WithinTheSound, split_segments
from studio.transcription.window_model import Search
from tests.unit.transcription.scripted_model import TOKENS, at


def spans(segments: list[TokenSegment]) -> list[tuple[float, float, tuple[int, ...]]]:
    return [(s.start_seconds, s.end_seconds, s.text_tokens) for s in segments]


def test_pairs_of_times_end_segments_and_text_cut_off_is_left_to_the_next_window() -> None:
    tokens = [at(0), 1, 2, at(4), at(5), 3, at(9), at(9.5), 4]
    segments, advance = split_segments(tokens, TOKENS, 30.0)
    assert spans(segments) == [(0.0, 4.0, (1, 2)), (5.0, 9.0, (3,))]
    assert advance == 9.0


def test_a_single_time_at_the_end_means_that_nothing_follows_in_the_window() -> None:
    segments, advance = split_segments([at(0), 1, at(4), at(4), 2, at(8)], TOKENS, 30.0)
    assert spans(segments) == [(0.0, 4.0, (1,)), (4.0, 8.0, (2,))]
    assert advance == 30.0


def test_a_window_without_pairs_is_one_segment() -> None:
    assert spans(split_segments([at(1), 1, 2], TOKENS, 12.0)[0]) == [(1.0, 12.0, (1, 2))]
    assert spans(split_segments([1, 2], TOKENS, 12.0)[0]) == [(0.0, 12.0, (1, 2))]
    assert split_segments([], TOKENS, 12.0) == ([], 12.0)


def test_no_time_lies_behind_the_end_of_the_recording() -> None:
    segments, advance = split_segments([at(0), 1, at(7), at(8), 2, at(29)], TOKENS, 6.5)
    assert [(s.start_seconds, s.end_seconds) for s in segments] == [(0.0, 6.5), (6.5, 6.5)]
    assert advance == 6.5


@pytest.mark.parametrize(("seconds", "advance"), [(0.0, 1.0), (0.02, 0.2), (0.5, 0.5)])
def test_a_window_moves_on_to_the_end_of_what_is_taken_and_always_moves_on(
    seconds: float, advance: float
) -> None:
    assert split_segments([at(0), 1, at(seconds), at(seconds), 2], TOKENS, 30.0)[1] == advance


def test_a_window_from_which_nothing_is_taken_moves_on_by_a_second() -> None:
    assert split_segments([at(0), at(0.5), at(0.5), 2], TOKENS, 30.0) == ([], 1.0)


def test_no_time_is_later_than_the_end_of_its_own_clip(base: LoadedBase, demo_speech: Path) -> None:
    decoder = base.model
    # The demo model does not know these words, and at the second clip sees no end to them.
    clips = [read_audio(demo_speech / "audio" / f"test-{number}.ogg") for number in ("001", "011")]
    seconds = [len(clip) / SAMPLING_RATE for clip in clips]
    prompt = decoder.tokens.prompt("en", "transcribe", with_times=True)
    encoded = decoder.encode(clips)

    def latest(given: list[float] | None) -> list[float]:
        rows = decoder.generate(encoded, [prompt, prompt], Search(max_new_tokens=40), given)
        times = [filter(decoder.tokens.is_time, row.tokens) for row in rows]
        return [max(map(decoder.tokens.seconds, row)) for row in times]

    assert latest(None)[1] > seconds[1] + 0.02
    assert all(time <= end + 0.02 for time, end in zip(latest(seconds), seconds, strict=True))


def test_each_clip_of_a_batch_has_its_own_limit_in_all_of_its_beams() -> None:
    scores = WithinTheSound([12, 11])(None, torch.zeros(4, 15))
    assert scores.isinf().int().tolist() == [*[[0] * 13 + [1] * 2] * 2, *[[0] * 12 + [1] * 3] * 2]
