"""Cuts of lhotse: JSON lines, often packed with gzip, of `MonoCut` with its recording and supervisions."""

from collections.abc import Iterator, Mapping
from typing import Any

from studio.dataset.columns import ALIASES
from studio.dataset.formats.kaldi import not_a_file
from studio.errors import ManifestError

_MONO = "MonoCut"


def is_cut(row: Mapping[str, Any]) -> bool:
    """Whether a row of JSON is one, or the recording or supervision of one."""
    is_part = "sources" in row or "recording_id" in row
    return (
        str(row.get("type")).endswith("Cut")
        or {"supervisions", "recording"} <= row.keys()
        or (is_part and row.keys().isdisjoint(ALIASES["audio"]))
    )


def clips_of(cut: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cut with the studio's names.

    Raises:
        ManifestError: if it is not a stretch of one file.
    """
    yield {**_sound(cut), **_said(cut)}


def _sound(cut: Mapping[str, Any]) -> dict[str, Any]:
    """The file, and where in it the cut is.

    Raises:
        ManifestError: if it is not a stretch of one file with one channel, as it was recorded.
    """
    if cut.get("type", _MONO) != _MONO:
        raise ManifestError(
            "The cut is a {kind}, where a MonoCut is needed: save each clip as a recording of its own.",
            kind=str(cut["type"])[:40],
        )
    recording = _mapping(cut.get("recording"))
    sources = _list(recording.get("sources"))
    source = _mapping(sources[0]) if len(sources) == 1 else {}
    if not source:
        raise ManifestError(
            "The cut needs a recording with a single source, a file: of recordings and supervisions, "
            "lhotse cut simple makes cuts."
        )
    if source.get("type") != "file":
        raise not_a_file(str(source.get("type"))[:40])
    changes = recording.get("transforms") or []
    names = [str(_mapping(change).get("name")) for change in (changes if isinstance(changes, list) else [{}])]
    if any(name != "Resample" for name in names):
        raise ManifestError(
            "The recording is changed while it is read ({names}), which only lhotse does: "
            "save the clips as they should sound.",
            names=", ".join(names)[:80],
        )
    if len(_list(source.get("channels"))) > 1:
        raise ManifestError(
            "The cut is one channel of a recording with several: save each channel as a file of its own."
        )
    return {"audio": source.get("source"), "start_time": cut.get("start"), "duration": cut.get("duration")}


def _said(cut: Mapping[str, Any]) -> dict[str, Any]:
    """Text, language and speaker; several supervisions are segments with their times."""
    parts = [_mapping(part) for part in _list(cut.get("supervisions"))]
    texts = [text.strip() for text in map(_text, parts) if isinstance(text, str)]
    first = parts[0] if parts else {}
    said = {"text": next(iter(texts), ""), "language": first.get("language"), "speaker": first.get("speaker")}
    if len(parts) < 2 or not texts:
        return said
    return {**said, "text": None, "sentences": [_segment(part, cut.get("duration")) for part in parts]}


def _segment(part: Mapping[str, Any], whole: Any) -> dict[str, Any]:
    """A supervision with its times, within the cut, which is `whole` seconds long."""
    start = _number(part.get("start"))
    end = start + _number(part.get("duration"))
    return {"start": max(0.0, start), "end": min(_number(whole), end), "text": _text(part)}


def _text(part: Mapping[str, Any]) -> Any:
    """What is said; of those that Libriheavy has, the first one has capitals and marks."""
    texts = _list(_mapping(part.get("custom")).get("texts"))
    return part.get("text", next(iter(texts), None))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ManifestError("The times of a supervision are no numbers.")
    return float(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
