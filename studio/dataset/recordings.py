"""Sentences read aloud: a list, a clip a sentence, and a manifest that grows with each.

A session is a folder: `session.json` (name, language, speaker, sentences), the clips, and `metadata.jsonl`,
which `read_manifest` reads. What is there is the only record: whoever comes back goes on where it ends.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import save_pcm
from studio.errors import AudioError, ConfigError
from studio.files import read_json, read_json_lines, storage_errors, write_json, write_text
from studio.options.sources import checked_name

SCHEMA_VERSION = 1
SHORTEST_SECONDS, LONGEST_SECONDS = 0.3, 30.0
SILENT_PEAK = 0.003
"""A recording whose loudest sample is below this (-50 dB) has nobody in it."""
_QUIETER_DB = 40.0
"""What is so much quieter than the loudest moment, at either end, is silence of the room."""
_FRAME_SECONDS = 0.04
_MARGIN_SECONDS = 0.25
"""Kept on both sides of what was read: it begins and ends softly."""
_MOST_SENTENCES = 10_000
_LONGEST_SENTENCE = 500


@dataclass(frozen=True)
class Session:
    """A list of sentences and the clips that were read from it."""

    folder: Path
    name: str
    language: str
    """Name or code; `auto` if nobody said."""
    speaker: str
    sentences: tuple[str, ...]
    clips: Mapping[int, float]
    """Number of the sentence, from 0 → length of its clip in seconds."""

    @property
    def manifest(self) -> Path:
        """The list of clips with their sentences; there as soon as there is a clip."""
        return self.folder / "metadata.jsonl"

    @property
    def next_unread(self) -> int:
        """The first sentence without a clip; the last sentence if all have one."""
        unread = (number for number in range(len(self.sentences)) if number not in self.clips)
        return next(unread, len(self.sentences) - 1)

    @property
    def minutes(self) -> float:
        """Length of all clips."""
        return sum(self.clips.values()) / 60

    def clip(self, number: int) -> Path | None:
        """The clip of a sentence, if there is one."""
        return self.folder / _clip_name(number) if number in self.clips else None

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "language": self.language,
            "speaker": self.speaker,
            "sentences": len(self.sentences),
            "recorded": len(self.clips),
            "minutes": self.minutes,
            "manifest": str(self.manifest),
        }


def begin_session(root: Path, name: str, text: str, language: str = "auto", speaker: str = "") -> Session:
    """A new session in a folder of `root`; `text` has a sentence a line. One that is there already goes on.

    Raises:
        ConfigError: if the name or the sentences cannot be used, or a session of that name has others, or
            is in another language or of another speaker.
        StorageError: if the folder cannot be written.
    """
    name = checked_name(name)
    language, speaker = language.strip() or "auto", speaker.strip()
    sentences = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not sentences:
        raise ConfigError("There is no sentence to read: give one a line.")
    if len(sentences) > _MOST_SENTENCES or max(map(len, sentences)) > _LONGEST_SENTENCE:
        raise ConfigError(
            "The list has {count} sentences of up to {longest} characters: at most {most} sentences of "
            "{length} characters can be used.",
            count=len(sentences),
            longest=max(map(len, sentences)),
            most=_MOST_SENTENCES,
            length=_LONGEST_SENTENCE,
        )
    folder = root / name
    if (folder / "session.json").is_file():
        there = open_session(root, name)
        if there.sentences != sentences:
            raise ConfigError(
                "There is a list {name} with other sentences: choose it to continue, or another name.",
                name=name,
            )
        if language not in ("auto", there.language) or speaker not in ("", there.speaker):
            raise ConfigError(
                "There is a list {name} with the language {language} and the speaker {speaker!r}: leave both "
                "as they are to continue it, or choose another name.",
                name=name,
                language=there.language,
                speaker=there.speaker,
            )
        return there
    values = {"name": name, "language": language, "speaker": speaker}
    write_json(
        folder / "session.json", {"schema_version": SCHEMA_VERSION, **values, "sentences": list(sentences)}
    )
    return open_session(root, name)


def open_session(root: Path, name: str) -> Session:
    """A session that is there.

    Raises:
        ConfigError: if there is none of that name, or its file is broken.
    """
    folder = root / checked_name(name)
    try:
        values = read_json(folder / "session.json")
        sentences = tuple(str(sentence) for sentence in values["sentences"])
        language, speaker = str(values["language"]), str(values["speaker"])
        if not sentences or not isinstance(values["sentences"], list):
            raise ValueError("no sentences")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("There is no list of sentences {name!r}.", name=name) from error
    rows = read_json_lines(folder / "metadata.jsonl")[0]
    clips = dict(pair for row in rows if (pair := _clip_of(row, folder, len(sentences))))
    return Session(folder, name, language, speaker, sentences, clips)


def sessions(root: Path) -> list[Session]:
    """All sessions that can be opened, the one worked on last first."""
    folders = [path for path in root.glob("*") if (path / "session.json").is_file()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    found = []
    for path in folders:
        with suppress(ConfigError):  # a broken one hides no other
            found.append(open_session(root, path.name))
    return found


def keep_clip(session: Session, number: int, samples: NDArray[np.generic], rate: int) -> Session:
    """Writes the clip of a sentence (over one that is there) and the manifest; the session as it is now.

    `samples` are as the microphone gave them, at `rate` Hz; the silence at both ends is left out.

    Raises:
        AudioError: if the recording is too short, too long or silent.
        StorageError: if it cannot be written.
    """
    if not 0 <= number < len(session.sentences):
        raise ConfigError("The list has no sentence {number}.", number=number + 1)
    samples = without_silence(samples, rate)
    seconds = len(samples) / rate if rate else 0.0
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise AudioError(
            "The recording is {seconds:.1f} s long: {low:g} to {high:g} s can be used. Read it again.",
            seconds=seconds,
            low=SHORTEST_SECONDS,
            high=LONGEST_SECONDS,
        )
    path = session.folder / _clip_name(number)
    whole = samples.astype(np.float64)
    scale = float(np.iinfo(samples.dtype.name).max) if samples.dtype.kind in "iu" else 1.0
    if float(np.abs(whole).max()) / scale < SILENT_PEAK:
        raise AudioError("The recording is silent: check the microphone, then read the sentence again.")
    clips = {**session.clips, number: round(seconds, 3)}
    rows = [_row(session, each, clips[each]) for each in sorted(clips)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    new, before = (path.with_name(f".{word}-{path.name}") for word in ("new", "before"))
    save_pcm(samples, rate, new)
    try:
        with storage_errors(path):
            was_there = path.is_file()
            if was_there:
                path.replace(before)
            try:
                new.replace(path)
                write_text(session.manifest, lines)
            except BaseException:  # the list still tells of the clip that was there
                path.unlink(missing_ok=True)
                if was_there:
                    before.replace(path)
                raise
    finally:
        for aside in (new, before):
            aside.unlink(missing_ok=True)
    return open_session(session.folder.parent, session.name)


def without_silence(samples: NDArray[np.generic], rate: int) -> NDArray[np.generic]:
    """A recording, (samples,) or (samples, channels) at `rate` Hz, from shortly before its first sound to
    shortly behind its last one.
    """
    # librosa.effects.trim does the same; its first call compiles for half a minute.
    loudness = np.abs(samples.astype(np.float32))
    loudness = loudness.max(axis=1) if loudness.ndim == 2 else loudness
    frame = round(rate * _FRAME_SECONDS)
    count = len(loudness) // frame if frame else 0
    levels = np.sqrt(np.square(loudness[: count * frame]).reshape(max(count, 1), -1).mean(axis=1))
    heard = np.flatnonzero(levels > levels.max(initial=0.0) * 10 ** (-_QUIETER_DB / 20))
    if not len(heard):
        return samples
    margin = round(rate * _MARGIN_SECONDS)
    return samples[max(0, heard[0] * frame - margin) : (heard[-1] + 1) * frame + margin]


def delete_session(root: Path, name: str) -> None:
    """Removes a session with all its clips.

    Raises:
        ConfigError: if there is none.
    """
    folder = open_session(root, name).folder
    with storage_errors(folder):
        shutil.rmtree(folder)


def _clip_of(row: Mapping[str, Any], folder: Path, sentences: int) -> tuple[int, float] | None:
    """Number and length of the clip of a row; None if it tells of none that is there."""
    number, seconds = row.get("number"), row.get("duration")
    if type(number) is not int or not isinstance(seconds, int | float):
        return None
    is_there = 0 <= number < sentences and (folder / _clip_name(number)).is_file()
    return (number, float(seconds)) if is_there and 0 < seconds <= LONGEST_SECONDS else None


def _row(session: Session, number: int, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "audio": {"path": _clip_name(number)},
        "sentence": session.sentences[number],
        "duration": seconds,
        "number": number,
    }
    if session.language != "auto":
        row["language"] = session.language
    if session.speaker:
        row["speaker"] = session.speaker
    return row


def _clip_name(number: int) -> str:
    return f"{number + 1:05d}.flac"
