"""Labels beyond a clip's own text: packed clips, previous text, times that the base model makes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
import torch
from transformers import WhisperFeatureExtractor

from studio.dataset.example import Example, TextSegment
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training import adapters
from studio.training.data.augmentation import Augmentation, Draw
from studio.training.data.clips import Clip
from studio.training.data.collator import Collator, FeatureSource
from studio.training.data.preparation import cut_like, packed, prepare, with_made_times
from studio.training.events import EventLog
from studio.training.stop import StopSignal
from tests.micro import make_tones
from tests.reading import read_manifest
from tests.unit.training.attempts import Runs, assert_same_weights, told
from tests.unit.training.data.test_clips import labelled, source_of, spelled, tokenizer

__all__ = ["tokenizer"]


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def spoken(example: Example) -> str:
    return example.language or "en"


def test_short_clips_are_packed_up_to_the_window_with_their_times(tmp_path: Path) -> None:
    examples = read_manifest(make_tones(tmp_path, count=7, seconds=10.0)).examples
    windows = packed(examples, letters, 30.0, 448, spoken)
    assert [len(window.parts) for window in windows] == [3, 3, 0]
    first = windows[0]
    assert (first.text, first.duration_seconds) == ("low high sharp", 30.0)
    assert first.segments[1] == TextSegment(10.0, 20.0, "high")
    assert windows[2] == examples[6]


def test_what_does_not_belong_together_is_not_packed(tmp_path: Path) -> None:
    examples = list(read_manifest(make_tones(tmp_path, count=6)).examples)
    for place in range(0, 6, 2):
        examples[place] = replace(examples[place], language="de")
        examples[place + 1] = replace(examples[place + 1], speaker=str(place))
    assert sorted(len(window.parts) for window in packed(examples, letters, 30.0, 448, spoken)) == [
        0,
        0,
        0,
        3,
    ]
    assert len(packed(examples[:1] * 4, letters, 30.0, 15, spoken)) == 4, "labels stay short"


def test_a_packed_window_sounds_like_its_parts(tmp_path: Path, tokenizer: Any) -> None:
    examples = read_manifest(make_tones(tmp_path, count=3)).examples
    window = packed(examples, letters, 30.0, 448, spoken)[0]
    source = FeatureSource(WhisperFeatureExtractor(), keep=False)
    alone = [source(Clip(example, "en", "transcribe", (1,))) for example in examples]
    whole = source(Clip(window, "en", "transcribe", (1,)))
    assert whole.shape[1] == pytest.approx(300, abs=8)
    assert abs(float(whole[:, 110:190].mean()) - float(alone[1][:, 10:90].mean())) < 0.02


def test_a_packed_label_has_times_between_its_texts(tmp_path: Path, tokenizer: Any) -> None:
    source, config = source_of(tmp_path)
    examples = packed(source.train_examples, letters, 30.0, 448, spoken)
    clip = labelled(tokenizer, replace(source, train_examples=examples), config).train[0]
    assert spelled(tokenizer, clip.timed_labels).startswith(
        "<|en|><|transcribe|><|0.00|> low<|1.00|><|1.00|> high<|2.00|>"
    )


@pytest.mark.parametrize(
    ("options", "row", "text"),
    [
        ({}, {"text": "再见", "language": "zh"}, "再见再见"),
        ({"language": "zh"}, {"text": "再见", "language": None}, "再见再见"),
        ({"language": "Chinese"}, {"text": "再见", "language": "en"}, "再见再见"),
        ({}, {"text": "see you", "language": "zh", "task": "translate"}, "see you see you"),
        ({"task": "translate"}, {"text": "see you", "language": "zh"}, "see you see you"),
    ],
)
def test_packed_texts_are_spaced_as_the_language_is_that_is_taught(
    options: dict[str, Any], row: dict[str, Any], text: str, micro_model: Path, tmp_path: Path
) -> None:
    config = TrainingConfig(base_model=str(micro_model), pack_clips=True, max_audio_len=2.0, **options)
    source, config = source_of(tmp_path, config, **row)
    base = adapters.load_training_base(micro_model, config, adapters.Precision("fp32"))
    data, _ = prepare(
        config, Settings.from_env(), source, base, EventLog(None), StopSignal(tmp_path / "stop")
    )
    assert [clip.example.text for clip in data.train] == [text, text]


def test_a_clip_without_speech_is_taught_to_give_nothing_alone_and_packed(
    tmp_path: Path, tokenizer: Any
) -> None:
    source, config = source_of(tmp_path)
    said, *_ = source.train_examples
    silent = replace(said, text="")
    for examples in ([silent], packed([silent, silent], letters, 30.0, 448, spoken)):
        (clip,) = labelled(tokenizer, replace(source, train_examples=examples), config).train
        assert spelled(tokenizer, clip.labels) == "<|en|><|transcribe|><|notimestamps|><|endoftext|>"
        assert spelled(tokenizer, clip.timed_labels) == "<|en|><|transcribe|><|0.00|><|endoftext|>"
    (window,) = packed([silent, said], letters, 30.0, 448, spoken)
    assert [segment.text for segment in window.segments] == [said.text] and window.text == said.text


def test_a_slice_knows_the_text_before_it(tmp_path: Path) -> None:
    folder = make_tones(tmp_path, count=2, seconds=11.0).parent
    rows = [
        {"audio": {"path": f"tone{file}.wav", "start_time": at, "end_time": at + 2}, "text": f"{file} {at}"}
        for file, at in ((0, 0), (0, 2), (0, 8.5), (1, 2))
    ]
    rows.append({"audio": {"path": "tone1.wav"}, "text": "x", "prev_text": "said before"})
    path = folder / "slices.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = [example.previous_text for example in read_manifest(path).examples]
    assert found == [None, "0 0", "0 2", None, "said before"]


def test_previous_text_is_given_and_not_learned(tmp_path: Path, tokenizer: Any) -> None:
    config = TrainingConfig(condition_on_prev_probability=1.0)
    source, config = source_of(tmp_path, config, previous_text="said before", text="low")
    clips = list(labelled(tokenizer, source, config).train[:2])
    drawn = [replace(clips[0], draw=Draw((0,), with_previous=True)), clips[1]]
    collator = Collator(FeatureSource(WhisperFeatureExtractor(), keep=False), 3000, print)
    batch = collator(drawn)
    given, taught = batch["decoder_input_ids"], batch["labels"]
    assert spelled(tokenizer, tuple(given[0].tolist())).startswith(
        "<|startofprev|> said before<|startoftranscript|><|en|><|transcribe|><|notimestamps|> low"
    )
    start = given[0].tolist().index(clips[0].before[-1])
    assert taught[0, :start].tolist() == [-100] * start
    assert taught[0, start:].tolist() == list(clips[0].labels)
    assert given[1, : len(clips[1].labels)].tolist() == [clips[0].before[-1], *clips[1].labels[:-1]]
    assert "decoder_input_ids" not in collator(clips), "as drawn, or not at all"


@pytest.mark.parametrize(("letters", "given"), [(400, 447), (442, 447), (443, 448)])
def test_long_previous_text_leaves_room_for_the_label(
    letters: int, given: int, tokenizer: Any, tmp_path: Path
) -> None:
    config = TrainingConfig(condition_on_prev_probability=1.0)
    source, config = source_of(tmp_path, config, previous_text="b" * 500, text="c" * letters)
    clip = labelled(tokenizer, source, config).train[0]
    drawn = replace(clip, draw=Draw((0,), with_previous=True))
    batch = Collator(FeatureSource(WhisperFeatureExtractor(), keep=False), 3000, print)([drawn])
    assert batch["decoder_input_ids"].shape == batch["labels"].shape == torch.Size([1, given])


def test_chance_decides_which_clips_get_their_previous_text() -> None:
    augmentation = Augmentation(TrainingConfig(condition_on_prev_probability=0.3))
    share = sum(augmentation.draw(0, number, 1.0).with_previous for number in range(1000)) / 1000
    assert augmentation.config.changes_clips and share == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("changes", [{}, {"label_smoothing_factor": 0.1}])
def test_a_run_learns_with_previous_text_and_packed_clips(
    changes: dict[str, Any], runs: Runs, tmp_path: Path
) -> None:
    tones = make_tones(tmp_path, count=24, previous_text="said before")
    windows = {"pack_clips": True, "max_audio_len": 3.0, "condition_on_prev_probability": 0.5}
    run = runs.finished(train_data=str(tones), num_train_epochs=1.0, **windows, **changes)
    (data,) = told(run, "data")
    assert data["train_samples"] == 8, "22 clips in windows of three"


@pytest.mark.parametrize(
    ("text", "heard", "expected"),
    [
        ("Turn it on, please!", [" turn it on", " Please."], ["Turn it on,", "please!"]),
        ("打开灯，好吗？", ["打开灯", "好吗"], ["打开灯，", "好吗？"]),
        (
            "Cafe\u0301 ferme\u0301. Alle\u0301!",
            ["Café fermé.", " Allé!"],
            ["Cafe\u0301 ferme\u0301.", "Alle\u0301!"],
        ),
        (
            normalize("NFD", "안녕 여러분."),
            ["안녕", " 여러분."],
            [normalize("NFD", "안녕"), normalize("NFD", "여러분.")],
        ),
        ("ｶﾞｷﾞｸﾞ", ["ガギ", "グ"], ["ｶﾞｷﾞ", "ｸﾞ"]),
        ("turn it on", [" turn it off"], []),
        ("turn it on", [], []),
    ],
)
def test_a_text_is_cut_where_the_model_was_and_only_if_it_agrees(
    text: str, heard: list[str], expected: list[str]
) -> None:
    segments = [TextSegment(float(n), n + 0.8, part) for n, part in enumerate(heard)]
    assert [segment.text for segment in cut_like(text, segments)] == expected


def test_the_real_whisper_times_real_speech(whisper_tiny: Path, real_speech: Path) -> None:
    decoder = adapters.load_training_base(whisper_tiny, TrainingConfig(), adapters.Precision("fp32")).decoder
    text = (
        "And so, my fellow Americans, ask not what your country can do for you, "
        "ask what you can do for your country."
    )
    path = next((real_speech / "jfk").glob("*.flac"))
    example = Example(path, text, "en", None, None, None, 11.0, (), 1)
    wrong = replace(example, text="ask not what nobody said")
    (timed, kept), count = with_made_times(
        [example, wrong], decoder, lambda _: "en", "transcribe", lambda: None
    )
    assert kept == wrong, "its words are others: no times are made up"
    assert count == 1 and " ".join(segment.text for segment in timed.segments) == text
    assert 9.0 < timed.segments[-1].end_seconds <= 11.0


def test_previous_text_noise_and_short_windows_go_together_and_can_be_resumed(
    runs: Runs, tmp_path: Path
) -> None:
    changes = {
        "train_data": str(make_tones(tmp_path / "tones", count=12, previous_text="said before")),
        "short_audio": "on",
        "padded_share": 0.5,
        "condition_on_prev_probability": 0.5,
        "noise_prob": 0.5,
        "speed_prob": 0.5,
        "no_speech_share": 0.2,
        "num_train_epochs": 1.0,
    }
    whole, broken = runs.finished("whole", **changes), runs.broken(2, **changes)
    last = max(whole.checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])).name
    assert_same_weights(whole.checkpoints / last, broken.checkpoints / last)
