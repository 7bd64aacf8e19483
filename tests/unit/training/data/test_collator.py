"""Clips to batches: the features are the extractor's own, and a bad clip is left out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from studio.dataset.audio import read_audio
from studio.errors import AudioError
from studio.messages import Message
from studio.training.data.clips import Clip
from studio.training.data.collator import Collator, FeatureSource, fits_in_memory, readable
from tests.micro import make_tones
from tests.reading import read_manifest


@pytest.fixture
def clips(tmp_path: Path) -> list[Clip]:
    examples = read_manifest(make_tones(tmp_path, count=3, seconds=1.5)).examples
    return [Clip(example, "en", "transcribe", (1, 2, 3 + example.line)) for example in examples]


@pytest.fixture(scope="module")
def extractor() -> WhisperFeatureExtractor:
    return WhisperFeatureExtractor()


@pytest.mark.parametrize("keep", [True, False])
def test_features_are_those_of_the_extractor(
    keep: bool, clips: list[Clip], extractor: WhisperFeatureExtractor
) -> None:
    collator = Collator(FeatureSource(extractor, keep=keep), 3000, print)
    for _ in range(2):
        batch = collator(clips)
        audio = [read_audio(clip.example.audio_path) for clip in clips]
        wanted = extractor(audio, sampling_rate=16_000, return_tensors="np")["input_features"]
        assert batch["input_features"].shape == (3, 80, 3000)
        assert np.abs(batch["input_features"].numpy() - wanted).max() < 2e-3, "half precision"
        assert batch["labels"].tolist() == [list(clip.labels) for clip in clips]


def test_kept_features_need_the_file_no_more(clips: list[Clip], extractor: WhisperFeatureExtractor) -> None:
    features = FeatureSource(extractor, keep=True)
    before = Collator(features, 3000, print)(clips)["input_features"]
    for clip in clips:
        clip.example.audio_path.unlink()
    assert (Collator(features, 3000, print)(clips)["input_features"] == before).all()


def test_an_unreadable_clip_is_left_out_of_its_batch(
    clips: list[Clip], extractor: WhisperFeatureExtractor
) -> None:
    clips[1].example.audio_path.write_text("text", encoding="utf-8")
    told: list[Message] = []
    collator = Collator(FeatureSource(extractor, keep=False), 3000, told.append)
    for _ in range(2):
        assert collator(clips)["labels"].tolist() == [list(clips[0].labels), list(clips[2].labels)]
    assert len(told) == 1 and str(told[0]).startswith("Line 2 is not used: ")
    with pytest.raises(AudioError):
        Collator(FeatureSource(extractor, keep=False), 3000, print)(clips[1:2])


def test_every_other_clip_is_taught_with_its_times(
    clips: list[Clip], extractor: WhisperFeatureExtractor
) -> None:
    timed = [replace(clips[0], labels=(1, 2, 3), timed_labels=(7, 8, 9)) for _ in range(4)]
    labels = Collator(FeatureSource(extractor, keep=True), 3000, print)(timed)["labels"].tolist()
    assert sorted(labels) == [[1, 2, 3], [1, 2, 3], [7, 8, 9], [7, 8, 9]]
    assert labels[0] != labels[1]


def test_unreadable_clips_are_found_before_training(
    clips: list[Clip], extractor: WhisperFeatureExtractor
) -> None:
    clips[2].example.audio_path.unlink()
    seen: list[int] = []
    kept, problems = readable(clips, FeatureSource(extractor, keep=True), lambda: seen.append(1))
    assert list(kept) == clips[:2] and len(seen) == 3
    assert [problem.line for problem in problems] == [3]


def test_only_small_datasets_are_kept_in_memory(clips: list[Clip]) -> None:
    assert fits_in_memory(clips, mel_bins=80)
    assert not fits_in_memory(clips * 20_000, mel_bins=80)
