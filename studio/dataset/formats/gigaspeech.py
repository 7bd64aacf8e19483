"""GigaSpeech and WenetSpeech: one JSON object with all recordings (`audios`), each with its segments, every
one of which says to what parts of the corpus it belongs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from studio.options.sources import split_of

LISTS = ("GigaSpeech.json", "WenetSpeech.json")
_WEAK = "w"
"""The part of WenetSpeech whose texts are doubtful."""


def is_one(row: Mapping[str, Any]) -> bool:
    """Whether a row of JSON is such a recording."""
    return isinstance(row.get("segments"), list) and {"aid", "path"} <= row.keys()


def clips_of(audio: Mapping[str, Any], split: str) -> Iterator[dict[str, Any]]:
    """The segments of a recording that belong to a split, or to a part that is called so (`XS`)."""
    for each in audio["segments"]:
        segment = each if isinstance(each, Mapping) else {}
        if _is_of(segment.get("subsets"), split):
            start, end = segment.get("begin_time"), segment.get("end_time")
            yield {
                "audio": audio["path"],
                # Without its times a segment would be the whole recording.
                "start_time": "?" if start is None else start,
                "end_time": "?" if end is None else end,
                "text": segment.get("text_tn") or segment.get("text"),
                "speaker": segment.get("speaker") or audio.get("speaker"),
                "language": audio.get("language"),
            }


def _is_of(subsets: Any, split: str) -> bool:
    """Those of the training are in no part for tests; `{XL}` and `TEST_NET` are names of parts."""
    parts = {str(part).strip("{}").lower() for part in subsets} if isinstance(subsets, list) else set()
    kind, kinds = split_of(split), {split_of(part.partition("_")[0]) for part in parts} - {""}
    if not kind:
        return split.lower() in parts
    return not parts or (kind in kinds if kind != "train" else not kinds and parts != {_WEAK})
