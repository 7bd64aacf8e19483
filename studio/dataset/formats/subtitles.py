"""Captions or annotations beside a recording to clips: several that follow one another, with their times.

What is written for eyes alone goes: looks, who speaks, what sounds, songs. Of captions that roll up, as those
that YouTube makes, each line counts once.
"""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from studio.dataset.audio import SOUND_FILES
from studio.dataset.formats.timed_texts import ENDINGS, Caption, captions_in, is_no_list
from studio.dataset.written import in_one, is_tight
from studio.errors import ManifestError
from studio.messages import Joined

_CLIP_SECONDS = 28.0
"""A window of Whisper has 30, and captions end a little late."""
_PAUSE_SECONDS = 2.0
"""A clip has no longer pause: nobody knows what is in it."""
_LANGUAGE = re.compile(r"(.*)\.([a-z]{2}|yue)(?:-\w+)*", re.IGNORECASE | re.DOTALL)
"""`talk.en.srt`, `talk.zh-Hans.vtt`: as players and downloaders write whose words they are."""
_LOOKS = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_SOUNDS = re.compile(r"\[[^\[\]]*\](?::\s)?|^\([^()]*\)(?::\s)?|^（[^（）]*）$|^【[^【】]*】$")
_TURN = re.compile(r"^(?:(?:-|–|—|>>+)\s*)?(?:[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ0-9 .'’&#-]+:\s)?")
"""Another one speaks, whose name may follow in capitals."""
_NAME = re.compile(r"^(?:(?:-|–|—|>>+)\s*)?([^\W\d_][^:：]{0,40})(?::\s+|：\s*)(?=\S)")
_NAMED_SHARE = 0.3
"""Of captions, so many begin with a name where names are written."""
_UNSAID = re.compile(r"[♪♫♬]|\bwww\.|https?://")
"""A song, or an advertisement of who made the captions."""
_ROLLED_SHARE = 0.3
"""Captions begin so often with the last line of the one before only where they roll up."""


def by_recording(files: Iterable[Path], known: Collection[Path]) -> dict[Path, list[Path]]:
    """Recordings that are `known`, without their ending, and the captions of each among some `files`; those
    that are called as one are of no other.
    """
    found: dict[Path, list[Path]] = {}
    for path in sorted(file for file in files if file.suffix.lower() in ENDINGS):
        stem = next(filter(known.__contains__, stems_of(path)), None)
        if stem and is_no_list(path):
            found.setdefault(stem, []).append(path)
    return found


def stems_of(captions: Path) -> Iterator[Path]:
    """What a recording may be called, without its ending, whose captions these are: whisper.cpp writes
    `talk.wav.srt`.
    """
    yield (stem := captions.with_suffix(""))
    yield captions.with_name(_without_language(captions.stem)[0])
    if stem.suffix.lower() in SOUND_FILES:
        yield stem.with_suffix("")


def rows_of(sound: Path, sound_seconds: float, captions: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The clips of a recording: start and end in seconds, sentences in seconds from its beginning, and the
    language that the captions or their name tell. The last caption may stay when the sound is over.

    Captions that are called as the recording count before those whose name ends with a language.

    Raises:
        ManifestError: if captions are in several languages, have no text or cannot be read.
    """
    plain = [path for path in captions if path.stem in (sound.stem, sound.name)]
    languages = {None} if plain else {_without_language(path.stem)[1] for path in captions}
    if len(languages) > 1:
        raise ManifestError(
            "{audio} has captions in several languages ({names}): keep those of what is spoken.",
            audio=sound.name,
            names=Joined(tuple(path.name for path in captions)),
        )
    (language,) = languages
    for clip in _clips([*plain, *captions][0], sound_seconds):
        yield {**clip, "language": clip["language"] or language}


def _clips(path: Path, sound_seconds: float) -> Iterator[dict[str, Any]]:
    captions = _spoken(captions_in(path), sound_seconds)
    if not any(one.lines for one in captions):
        raise ManifestError("{path} has no caption with a text.", path=path.name)
    clip: list[Caption] = []
    for one in captions:
        end = max((each.end for each in clip), default=0.0)
        is_near = one.start - end <= _PAUSE_SECONDS
        goes_on = clip and one.lines and is_near and one.language == clip[0].language
        if clip and not (goes_on and max(one.end, end) - clip[0].start <= _CLIP_SECONDS):
            yield _row(clip)
            clip = []
        clip += [one] if one.lines else []
    if clip:
        yield _row(clip)


def _row(clip: Sequence[Caption]) -> dict[str, Any]:
    start = clip[0].start
    sentences = [
        {
            "start": round(one.start - start, 3),
            "end": round(one.end - start, 3),
            "text": in_one(list(one.lines), tight=is_tight("".join(one.lines))),
        }
        for one in clip
    ]
    end = max(one.end for one in clip)
    return {"start_time": start, "end_time": end, "sentences": sentences, "language": clip[0].language}


def _spoken(captions: Iterable[Caption], sound_seconds: float) -> list[Caption]:
    """In the order of their times, one after the other, with the lines that somebody says; none where there
    is only a sound or a song.
    """
    in_order = sorted(captions, key=lambda one: one[:3])
    plain = ((one, (_LOOKS.sub("", line).strip() for line in one.lines)) for one in in_order)
    shown = [one._replace(lines=lines) for one, read in plain if (lines := tuple(filter(None, read)))]
    rolled = [False, *(before.lines[-1] == after.lines[0] for before, after in pairwise(shown))]
    if sum(rolled) > _ROLLED_SHARE * len(shown):
        new = [one._replace(lines=one.lines[is_old:]) for one, is_old in zip(shown, rolled, strict=False)]
        shown = [one for one in new if one.lines]
    shown = _without_names(shown)
    found: list[Caption] = []
    for one in shown:
        if found and found[-1].start < one.start and found[-1].end <= one.end:  # else two speak at once
            found[-1] = found[-1]._replace(end=min(found[-1].end, one.start))
        end = min(one.end, sound_seconds) if one.start < sound_seconds else one.end
        found.append(one._replace(end=end, lines=tuple(filter(None, map(_said, one.lines)))))
    return [one for one in found if one.end > one.start]


def _without_names(captions: list[Caption]) -> list[Caption]:
    """Captions of Zoom and Teams, `Ann Lee: good morning`, without the names: few, which come again."""
    shown = [line for one in captions for line in one.lines]
    named = [name[1] for line in shown if (name := _NAME.match(line))]
    if len(named) < _NAMED_SHARE * len(shown) or 3 * len(set(named)) > 2 * len(named):
        return captions
    return [one._replace(lines=tuple(_NAME.sub("", line) for line in one.lines)) for one in captions]


def _said(line: str) -> str:
    """A line without what nobody says."""
    if _UNSAID.search(line):
        return ""
    plain = _TURN.sub("", html.unescape(line).strip())
    return " ".join(_TURN.sub("", _SOUNDS.sub(" ", plain).strip()).split())


def _without_language(stem: str) -> tuple[str, str | None]:
    found = _LANGUAGE.fullmatch(stem)
    return (found[1], found[2].lower()) if found else (stem, None)
