"""Many recordings with one loaded model, short ones together; one that fails does not stop the rest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.dataset.audio import SOUND_FILES, audio_duration, read_audio
from studio.dataset.decoders import check_file
from studio.errors import ConfigError, DataError, StudioError
from studio.files import encoding_of, files_below, in_unicode, is_folder, user_path
from studio.messages import Message
from studio.transcription.captions import safe_stem
from studio.transcription.engine import (
    SCHEMA_VERSION,
    EngineChoice,
    OnProgress,
    TranscribeOptions,
    Transcript,
)
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import WINDOWS_TOGETHER, Transcriber
from studio.transcription.windows import WINDOW_SECONDS
from studio.watching import OnStep, ShouldStop, never, untold

OnResult = Callable[[dict[str, Any], Transcript | DataError], None]
"""Told of each recording when it is done: its row, and the transcript, or why there is none."""


def transcribe_many(
    engines: ModelCache,
    model_id: str,
    paths: Sequence[Path],
    options: TranscribeOptions,
    on_result: OnResult = untold,
    should_stop: ShouldStop = never,
    on_progress: OnProgress = untold,
    *,
    choice: EngineChoice | None = None,
    on_step: OnStep = untold,
) -> list[dict[str, Any]]:
    """The rows of `--output_file`, in the order of `paths`; a recording that cannot be used has an `error`.

    If `should_stop` says so, the rows of the recordings that are finished are returned.

    Raises:
        ModelError, HubUnreachableError: if the model cannot be loaded.
        ConfigError: if the model lacks the language or the task: that would be so for each recording.
    """
    rows: list[dict[str, Any]] = []

    def tell(path: Path, found: Transcript | DataError, model: str) -> None:
        """The row of a recording that is done."""
        row = found.to_json() if isinstance(found, Transcript) else failed_row(path, model, found)
        rows.append(row)
        on_result(row, found)

    faults = [(path, fault) for path in paths if (fault := _fault_of(path))]
    if len(faults) == len(paths):  # a model takes seconds to load
        for path, fault in faults:
            tell(path, fault, engines.look_up(model_id, choice).id)
        return rows
    with engines.lease(model_id, choice, on_step) as engine:
        for group in groups(paths, options.batch_size or WINDOWS_TOGETHER):
            for path, found in _heard(engine, group, options, on_progress, should_stop):
                tell(path, found, engine.model_id)
            if should_stop():
                break
    return rows


def _fault_of(path: Path) -> DataError | None:
    """Why no file is there to be heard, as far as that is seen without opening it."""
    try:
        check_file(path)
    except DataError as error:
        return error
    return None


def groups(paths: Sequence[Path], size: int) -> Iterator[list[Path]]:
    """Short recordings that follow one another together, a long one alone; the order stays."""
    group: list[Path] = []
    for path in paths:
        is_short = _is_short(path)
        if group and (len(group) >= size or not is_short):
            yield group
            group = []
        if is_short:
            group.append(path)
        else:
            yield [path]
    if group:
        yield group


def _is_short(path: Path) -> bool:
    """Whether it fits into one window; what cannot be read goes alone, and says why later."""
    try:
        return 0 < audio_duration(path) <= WINDOW_SECONDS
    except DataError:
        return False


def _heard(
    engine: Transcriber,
    paths: Sequence[Path],
    options: TranscribeOptions,
    on_progress: OnProgress,
    should_stop: ShouldStop,
) -> Iterator[tuple[Path, Any]]:
    """Each recording and its transcript, or the `DataError` that says why there is none, as they come; if it
    is to stop, those that are finished.
    """
    if len(paths) == 1:
        try:
            found = engine.transcribe(paths[0], options, on_progress, should_stop)
        except DataError as error:
            yield paths[0], error
        else:
            if not should_stop():
                yield paths[0], found
        return
    read: dict[Path, Any] = {}
    faults: dict[Path, list[Message]] = {path: [] for path in paths}
    for path in paths:
        with suppress(DataError):  # heard alone it says why, or goes on behind the end that its header tells
            read[path] = read_audio(path, on_fault=faults[path].append)
    left, sound = list(paths), [path for path in paths if path in read]
    clips, names = [read[path] for path in sound], [str(path) for path in sound]
    for transcript in engine.transcribe_clips(clips, options, names, on_progress, should_stop):
        while left[0] not in read:
            yield from _heard(engine, [left.pop(0)], options, on_progress, should_stop)
        path = Path(transcript.audio_path)
        left.remove(path)
        yield path, replace(transcript, notes=(*transcript.notes, *faults[path]))
    for path in left:
        if path not in read:
            yield from _heard(engine, [path], options, on_progress, should_stop)


def failed_row(path: Path, model_id: str, error: StudioError) -> dict[str, Any]:
    """The row of a recording that could not be transcribed, with the reason as a sentence."""
    return {
        "schema_version": SCHEMA_VERSION,
        "audio_path": in_unicode(path),
        "text": "",
        "language": "",
        "language_probabilities": {},
        "duration_seconds": 0.0,
        "model": model_id,
        "engine": "",
        "real_time_factor": 0.0,
        "segments": [],
        "error": str(error),
    }


# ---------------------------------------------------------------------- which recordings


def recordings_named(names: Sequence[Path], audio_list: Path | None = None) -> list[Path]:
    """Recordings, those in folders and below them, and those of a list (a text file, or a folder), in order.

    Raises:
        ConfigError: if a folder holds none, or the list cannot be read.
    """
    named = list(names)
    if audio_list:
        named += [audio_list] if is_folder(audio_list) else _listed(audio_list)
    return [path for name in named for path in (_inside(name) if is_folder(name) else [name])]


def _inside(folder: Path) -> list[Path]:
    """The recordings in a folder and in those below it, by name."""
    found = files_below(folder, SOUND_FILES)
    if not found:
        raise ConfigError(
            "{folder} holds no recordings: there should be files that end in {endings}.",
            folder=folder,
            endings=", ".join(SOUND_FILES),
        )
    return found


def _listed(path: Path) -> list[Path]:
    """Paths in a text file; relative ones count from the working directory, else from the list."""
    try:
        text = path.read_text(encoding=encoding_of(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The list {path} cannot be read: give a UTF-8 text file with a path on each line.", path=path
        ) from error
    named = [user_path(line.strip()) for line in text.splitlines() if line.strip()]
    return [name if name.exists() else path.parent / name for name in named]


def distinct_stems(paths: Sequence[Path], kept: Mapping[Path, str] | None = None) -> dict[Path, str]:
    """Names for files made of recordings (see `safe_stem`): numbered where several would have the same one,
    also where upper and lower case are one. Those of `kept` stay, and are nobody else's.
    """
    stems = dict(kept or {})
    last = dict.fromkeys((name.casefold() for name in stems.values()), 1)
    for path in dict.fromkeys(path for path in paths if path not in stems):
        stem = name = safe_stem(path.stem)
        while name.casefold() in last:
            number = last[stem.casefold()] = last[stem.casefold()] + 1
            name = safe_stem(path.stem, f"-{number}")
        last[name.casefold()] = 1
        stems[path] = name
    return stems
