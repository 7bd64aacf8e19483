"""Short clips one after the other in windows of up to 30 s, as Whisper's own training has them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from studio.dataset.example import Example, TextSegment
from studio.dataset.sequences import store
from studio.evaluation.normalize import writes_without_spaces

_AROUND = 8
"""Tokens of a label beside its texts and their times."""


def packed(
    examples: Sequence[Example],
    encode: Callable[[str], list[int]],
    longest_seconds: float,
    longest_label: int,
) -> Sequence[Example]:
    """Examples whose `parts` are clips of one language, task and speaker, in the order of the list.

    No sound is longer than `longest_seconds`, no label than `longest_label` tokens. A packed example has the
    times of its parts' segments; a part without any is one segment.
    """
    return store(map(_joined, _groups(examples, encode, longest_seconds, longest_label)))


def _groups(
    examples: Sequence[Example],
    encode: Callable[[str], list[int]],
    longest_seconds: float,
    longest_label: int,
) -> Iterator[list[Example]]:
    open_groups: dict[tuple[str | None, ...], tuple[list[Example], float, int]] = {}
    for example in examples:
        key = (example.language, example.task, example.speaker)
        seconds = example.duration_seconds or longest_seconds
        length = len(encode(f" {example.text}")) + 2 * max(1, len(example.segments))
        group, so_far, tokens = open_groups.get(key, ([], 0.0, _AROUND))
        is_full = so_far + seconds > longest_seconds or tokens + length > longest_label
        if group and is_full:
            yield group
            group, so_far, tokens = [], 0.0, _AROUND
        group.append(example)
        open_groups[key] = (group, so_far + seconds, tokens + length)
    for group, _, _ in open_groups.values():
        yield group


def _joined(parts: list[Example]) -> Example:
    if len(parts) == 1:
        return parts[0]
    segments: list[TextSegment] = []
    start = 0.0
    for part in parts:
        seconds = part.duration_seconds or 0.0
        own = part.segments or ((TextSegment(0.0, seconds, part.text),) if part.text else ())
        segments += [
            TextSegment(start + segment.start_seconds, start + segment.end_seconds, segment.text)
            for segment in own
        ]
        start += seconds
    space = "" if writes_without_spaces(parts[0].language or "") else " "
    return replace(
        parts[0],
        text=space.join(part.text for part in parts if part.text),
        start_seconds=None,
        end_seconds=None,
        duration_seconds=start,
        segments=tuple(segments),
        parts=tuple(parts),
    )
