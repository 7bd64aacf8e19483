"""What corpora write into a text beside what is said: read where it tells something, and taken out."""

import re
from typing import Any, NamedTuple

from studio.dataset.written import IDEOGRAPH, in_one, is_tight
from studio.errors import ManifestError

_PROMPT = re.compile(
    r"\s*(?:<\|(?!\d)[\w.-]{1,40}\|>\s*)+|\s*(?:<[a-z_]{2,24}>\s*)*<(?:asr|st_[a-z]{2,3})>\s*", re.I
)
"""`<|en|><|transcribe|>` of Whisper, `<|zh|><|NEUTRAL|><|Speech|>` of SenseVoice, `<de><st_en>` of OWSM."""
_TIME = re.compile(r"<\|?(\d{1,3}\.\d\d)\|?>")
_END = re.compile(r"(?:<notimestamps>|<\|endoftext\|>|<\|?eos\|?>)\s*")
_LANGUAGE = re.compile("[a-z]{2,3}", re.I)
_NO_LANGUAGES = {"asr", "sos", "eos", "sop", "bgm"}
NO_SPEECH = "<|nospeech|>"
"""The text of a clip in which nobody speaks."""
_PUNCTUATION = {"comma": ",", "period": ".", "questionmark": "?", "exclamationpoint": "!"}
_SPELLED = re.compile(rf" ?<({'|'.join(_PUNCTUATION)})>", re.I)
"""GigaSpeech."""
_NOT_SPEECH = re.compile(
    r"(?:\s*<(?:sil|music|noise|other)>)+\s*|ignore_time_segment_in_scoring|inter_segment_gap", re.I
)
"""All that stands in a text of GigaSpeech, and of TED-LIUM, where nobody speaks, or not what is written."""
_CAPTION = re.compile(r"\d:\d\d[.,]\d+ --> \d+:")
_OF_WHISPERX = re.compile(r"\[SPEAKER_\d+\]:?\s*|\bSPEAKER_\d+:\s*")
_TWICE = re.compile(r"\(([^()]*)\)\s?/\s?\(([^()]*)\)")
_DISFLUENT = re.compile(r"(?<!\S)[bklnou]/|(?<=[가-힣])(?:/(?=[\s.,?!]|$)|[+*]+)")
"""Korean of AIHub (KsponSpeech): `(3시)/(세 시)` is written and spoken so, `b/` and `n/` are breath, noise,
`음/` fills a pause, `만나+` is said again, `확률*` not clear."""
_PROSODY = re.compile(rf"(?<=[{IDEOGRAPH}])#[1-4](?!\d)")
"""Pauses, as lists for voices have them (`卡尔普#2陪外孙#1玩滑梯#4`)."""
_HANGUL = re.compile("[가-힣]")


class Marked(NamedTuple):
    """A text, and what its marks have told."""

    text: str
    language: str | None = None
    task: str | None = None
    written: str | None = None
    """The language that it is translated into."""
    sentences: list[dict[str, Any]] | None = None
    """Of `<|0.00|> Hello.<|1.20|>`."""


def told_by(text: str) -> Marked:
    """What the tokens of Whisper, SenseVoice or OWSM before a text tell of it, and the text without them."""
    found = _PROMPT.match(text)
    if not found and not _TIME.match(text.lstrip()):
        return Marked(text)
    names = re.findall(r"[\w.-]+", found[0].lower()) if found else []
    rest = _END.sub(" ", text[found.end() if found else 0 :])
    before, *parts = _TIME.split(rest)
    times, said = [float(time) for time in parts[::2]], [part.strip() for part in parts[1::2]]
    sentences = [
        {"start": start, "end": end, "text": part}
        for start, end, part in zip(times, times[1:], said, strict=False)
        if part
    ]
    texts = [part for part in (before.strip(), *said) if part]
    whole = in_one(texts, tight=is_tight("".join(texts)))
    language = next((n for n in names if _LANGUAGE.fullmatch(n) and n not in _NO_LANGUAGES), None)
    translated = next((name[3:] for name in names if name.startswith("st_")), None)
    return Marked(
        NO_SPEECH if "nospeech" in names and not whole else whole,
        language,
        "translate" if "translate" in names else None,
        translated,
        sentences if len(sentences) == len(texts) and sentences else None,
    )


def plain(text: str) -> str:
    """A text with its punctuation, and without what nobody says.

    Raises:
        ManifestError: if it only says that nobody speaks, or is captions.
    """
    if "<" in text or "_" in text:
        if _NOT_SPEECH.fullmatch(text.strip()):
            raise ManifestError("The text is {text}: nobody speaks there.", text=text.strip())
        text = _SPELLED.sub(lambda found: _PUNCTUATION[found[1].lower()], text)
    if "-->" in text and _CAPTION.search(text):
        raise ManifestError(
            "The text has the times of captions in it: save it as a file beside its recording."
        )
    if "SPEAKER_" in text:
        text = _OF_WHISPERX.sub("", text)
    if "#" in text and len(_PROSODY.findall(text)) > 1:  # one may be the number of a room
        text = _PROSODY.sub("", text)
    if ("/" in text or "+" in text or "*" in text) and _HANGUL.search(text):
        text = " ".join(_DISFLUENT.sub("", _TWICE.sub(r"\1", text)).split())
    return text
