"""Rows of ms-swift, LLaMA-Factory, Qwen-Audio and FunASR: conversations about a sound, in which the answer is
its text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from studio.errors import ManifestError

_ASSISTANTS = ("assistant", "gpt")
_ASKED = re.compile(r"<audio>([^<>]+)</audio>|<\|startofspeech\|>!?([^<>]+)<\|endofspeech\|>")
"""A sound within a question, as Qwen-Audio and FunASR have it."""


def is_one(row: Mapping[str, Any]) -> bool:
    """Whether a row of JSON is a conversation."""
    return isinstance(_turns(row), list)


def clips_of(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The one clip of a conversation.

    Raises:
        ManifestError: if it has not a single sound and a single answer.
    """
    turns = [turn for turn in _turns(row) if isinstance(turn, Mapping)]
    answers = [turn for turn in turns if turn.get("role", turn.get("from")) in _ASSISTANTS]
    sounds = row.get("audios", row.get("audio"))
    if sounds is None:
        sounds = list(_sounds_in(turn for turn in turns if turn not in answers))
    sounds = sounds if isinstance(sounds, list) else [sounds]
    if len(sounds) != 1 or len(answers) != 1:
        raise ManifestError(
            "The conversation has {sounds} sounds and {answers} answers, where one of each is needed.",
            sounds=len(sounds),
            answers=len(answers),
        )
    text = _content(answers[0])
    if isinstance(text, list) and len(text) == 1 and isinstance(text[0], Mapping):
        text = text[0].get("text")
    yield {"audio": sounds[0], "text": text, "language": row.get("language")}


def _sounds_in(turns: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """What is asked about: named in the question, or a part of it."""
    for content in map(_content, turns):
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                yield from (qwen or funasr for qwen, funasr in _ASKED.findall(part))
            elif isinstance(part, Mapping) and part.get("type") == "audio":
                yield part.get("audio_url", part.get("audio"))


def _content(turn: Mapping[str, Any]) -> Any:
    return turn.get("content", turn.get("value"))


def _turns(row: Mapping[str, Any]) -> Any:
    if {"query", "response"} <= row.keys():
        return [{"content": row["query"]}, {"role": _ASSISTANTS[0], "content": row["response"]}]
    return row.get("messages", row.get("conversations"))
