"""Which script of Chinese texts are written in: where a model writes another one, each character counts as
an error.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from studio.chinese import SIMPLIFIED, converted, counts, has_kana, main_script
from studio.evaluation.metrics import error_rates
from studio.messages import Joined, Message


def scripts_of(texts: Sequence[str]) -> dict[str, int]:
    """How many texts are mostly `simplified`, and `traditional`; a text that is alike in both is neither.

    Empty where one of them holds kana: kanji are of neither script.
    """
    if any(map(has_kana, texts)):
        return {}
    return dict(Counter(script for text in texts if (script := main_script(text))))


def errors_in_one_script(references: Sequence[str], hypotheses: Sequence[str]) -> float | None:
    """The CER with all texts in one script; None, unless the references are Chinese."""
    if not scripts_of(references):
        return None
    given, heard = ([converted(text, SIMPLIFIED) for text in side] for side in (references, hypotheses))
    return error_rates(given, heard).cer


def script_sentences(found: Mapping[str, Any]) -> list[Message]:
    """What each model of an evaluation, as JSON, writes where the references are Chinese; what to do where
    characters of another script, or capitals, make errors of what is none.
    """
    if not found["reference_scripts"]:
        return _of_capitals(found)
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


def _of_capitals(found: Mapping[str, Any]) -> list[Message]:
    rates = {(row["normalizer"], row["model"]): row["wer"] for row in found["normalizers"]}
    models = [row["id"] for row in found["models"] if row["normalizer"] == "none"]
    odd = [
        each for each in models if 3 * rates.get(("lowercase", each), inf) < 2 * rates.get(("none", each), 0)
    ]
    caution = Message(
        "More than a third of the errors of {models} are capitals alone: the text normalization lowercase "
        "counts none of these.",
        models=Joined(tuple(odd)),
    )
    return [caution] if odd else []


def other_script_sentences(
    reference: str, written: Mapping[str, str], name: Callable[[str], str] = str
) -> list[Message]:
    """Which models (id → text) write one recording in characters of another script than its reference, each
    an error; what to do about it. `name` gives what a model is called.

    Nothing, unless the reference is Chinese.
    """
    (script,) = scripts_of([reference]) or ("",)
    if not script:
        return []
    other = 1 if script == SIMPLIFIED else 0
    found = {
        model: counts(text)[other] - counts(reference)[other]
        for model, text in written.items()
        if not has_kana(text)
    }
    said = [_of_other_script(script, name(id), count) for id, count in found.items() if count > 0]
    return [*said, _IN_ONE_SCRIPT] if said else []


def _of_other_script(script: str, model: str, count: int) -> Message:
    if script == SIMPLIFIED:
        return Message(
            "{model} writes traditional characters ({count}) where the reference is simplified: they count "
            "as errors.",
            model=model,
            count=count,
        )
    return Message(
        "{model} writes simplified characters ({count}) where the reference is traditional: they count "
        "as errors.",
        model=model,
        count=count,
    )


def counts_script(found: Mapping[str, Any]) -> bool:
    """Whether characters that are right but of another script count as errors in an evaluation, as JSON."""
    told = found["reference_scripts"]
    wanted = {max(told, key=told.get)} if told else set()
    return bool(told) and any(
        row["scripts"].keys() - wanted and row["normalizer"] != "chinese" for row in found["models"]
    )


_IN_ONE_SCRIPT = Message("The text normalization chinese of the Evaluate tab compares both in one script.")
_CAUTION = Message(
    "What is written in another script than the reference counts as wrong: the text normalization chinese "
    "compares both in one script."
)
