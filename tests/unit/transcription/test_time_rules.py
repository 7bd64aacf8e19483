"""Times that a model may write: none after the end of its clip."""

from pathlib import Path

import torch

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.transcription.decoding import Search
from studio.transcription.hugging_face import LoadedBase
from studio.transcription.time_rules import WithinTheSound


def test_no_time_is_later_than_the_end_of_its_own_clip(base: LoadedBase, demo_speech: Path) -> None:
    decoder = base.decoder
    # The demo model does not know these words, and at the second clip sees no end to them.
    clips = [read_audio(demo_speech / "audio" / f"test-{number}.ogg") for number in ("001", "011")]
    seconds = [len(clip) / SAMPLING_RATE for clip in clips]
    prompt = decoder.tokens.prompt("en", "transcribe", with_times=True)
    encoded = decoder.encode(clips)

    def latest(given: list[float] | None) -> list[float]:
        rows = decoder.generate(encoded, [prompt, prompt], Search(max_new_tokens=40), given)
        return [max(map(decoder.tokens.seconds, filter(decoder.tokens.is_time, row))) for row in rows]

    assert latest(None)[1] > seconds[1] + 0.02
    assert all(time <= end + 0.02 for time, end in zip(latest(seconds), seconds, strict=True))


def test_each_clip_of_a_batch_has_its_own_limit_in_all_of_its_beams() -> None:
    scores = WithinTheSound(10, [0.04, 0.01])(None, torch.zeros(4, 15))
    assert scores.isinf().int().tolist() == [*[[0] * 13 + [1] * 2] * 2, *[[0] * 12 + [1] * 3] * 2]
