"""`transcribe`: what the Playground does, for any number of recordings."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studio.cli.output import ProgressLine, require_place, say, show, show_json
from studio.cli.parsing import Parser, names
from studio.errors import ConfigError
from studio.files import write_json
from studio.inference import captions
from studio.inference.engine import Progress, TranscribeOptions, Transcript
from studio.inference.many import transcribe_many
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.settings import Settings
from studio.training.config import TASKS
from studio.units import format_duration

TIMESTAMPS = ("none", "segment", "word")
DEVICES = ("auto", "cpu", "cuda")


def parser() -> Parser:
    """Own options, and those of other transcription scripts."""
    made = Parser("transcribe", "Turn recordings into text and captions.")
    made.add_argument("audio", nargs="*", type=Path, metavar="AUDIO", help="Recordings.")
    made.option("audio_path", "A recording.", kind=Path)
    made.option("audio_list", "A text file with the path of a recording on each line.", kind=Path)
    made.option("model", "Registry id, folder or Hub id.", aliases=("model_path",), default=DEMO_ID)
    made.option("language", "Name or code; auto detects it.", default="auto")
    made.option("task", "What to write.", choices=TASKS, default="transcribe")
    made.option("timestamps", "Times in the result (default: segment).", choices=TIMESTAMPS)
    made.flag("return_timestamps", "The same as --timestamps segment; False: none.", default=True)
    made.option("num_beams", "Beams of the search.", kind=int, default=1)
    made.option("initial_prompt", "Text that comes before, such as names to spell.", default="")
    made.option("device", "Where to compute.", choices=DEVICES, default="auto")
    made.option("format", f"One or more of {','.join(captions.FORMATS)}, for --output_dir or the screen.")
    made.option("output_dir", "Folder for files in these formats.", kind=Path)
    made.option("output_file", "JSON file with all results.", kind=Path)
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Transcribes each recording; one that cannot be used does not keep the others from it."""
    given = parser().read(arguments)
    paths = _recordings(given)
    formats = _formats(given, len(paths))
    options = TranscribeOptions(
        language=given.language,
        task=given.task,
        timestamps=given.timestamps or ("segment" if given.return_timestamps else "none"),
        num_beams=given.num_beams,
        initial_prompt=given.initial_prompt,
    )
    if given.output_file:
        require_place(given.output_file)
    services = Services.open(settings, device=given.device)
    report = _Report(given, paths, formats)
    try:
        rows = transcribe_many(
            services.engines,
            given.model,
            paths,
            options,
            on_result=report.result,
            on_progress=report.progress,
        )
    finally:
        report.line.end()
        services.close()
    if given.output_file:
        write_json(given.output_file, rows)
        say(f"Wrote {given.output_file}")
    if given.json:
        show_json(rows)
    return 2 if any(row["error"] for row in rows) else 0


class _Report:
    """Shows or writes each recording's text as soon as it is there."""

    def __init__(self, given: argparse.Namespace, paths: Sequence[Path], formats: Sequence[str]) -> None:
        self.line = ProgressLine()
        self._given = given
        self._paths = paths
        self._formats = formats
        self._done = 0

    def progress(self, progress: Progress) -> None:
        """How far the recording at hand is."""
        done, total = format_duration(progress.done_seconds), format_duration(progress.total_seconds)
        self.line.update(f"{self._paths[self._done].name}: {done} of {total}")

    def result(self, row: dict[str, Any], transcript: Transcript | None) -> None:
        """One recording is done, or cannot be used."""
        self.line.end()
        path = self._paths[self._done]
        self._done += 1
        if transcript is None:
            say(f"Error: {row['error']}")
        elif self._given.output_dir:
            for name in self._formats:
                say(f"Wrote {captions.write(transcript, name, self._given.output_dir, self._stem(path))}")
        elif not self._given.json:
            if len(self._paths) > 1:
                show(f"# {path}")
            show(captions.render(transcript, self._formats[0]).rstrip("\n"))

    def _stem(self, path: Path) -> str:
        """The file's name; numbered where recordings of several folders share it."""
        same = [other for other in self._paths[: self._done - 1] if other.stem == path.stem]
        return f"{path.stem}-{len(same) + 1}" if same else path.stem


def _recordings(given: argparse.Namespace) -> list[Path]:
    """The recordings named in any of the ways, in their order."""
    paths = [*given.audio, *([given.audio_path] if given.audio_path else [])]
    if given.audio_list:
        paths += _listed(given.audio_list)
    if not paths:
        raise ConfigError("transcribe needs a recording: name one or more, or give --audio_list.")
    return paths


def _listed(path: Path) -> list[Path]:
    """Paths in a text file; relative ones count from the working directory, else from the list."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The list {path} cannot be read: give a UTF-8 text file with a path on each line.", path=path
        ) from error
    named = [Path(line.strip()).expanduser() for line in text.splitlines() if line.strip()]
    return [name if name.exists() else path.parent / name for name in named]


def _formats(given: argparse.Namespace, count: int) -> list[str]:
    """Caption formats asked for; plain text unless told."""
    formats = names(given.format or "txt")
    unknown = [name for name in formats if name not in captions.FORMATS]
    if unknown or not formats:
        raise ConfigError(
            "format must be one or more of {known}, got {value!r}.",
            known=", ".join(captions.FORMATS),
            value=given.format,
        )
    if len(formats) > 1 and not given.output_dir:
        raise ConfigError("Several formats need a folder to go to: add --output_dir.")
    if given.output_dir:
        require_place(given.output_dir / "any")
    return formats
