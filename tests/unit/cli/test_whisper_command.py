"""The command of openai-whisper, as `transcribe` takes it."""

import json
from pathlib import Path

import pytest

from studio.cli import transcribe
from studio.cli.decoding import options_of
from studio.cli.whisper_command import in_own_words
from studio.settings import Settings


def test_the_command_of_openai_whisper_writes_the_same_files(
    settings: Settings, demo_speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = str((demo_speech / "samples" / "kitchen-light.flac").resolve())
    said = "--model demo --language English --task transcribe --fp16 False --threads 1 --beam_size 1"
    how = "--temperature 0 --temperature_increment_on_fallback None --word_timestamps True -f all"
    monkeypatch.chdir(tmp_path)
    assert transcribe.run([clip, *said.split(), *how.split()], settings) == 0
    written = {path.suffix: path.read_text(encoding="utf-8") for path in tmp_path.glob("kitchen-light.*")}
    assert written.keys() == {".txt", ".srt", ".vtt", ".tsv", ".json"}
    assert all("kitchen" in text for text in written.values())
    for segment in json.loads(written[".json"])["segments"]:
        assert [word["word"] for word in segment["words"]] == segment["text"].split() != []


def test_what_openai_whisper_says_in_other_words_becomes_our_own() -> None:
    def temperatures(*words: str) -> tuple[float, ...]:
        return options_of(in_own_words(transcribe.parser().read([*words]))).temperature

    apart = "--temperature_increment_on_fallback"
    assert temperatures() == temperatures(apart, "0.2") == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert temperatures("--temperature", "0.5", apart, "0.25") == (0.5, 0.75, 1)
    assert temperatures(apart, "None") == (0,)
