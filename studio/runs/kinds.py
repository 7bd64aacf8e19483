"""Types of what a run's files hold: a value that was edited or cut off is lost, and nothing else.

Kinds are looked at once, where a file is read. A part that is of another kind is left out, as if it had never
been written; what a later version adds is left alone.
"""

from collections.abc import Mapping
from typing import Any


class Whole(dict[str, Any]):
    """A mapping of which every part is needed."""


NUMBER = (int, float)
_POINT = Whole(step=int, epoch=NUMBER, wer=NUMBER, cer=NUMBER, loss=NUMBER)
_CHECK = Whole(check=str, base=NUMBER, tuned=NUMBER, is_kept=bool)
_NON_SPEECH = Whole(words_per_hour=NUMBER, loop_rate=NUMBER, seconds=NUMBER)
_READING = Whole(is_base=bool, audio_context=str, disagreement=NUMBER, seconds=NUMBER)
RESULT = {
    "state": str,
    "error": str,
    "error_template": str,
    "error_values": {},
    "model_id": str,
    "step": int,
    "max_steps": int,
    "metrics": {"metric": str, "best_step": int, "base": _POINT, "final": _POINT},
    "memory": {"predicted": {"tensor_bytes": int}, "measured": {"device": str, "process_bytes": int}},
    "memory_bytes": int,
    "capabilities": {
        "checks": [_CHECK],
        "lost": [str],
        "unchecked": [str],
        "why_unchecked": {},
        "non_speech": Whole(base=_NON_SPEECH, tuned=_NON_SPEECH),
    },
    "short_audio": Whole(clips=int, metric=str, readings=[_READING]),
    "ended": str,
}
"""`result.json`."""
EVENT = {
    "kind": str,
    "text": str,
    "template": str,
    "values": {},
    **dict.fromkeys(("step", "max_steps", "memory_bytes", "done", "total"), int),
    **dict.fromkeys(("time", "epoch", "loss", "learning_rate", "wer", "cer", "data_wait_share"), NUMBER),
    **dict.fromkeys(("eta_seconds", "samples_per_second", "speedup"), NUMBER),
    "rows": [{"reference": str, "hypothesis": str}],
    "predicted": {"tensor_bytes": int},
    "measured": {"device": str, "process_bytes": int},
}
"""A line of `events.jsonl`."""
PROCESS = Whole(pid=int, started=NUMBER)
"""`process.json`."""
_NOTHING = object()


def fitting(value: Any, kind: Any) -> Any:
    """The parts of a JSON value that are of the kind asked for; None if it is not."""
    found = _fitting(value, kind)
    return None if found is _NOTHING else found


def _fitting(value: Any, kind: Any) -> Any:
    if isinstance(kind, list):
        return _rows(value, kind[0]) if isinstance(value, list) else _NOTHING
    if isinstance(kind, dict):
        return _parts(value, kind) if isinstance(value, Mapping) else _NOTHING
    if kind is NUMBER:
        return value if _is_number(value) else _NOTHING
    if kind is int:
        return value if _is_count(value) else _NOTHING
    return value if isinstance(value, kind) else _NOTHING


def _rows(values: list[Any], kind: Any) -> list[Any]:
    return [row for row in (_fitting(value, kind) for value in values) if row is not _NOTHING]


def _parts(values: Mapping[str, Any], kind: Mapping[str, Any]) -> Any:
    needs_all = isinstance(kind, Whole)
    parts = {
        name: _fitting(value, kind[name]) if name in kind and (needs_all or value is not None) else value
        for name, value in values.items()
    }
    kept = {name: part for name, part in parts.items() if part is not _NOTHING}
    return _NOTHING if needs_all and not kind.keys() <= kept.keys() else kept


def _is_number(value: Any) -> bool:
    """Not a boolean, nor an integer that no float holds. NaN is one: the loss of a run that diverged."""
    return isinstance(value, float) or _is_count(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
