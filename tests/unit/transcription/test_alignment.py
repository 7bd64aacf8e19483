"""The path of dynamic time warping."""

import numpy as np

from studio.transcription.alignment import row_starts


def test_the_path_through_the_attention_gives_each_token_its_start() -> None:
    attention = np.zeros((3, 10))
    attention[0, :4] = attention[1, 4:7] = attention[2, 7:] = 1.0
    assert row_starts(-attention).tolist() == [0, 4, 7]


def test_more_tokens_than_positions_still_get_times() -> None:
    starts = row_starts(-np.eye(5, 2))
    assert len(starts) == 5
    assert sorted(starts) == starts.tolist()
