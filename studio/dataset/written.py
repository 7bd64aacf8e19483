"""How a text is written: in which language, and whether with spaces between its words."""

import re
from collections.abc import Iterable

IDEOGRAPH = (
    "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Chinese characters and kana, as a pattern has them between brackets."""
_TIGHT = re.compile(rf"[{IDEOGRAPH}\u0e00-\u109f\u1780-\u17ff]")
"""A character of a script without spaces between words: Thai, Lao, Tibetan, Burmese and Khmer, too."""
_IDEOGRAPH = re.compile(f"[{IDEOGRAPH}]")
_WORD_CHARACTERS = 2.5
"""Words of Chinese and Japanese have fewer on average, phrases more."""


def written_in(language: str, task: str | None) -> str:
    """The language of the text where `language` is spoken: what is translated is English."""
    return "en" if task == "translate" else language


def is_tight(text: str) -> bool:
    """Whether most letters are of scripts without spaces between words."""
    return 2 * len(_TIGHT.findall(text)) > sum(map(str.isalnum, text))


def unspaced(text: str) -> str:
    """Chinese or Japanese as people write it: lists of corpora have spaces between words or characters, which
    are shorter than the phrases that anybody else puts a space between.
    """
    words = text.split()
    tight = [word for word in words if _IDEOGRAPH.search(word)]
    is_listed = 2 <= len(words) <= 2 * len(tight) and sum(map(len, tight)) <= _WORD_CHARACTERS * len(tight)
    return in_one(words, tight=True) if is_listed else text


def in_one(texts: Iterable[str], *, tight: bool) -> str:
    """Successive texts as one; if they are `tight`, a space stands between ASCII alone."""
    whole = ""
    for text in (text.strip() for text in texts):
        is_close = tight and not (whole[-1:].isascii() and text[:1].isascii())
        whole += text if is_close or not whole else f" {text}"
    return whole.strip()
