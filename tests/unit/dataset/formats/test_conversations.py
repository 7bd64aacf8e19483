"""Data for models that talk about sounds are clips whose text is the answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reading import read_manifest

from .conftest import Sound, reasons, said


def conversation(text: str, *sounds: str, **others: Any) -> dict[str, Any]:
    """A row as ms-swift has it."""
    user = {"role": "user", "content": "<audio>What is said?"}
    return {"messages": [user, {"role": "assistant", "content": text}], "audios": list(sounds), **others}


SHARE_GPT = {
    "conversations": [{"from": "human", "value": "<audio>What is said?"}, {"from": "gpt", "value": "two"}],
    "audios": ["b.wav"],
}
ROWS = [conversation("one", "a.wav", language="en", prompt=5, task="asr"), SHARE_GPT]
LISTS = {
    "array.json": json.dumps(ROWS, indent=1),
    "lines.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_answer_is_the_text_of_the_sound(sound: Sound, tmp_path: Path, name: str) -> None:
    sound("a.wav")
    sound("b.wav")
    (tmp_path / name).write_text(LISTS[name], encoding="utf-8")
    for source in (tmp_path, tmp_path / name):
        manifest = read_manifest(source)
        assert said(manifest) == [("a.wav", "one"), ("b.wav", "two")] and manifest.format == "conversations"
        assert [one.language for one in manifest.examples] == ["en", None]


def asked(question: Any, answer: Any = "one") -> dict[str, Any]:
    """A conversation whose question names its sound."""
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def test_the_sound_may_be_named_in_the_question(sound: Sound, tmp_path: Path) -> None:
    sound("a.wav")
    qwen_audio = {"id": "1", "conversations": [
        {"from": "user", "value": "Audio 1: <audio>a.wav</audio>\nWhat is said?"},
        {"from": "assistant", "value": "one"},
    ]}  # fmt: skip
    part = {"type": "audio", "audio_url": "a.wav"}
    rows = [
        qwen_audio,
        {"query": "<audio>a.wav</audio>What is said?", "response": "one"},
        {"query": "<audio>What is said?", "response": "one", "audios": ["a.wav"]},
        asked("Write: <|startofspeech|>!a.wav<|endofspeech|>"),
        asked([part, {"type": "text", "text": "What is said?"}], [{"type": "text", "text": "one"}]),
        asked("<audio>a.wav</audio> or <audio>b.wav</audio>?"),
        asked([part, part, 5]),
        asked(5, "<audio>a.wav</audio>"),
    ]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    manifest = read_manifest(tmp_path / "list.jsonl")
    assert said(manifest) == [("a.wav", "one")] * 5
    assert [line for line, _ in reasons(manifest)] == [6, 7, 8]


def test_what_is_no_answer_about_one_sound_is_named_and_the_others_go_on(
    sound: Sound, tmp_path: Path
) -> None:
    sound("a.wav")
    several = conversation("one", "a.wav")
    several["messages"].append({"role": "assistant", "content": "two"})
    unnamed = {
        "conversations": [
            {"from": "user", "value": "<audio></audio>"},
            {"from": "assistant", "value": "x"},
        ]
    }
    rows = [
        {"messages": []},
        conversation("one", "a.wav"),
        conversation("one", "a.wav", "b.wav"),
        several,
        unnamed,
        {"audio": "a.wav", "text": "plain"},
        conversation("x", "gone.wav"),
        {"messages": ["x", {"role": "assistant", "content": ["y"]}], "audios": "a.wav"},
        conversation("\0", "a.wav"),
    ]
    lines = ["{", *map(json.dumps, rows), "[" * 100_000]
    (tmp_path / "list.jsonl").write_text("\n".join(lines), encoding="utf-8")
    manifest = read_manifest(tmp_path / "list.jsonl")
    assert said(manifest) == [("a.wav", "one"), ("a.wav", "plain")]
    found = reasons(manifest)
    assert [line for line, _ in found] == [1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert [reason for _, reason in found[1:5]] == [
        f"The conversation has {sounds} sounds and {answers} answers, where one of each is needed."
        for sounds, answers in ((0, 0), (2, 1), (1, 2), (0, 1))
    ]
    assert found[6][1] == "The text is ['y'], which is no text."
