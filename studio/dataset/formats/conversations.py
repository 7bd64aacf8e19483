"""Rows of ms-swift and LLaMA-Factory: conversations about a sound, in which the answer is its text."""

from collections.abc import Iterator, Mapping
from typing import Any

from studio.errors import ManifestError

_ASSISTANTS = ("assistant", "gpt")


def is_one(row: Mapping[str, Any]) -> bool:
    """Whether a row of JSON is a conversation."""
    return isinstance(_turns(row), list)


def clips_of(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The one clip of a conversation.

    Raises:
        ManifestError: if it has not a single sound and a single answer.
    """
    sounds = row.get("audios", row.get("audio", []))
    sounds = sounds if isinstance(sounds, list) else [sounds]
    turns = [turn for turn in _turns(row) if isinstance(turn, Mapping)]
    answers = [turn for turn in turns if turn.get("role", turn.get("from")) in _ASSISTANTS]
    if len(sounds) != 1 or len(answers) != 1:
        raise ManifestError(
            "The conversation has {sounds} sounds and {answers} answers, where one of each is needed.",
            sounds=len(sounds),
            answers=len(answers),
        )
    text = answers[0].get("content", answers[0].get("value"))
    yield {"audio": sounds[0], "text": text, "language": row.get("language")}


def _turns(row: Mapping[str, Any]) -> Any:
    return row.get("messages", row.get("conversations"))
