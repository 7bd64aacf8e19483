"""Which script of Chinese texts are written in: where a model writes another one, each character counts as
an error.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from studio.sentences import Sentence
from studio.transcription.chinese_script import main_script

REFERENCES = "references"
_KANA = re.compile(r"[\u3040-\u30ff]")
"""Japanese, whose kanji are of neither script."""


def scripts_written(
    references: Sequence[str], hypotheses: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, int]]:
    """How many texts are mostly simplified, and traditional: of the references, and of each model's.

    Empty unless the references are Chinese and hold a character that the scripts write differently.
    """
    found = _counted(references)
    if not found or any(_KANA.search(text) for text in references):
        return {}
    return {REFERENCES: found, **{model: _counted(texts) for model, texts in hypotheses.items()}}


def _counted(texts: Sequence[str]) -> dict[str, int]:
    return dict(Counter(script for text in texts if (script := main_script(text))))


def script_sentences(scripts: Mapping[str, Mapping[str, int]], normalizer: str) -> list[Sentence]:
    """What each model writes, and what to do where that makes errors of what is none."""
    if not scripts:
        return []
    wanted = max(scripts[REFERENCES], key=lambda script: scripts[REFERENCES][script])
    models = {model: counts for model, counts in scripts.items() if model != REFERENCES}
    said = [
        Sentence(
            "{model} writes simplified characters in {simplified} clips, traditional ones in {traditional}.",
            model=model,
            simplified=counts.get("simplified", 0),
            traditional=counts.get("traditional", 0),
        )
        for model, counts in models.items()
        if counts
    ]
    is_other = any(script != wanted for counts in models.values() for script in counts)
    if is_other and normalizer != "chinese":
        said.append(_CAUTIONS[wanted])
    return said


_CAUTIONS = {
    "simplified": Sentence(
        "The texts are in simplified characters, and what is written in others counts as wrong: the text "
        "normalisation chinese compares both in one script."
    ),
    "traditional": Sentence(
        "The texts are in traditional characters, and what is written in others counts as wrong: the text "
        "normalisation chinese compares both in one script."
    ),
}
