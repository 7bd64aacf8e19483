"""Which script of Chinese texts are written in: where a model writes another one, each character counts as
an error.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from studio.chinese import main_script
from studio.messages import Message

_KANA = re.compile(r"[\u3040-\u30ff]")
"""Japanese, whose kanji are of neither script."""


def scripts_of(texts: Sequence[str]) -> dict[str, int]:
    """How many texts are mostly `simplified`, and `traditional`; a text that is alike in both is neither.

    Empty where one of them holds kana: kanji are of neither script.
    """
    if any(_KANA.search(text) for text in texts):
        return {}
    return dict(Counter(script for text in texts if (script := main_script(text))))


def script_sentences(found: Mapping[str, Any]) -> list[Message]:
    """What each model of an evaluation, as JSON, writes; what to do where that makes errors of what is none.

    Nothing, unless the references are Chinese.
    """
    if not found["reference_scripts"]:
        return []
    writers = [row for row in found["models"] if row["scripts"]]
    said = [
        Message(
            "{model} writes simplified characters in {simplified} clips, traditional ones in {traditional}.",
            model=row["id"],
            simplified=row["scripts"].get("simplified", 0),
            traditional=row["scripts"].get("traditional", 0),
        )
        for row in writers
    ]
    return [*said, _CAUTION] if counts_script(found) else said


def counts_script(found: Mapping[str, Any]) -> bool:
    """Whether characters that are right but of another script count as errors in an evaluation, as JSON."""
    told = found["reference_scripts"]
    wanted = {max(told, key=told.get)} if told else set()
    return bool(told) and any(
        row["scripts"].keys() - wanted and row["normalizer"] != "chinese" for row in found["models"]
    )


_CAUTION = Message(
    "What is written in another script than the reference counts as wrong: the text normalization chinese "
    "compares both in one script."
)
