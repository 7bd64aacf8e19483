"""Manifests to labels: what the decoder is taught, row by row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import WhisperTokenizer
from transformers.models.whisper.modeling_whisper import shift_tokens_right

from studio.dataset.manifest import TextSegment
from studio.errors import ConfigError, ManifestError
from studio.options.training import TrainingConfig
from studio.training.data.clips import TrainingData, label_data, undecided
from studio.training.data.collator import padded_labels
from studio.training.data.sources import SourceData
from studio.training.run_plan import RunPlan
from studio.transcription.special_tokens import SpecialTokens
from tests.micro import make_tones
from tests.reading import read_source


@pytest.fixture(scope="module")
def tokenizer(micro_model: Path) -> Any:
    return WhisperTokenizer.from_pretrained(micro_model)


def labelled(
    tokenizer: Any,
    source: SourceData,
    config: TrainingConfig,
    detected: str | None = None,
    multilingual: bool = True,
) -> TrainingData:
    tokens = SpecialTokens.of(tokenizer, is_multilingual=multilingual)
    return label_data(
        source,
        config,
        tokens,
        lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        detected,
        448,
    )


def source_of(
    folder: Path, config: TrainingConfig | None = None, **row: Any
) -> tuple[SourceData, TrainingConfig]:
    manifest = make_tones(folder, count=4, **row)
    config = config or TrainingConfig()
    config = TrainingConfig(**{**vars(config), "train_data": str(manifest), "test_data": str(manifest)})
    return read_source(config), config


def spelled(tokenizer: Any, labels: tuple[int, ...]) -> str:
    return str(tokenizer.decode(list(labels), decode_with_timestamps=True))


def test_a_label_is_language_task_no_times_text_end(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, text="turn it on")
    clip = labelled(tokenizer, source, config).train[0]
    assert spelled(tokenizer, clip.labels) == "<|en|><|transcribe|><|notimestamps|> turn it on<|endoftext|>"


def test_languages_without_spaces_get_none_in_front(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, text="打开灯", language="Chinese")
    clip = labelled(tokenizer, source, config).train[0]
    assert spelled(tokenizer, clip.labels) == "<|zh|><|transcribe|><|notimestamps|>打开灯<|endoftext|>"


def test_the_decoder_begins_with_one_start_token(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path)
    tokens = SpecialTokens.of(tokenizer, is_multilingual=True)
    rows = [clip.labels for clip in labelled(tokenizer, source, config).train]
    inputs = shift_tokens_right(padded_labels(rows), tokens.end, tokens.start)
    assert (inputs == tokens.start).sum(dim=1).tolist() == [1] * len(rows)
    assert (inputs[:, 0] == tokens.start).all()
    head = [tokens.start, tokens.languages["en"], tokens.tasks["transcribe"], tokens.no_timestamps]
    assert inputs[0, :4].tolist() == head


def test_labels_are_padded_with_what_the_loss_passes_over() -> None:
    assert torch.equal(padded_labels([[1, 2, 3], [4]]), torch.tensor([[1, 2, 3], [4, -100, -100]]))


def test_an_english_model_has_no_language_and_no_task(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, text="hi")
    clip = labelled(tokenizer, source, config, multilingual=False).train[0]
    assert spelled(tokenizer, clip.labels) == "<|notimestamps|> hi<|endoftext|>"


def test_an_english_model_refuses_another_language(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, language="de")
    with pytest.raises(ConfigError, match="English only"):
        labelled(tokenizer, source, config, multilingual=False)


def test_segments_are_taught_with_their_times(tokenizer: Any, tmp_path: Path) -> None:
    times = [{"start": 0.0, "end": 0.41, "text": "one"}, {"start": 0.5, "end": 1.0, "text": "two"}]
    source, config = source_of(tmp_path, TrainingConfig(timestamps=True), sentences=times)
    assert source.train_examples[0].segments[0] == TextSegment(0.0, 0.41, "one")
    clip = labelled(tokenizer, source, config).train[0]
    assert spelled(tokenizer, clip.timed_labels) == (
        "<|en|><|transcribe|><|0.00|> one<|0.40|><|0.50|> two<|1.00|><|endoftext|>"
    )


def test_evaluation_clips_have_no_times(tokenizer: Any, tmp_path: Path) -> None:
    times = [{"start": 0.0, "end": 1.0, "text": "one"}]
    source, config = source_of(tmp_path, sentences=times)
    data = labelled(tokenizer, source, config)
    assert all(clip.timed_labels for clip in data.train)
    assert not any(clip.timed_labels for clip in data.evaluation)


def test_no_clip_is_taught_with_times_where_that_is_switched_off(tokenizer: Any, tmp_path: Path) -> None:
    times = [{"start": 0.0, "end": 1.0, "text": "one"}]
    source, config = source_of(tmp_path, TrainingConfig(timestamps=False), sentences=times)
    assert not any(clip.timed_labels for clip in labelled(tokenizer, source, config).train)


def test_rows_without_segments_are_taught_without_times(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, TrainingConfig(timestamps=True))
    clip = labelled(tokenizer, source, config).train[0]
    assert "<|notimestamps|>" in spelled(tokenizer, clip.labels) and not clip.timed_labels


def test_special_tokens_in_a_text_are_text(micro_model: Path, tmp_path: Path) -> None:
    from studio.training import adapters

    config = TrainingConfig()
    decoder = adapters.load_training_base(micro_model, config, adapters.Precision("fp32")).decoder
    assert decoder.tokens.end not in decoder.tokens_of("a <|endoftext|> b")


def test_the_runs_language_wins_over_the_rows(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, TrainingConfig(language="German"), language="en")
    assert {clip.language for clip in labelled(tokenizer, source, config).train} == {"de"}


def test_rows_without_a_language_get_the_detected_one(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, language=None)
    assert len(list(undecided(source, config))) == 8
    assert {clip.language for clip in labelled(tokenizer, source, config, detected="fr").train} == {"fr"}


def test_nobody_listens_where_the_language_is_known(tmp_path: Path) -> None:
    assert not [*undecided(*source_of(tmp_path / "rows", language="en"))]
    assert not [*undecided(*source_of(tmp_path / "run", TrainingConfig(language="en"), language=None))]


def test_labels_are_normalised_if_asked(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, TrainingConfig(normalizer="basic"), text="Turn, it ON!")
    clip = labelled(tokenizer, source, config).train[0]
    assert " turn it on" in spelled(tokenizer, clip.labels)


def test_a_label_that_is_too_long_is_skipped_and_named(tokenizer: Any, tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=4)
    rows = manifest.read_text(encoding="utf-8").splitlines()
    rows[2] = rows[2].replace("sharp", "x" * 500)
    manifest.write_text("\n".join(rows), encoding="utf-8")
    config = TrainingConfig(train_data=str(manifest), test_data=str(manifest))
    data = labelled(tokenizer, read_source(config), config)
    assert len(data.train) == 3, "left out, not replaced"
    assert [problem.line for problem in data.problems] == [3, 3]
    assert "505 tokens" in str(data.problems[0].reason)


def test_clips_out_of_bounds_are_skipped_and_named(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=4, seconds=1.0)
    with pytest.raises(ManifestError, match=r"lasts 1\.00 s, and min_audio_len is 2 s"):
        read_source(TrainingConfig(train_data=str(manifest), min_audio_len=2.0))
    with pytest.raises(ManifestError, match=r"max_audio_len is 0\.5 s"):
        read_source(TrainingConfig(train_data=str(manifest), max_audio_len=0.5))


def test_a_share_is_kept_back_for_evaluation_the_same_each_time(tmp_path: Path) -> None:
    manifest = make_tones(tmp_path, count=10)
    config = TrainingConfig(train_data=str(manifest), validation_share=0.3)
    first, second = read_source(config), read_source(config)
    assert (len(first.train_examples), len(first.eval_examples)) == (7, 3)
    assert first.eval_examples == second.eval_examples
    assert not {e.line for e in first.train_examples} & {e.line for e in first.eval_examples}
    other = read_source(TrainingConfig(train_data=str(manifest), validation_share=0.3, seed=1))
    assert other.eval_examples != first.eval_examples


def test_one_clip_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="single usable clip"):
        read_source(TrainingConfig(train_data=str(make_tones(tmp_path, count=1))))


def test_samples_can_be_limited_and_runs_on_fewer_clips_are_evaluated_on_the_same(tmp_path: Path) -> None:
    manifest = str(make_tones(tmp_path, count=10))
    config = TrainingConfig(train_data=manifest, test_data=manifest, max_train_samples=3, max_eval_samples=2)
    source = read_source(config)
    assert (len(source.train_examples), len(source.eval_examples)) == (3, 2)
    assert read_source(replace(config, max_train_samples=5)).eval_examples == source.eval_examples


def test_what_counts_is_decided_by_the_language_that_is_written(tokenizer: Any, tmp_path: Path) -> None:
    for task, metric in (("transcribe", "cer"), ("translate", "wer")):
        source, config = source_of(tmp_path, TrainingConfig(task=task), language="zh")
        data = labelled(tokenizer, source, config)
        assert RunPlan.of(config, data, 384, "full").metric == metric


def test_translation_is_taught_with_a_space_whatever_is_spoken(tokenizer: Any, tmp_path: Path) -> None:
    source, config = source_of(tmp_path, TrainingConfig(task="translate"), language="zh", text="turn it on")
    clip = labelled(tokenizer, source, config).train[0]
    assert spelled(tokenizer, clip.labels).startswith("<|zh|><|translate|><|notimestamps|> turn")
