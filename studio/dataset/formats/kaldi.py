"""A Kaldi data folder: `wav.scp`, `text`, and where there are such `segments`, `utt2spk` and `utt2lang`.

A recording may be the output of a command there. Here none is ever run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from studio.dataset.columns import Wanted
from studio.dataset.delimited import Row, open_text
from studio.dataset.tables import check_text
from studio.errors import ManifestError

RECORDINGS = "wav.scp"
_TEXTS = ("text", "text.txt", "trans.txt")
"""As Kaldi, FunASR and AISHELL-2 have it; the first that is there."""
_ABOUT = ("utt2spk", "utt2lang")
_IN_ARCHIVE = re.compile(r"\.ark:\d+(\[[\d:,]*\])?$")


class _Entry(NamedTuple):
    line: int
    value: str


def is_part(path: Path) -> bool:
    """Whether a file is of such a folder, and not the one that lists its recordings."""
    return path.name in (*_TEXTS, "segments", *_ABOUT) and path.with_name(RECORDINGS).is_file()


def rows(folder: Path, wanted: Wanted) -> Iterator[Row]:
    """A row an utterance, in the order of `segments` or, where there is none, of `wav.scp`.

    Raises:
        ManifestError: if one of the files cannot be read, or there is no `text` where it is needed.
    """
    recordings, repeated = _table(folder / RECORDINGS)
    listed = next((path for path in map(folder.joinpath, _TEXTS) if path.is_file()), folder / _TEXTS[0])
    if wanted.needs_text and not listed.is_file():
        raise ManifestError(
            "The Kaldi folder {folder} has no file named text: add one with a line for each utterance, "
            "its id and what is said.",
            folder=folder,
        )
    texts, repeated_texts = _table(listed)
    utterances, repeated_utterances = _table(folder / "segments")
    about = {name: _table(folder / name)[0] for name in _ABOUT}
    clips = (_slices if utterances else _whole)(utterances or recordings, recordings)
    return chain(_rows(clips, {"text": texts, **about}), repeated, repeated_texts, repeated_utterances)


def _table(path: Path) -> tuple[Mapping[str, _Entry], Sequence[Row]]:
    """What stands behind the first word of each line, and a row with the reason for each word that comes
    again with something else; nothing if there is no such file.
    """
    found: dict[str, _Entry] = {}
    again: list[Row] = []
    if not path.is_file():
        return found, again
    check_text(path)
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            name, _, value = line.strip().replace("\t", " ").partition(" ")
            entry = _Entry(number, value.strip())
            if name and found.setdefault(name, entry).value != entry.value:
                problem = ManifestError(
                    "The id {name} stands in {file} a second time: its first line counts.",
                    name=name,
                    file=path.name,
                )
                again.append(Row(number, {}, problem))
    return found, again


_Clip = tuple[str, Row]
"""The id of an utterance, and where its sound is."""


def _whole(utterances: Mapping[str, _Entry], _recordings: Mapping[str, _Entry]) -> Iterator[_Clip]:
    """Recordings that are one utterance each."""
    for name, entry in utterances.items():
        yield name, _sound(entry.line, entry.value)


def _slices(utterances: Mapping[str, _Entry], recordings: Mapping[str, _Entry]) -> Iterator[_Clip]:
    """`recording start end`; -1 is the recording's end."""
    for name, (line, value) in utterances.items():
        fields = value.split()
        if len(fields) != 3:
            problem = ManifestError(
                "The utterance has {count} fields behind its id, where recording, start and end are needed.",
                count=len(fields),
            )
            yield name, Row(line, {}, problem)
        elif (recording := recordings.get(fields[0])) is None:
            problem = ManifestError("The recording {name} is not in wav.scp.", name=fields[0])
            yield name, Row(line, {}, problem)
        else:
            end = None if fields[2] == "-1" else fields[2]
            sound = _sound(line, recording.value)
            yield name, sound._replace(values={**sound.values, "start_time": fields[1], "end_time": end})


def _sound(line: int, value: str) -> Row:
    if value.startswith("|") or value.endswith("|"):
        return Row(line, {}, not_a_file("command"))
    if _IN_ARCHIVE.search(value):
        problem = ManifestError(
            "{audio} is in an archive of Kaldi, which is not read: write sound files with wav-copy "
            "scp:wav.scp scp:files.scp (files.scp: on each line the id and the path of a file to write), and "
            "make files.scp the new wav.scp.",
            audio=value,
        )
        return Row(line, {}, problem)
    return Row(line, {"audio": value})


def not_a_file(kind: str) -> ManifestError:
    """What to say of sound that somebody would have to run or to fetch."""
    return ManifestError(
        "The sound is a {kind} and no file, and nothing is run or fetched: save it as a sound file and "
        "name that.",
        kind=kind,
    )


def _rows(clips: Iterator[_Clip], about: Mapping[str, Mapping[str, _Entry]]) -> Iterator[Row]:
    texts = dict(about["text"])
    nothing = _Entry(0, "")
    for name, sound in clips:
        speaker = about["utt2spk"].get(name, nothing).value
        values = {
            **sound.values,
            "text": texts.pop(name, nothing).value,
            # Where nobody knows who speaks, Kaldi has the utterance for its own speaker.
            "speaker": speaker if speaker != name else None,
            "language": about["utt2lang"].get(name, nothing).value,
        }
        yield sound._replace(values=values)
    for name, entry in texts.items():
        problem = ManifestError("The text belongs to {name}, for which there is no sound.", name=name)
        yield Row(entry.line, {}, problem)
