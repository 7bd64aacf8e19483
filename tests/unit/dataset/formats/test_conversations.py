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


def test_what_is_no_answer_about_one_sound_is_named_and_the_others_go_on(
    sound: Sound, tmp_path: Path
) -> None:
    sound("a.wav")
    several = conversation("one", "a.wav")
    several["messages"].append({"role": "assistant", "content": "two"})
    qwen = {
        "conversations": [
            {"from": "user", "value": "<audio>a.wav</audio>"},
            {"from": "assistant", "value": "x"},
        ]
    }
    rows = [
        {"messages": []},
        conversation("one", "a.wav"),
        conversation("one", "a.wav", "b.wav"),
        several,
        qwen,
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
