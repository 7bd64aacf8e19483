"""`transcribe`: what the Playground does, for any number of recordings."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from studio.cli.decoding import add_engine_options, add_transcribe_options, options_of
from studio.cli.other_scripts import INFER
from studio.cli.output import ProgressLine, require_place, say, say_shared, show, show_json
from studio.cli.parsing import Parser
from studio.cli.whisper_command import add_whisper_options, engine_asked, in_own_words
from studio.errors import ConfigError, DataError
from studio.evaluation.reading_short import cost_of
from studio.files import storage_errors
from studio.messages import filled_in
from studio.options.checks import check_between, check_choice
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.settings import Settings
from studio.transcription import captions
from studio.transcription.devices import DEVICES, accelerator
from studio.transcription.engine import EngineChoice, Progress, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.transcription.ranks import gather
from studio.transcription.results import ResultsFile, asked_mark
from studio.transcription.transcription_jobs import recordings_named, transcribe_many
from studio.units import counted, duration_message, names

_MODEL = ("model_path", "model_directory")
_LAYOUT = captions.DEFAULT_LAYOUT


def parser() -> Parser:
    """Own options, and those of other transcription programs."""
    made = Parser("transcribe", "Turn recordings into text and captions.")
    made.add_argument("audio", nargs="*", type=Path, metavar="AUDIO", help="Recordings, or folders.")
    made.option("audio_path", "A recording.", kind=Path)
    made.option(
        "audio_list", "A text file with the path of a recording on each line, or a folder.", kind=Path
    )
    made.option("model", "Registry id, folder or Hub id.", aliases=_MODEL, default=DEMO_ID)
    add_transcribe_options(made)
    add_engine_options(made)
    made.option("threads", "Threads of the processor; 0: torch decides.", kind=int)
    made.flag("use_gpu", "False: the same as --device cpu.", default=True)
    made.flag("local_files_only", "Never download the model.")
    made.foreign(INFER)
    made.option("device", "Where to compute.", choices=DEVICES, default="auto")
    made.option(
        "format",
        f"One or more of {','.join(captions.FORMATS)}, for --output_dir or the screen.",
        known=captions.FORMATS,
    )
    made.option(
        "max_line_width", "Columns of a caption's widest line.", kind=int, default=_LAYOUT.max_line_width
    )
    made.option("max_line_count", "Lines of a caption.", kind=int, default=_LAYOUT.max_line_count)
    made.option("output_dir", "Folder for files in these formats.", kind=Path, aliases=("o",))
    add_whisper_options(made)
    made.option(
        "output_file", "JSON file with all results; what is in it already is not done again.", kind=Path
    )
    made.flag("overwrite", "Do everything again, and keep nothing of files that are replaced.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Transcribes each recording; one that cannot be used does not keep the others from it."""
    given = in_own_words(parser().read(arguments))
    if given.threads is not None:
        check_between("threads", given.threads, 0, 1024)
        settings = replace(settings, threads=given.threads)
    paths = _recordings(given)
    formats = _formats(given)
    layout = captions.CaptionLayout(given.max_line_width, given.max_line_count)
    choice, options = engine_asked(given), options_of(given)
    if given.output_file:
        require_place(given.output_file, "--output_file", (*paths, given.audio_list))
    if not given.use_gpu and given.device not in ("auto", "cpu"):
        raise ConfigError("--use_gpu False and --device {device} contradict: give one.", device=given.device)
    device = _device(given.device if given.use_gpu else "cpu", settings)
    with Services.open(settings, device=device) as services:
        spec = services.registry.get(given.model)
        model_id = spec.id
        if given.local_files_only:
            services.registry.local_path(model_id, local_files_only=True)
        if (caution := cost_of(spec.card, options.audio_context)) is not None:
            say(f"Note: {caution}")
        results = ResultsFile(
            given.output_file,
            paths,
            model_id,
            overwrite=given.overwrite,
            asked=asked_mark(options, choice),
            rank=settings.rank,
            world_size=settings.world_size,
        )
        _keep_what_is_read(given, results, formats)
        if results.rows and settings.rank == 0:
            counts = {"done": len(results.rows), "total": len(paths)}
            say(filled_in("{done} of {total} recordings are done already.", counts))
        if results.differing and settings.rank == 0:
            say(
                "To be done again, because model or options were others or they have changed since: "
                f"{results.differing} of {counted(len(paths), 'recording')}."
            )
        say_shared(services.engines)
        report = _Report(given, formats, layout, results)
        if settings.rank == 0:
            report.done_before()
        _transcribed(services.engines, given, report, options, choice)
    if settings.world_size > 1:
        gather(results.rows, settings.rank, settings.world_size, results.finish)
        results.forget_part()
    return 0 if settings.rank else _finish(given, results)


def _transcribed(
    engines: ModelCache,
    given: argparse.Namespace,
    report: "_Report",
    options: TranscribeOptions,
    choice: EngineChoice,
) -> None:
    """Transcribes what is left to do; what is done is kept even if the rest is not."""
    try:
        transcribe_many(
            engines,
            given.model,
            report.paths,
            options,
            on_result=report.result,
            on_progress=report.progress,
            choice=choice,
            on_step=report.line.step,
        )
    except KeyboardInterrupt:
        report.interrupted(given.model)
        raise
    finally:
        report.line.end()
        if report.results.rows:
            report.results.save()


def _finish(given: argparse.Namespace, results: ResultsFile) -> int:
    """Writes all results; the exit code says whether a recording could not be used."""
    if given.output_file:
        results.finish(())
        say(f"Wrote {given.output_file}")
    if given.json:
        show_json(results.rows)
    return 2 if any(row["error"] for row in results.rows) else 0


def _device(name: str, settings: Settings) -> str:
    """Each process of a machine takes a GPU of its own, if there are several."""
    kind = accelerator() if settings.world_size > 1 and name != "cpu" else ""
    return f"{kind}:{settings.local_rank}" if kind else name


class _Report:
    """Shows or writes each recording's text as soon as it is there."""

    def __init__(
        self,
        given: argparse.Namespace,
        formats: Sequence[str],
        layout: captions.CaptionLayout,
        results: ResultsFile,
    ) -> None:
        """`results` gets each row at once, and says what is left to do."""
        self.results = results
        self._layout = layout
        self.line = ProgressLine()
        self._given = given
        self.paths = results.todo
        self._formats = formats
        self._done = 0
        self._heard: Progress | None = None

    def progress(self, progress: Progress) -> None:
        """How far the recording at hand is."""
        self._heard = progress
        done, total = duration_message(progress.done_seconds), duration_message(progress.total_seconds)
        self.line.update(f"{self.paths[self._done].name}: {done} of {total}")

    def interrupted(self, model_id: str) -> None:
        """Shows what was heard of the recording at hand; files and `--json` have only whole recordings."""
        self.line.end()
        if self._given.json or self._heard is None or not self._heard.segments:
            return
        path, until = self.paths[self._done], self._heard.done_seconds
        say(f"{path} was transcribed up to {duration_message(until)}; its text so far:")
        text = "\n".join(segment.text for segment in self._heard.segments)
        so_far = Transcript(text, self._heard.segments, "", until, model_id, "", audio_path=str(path))
        show(captions.render(so_far, self._formats[0], self._layout).rstrip("\n"))

    def result(self, row: dict[str, Any], found: Transcript | DataError) -> None:
        """One recording is done, or cannot be used."""
        self._heard = None
        self.line.end()
        path = self.paths[self._done]
        self._done += 1
        self.results.add(row)
        if isinstance(found, DataError):
            say(f"Error: {found}")
            return
        for note in found.notes:
            say(f"Note: {path}: {note}" if len(self.results.paths) > 1 else f"Note: {note}")
        self._give(path, found)

    def done_before(self) -> None:
        """What the file of results holds is given, too; what it was written to earlier stays as it is."""
        for row in self.results.rows:
            self._give(Path(row["audio_path"]), Transcript.from_json(row), is_new=False)

    def _give(self, path: Path, found: Transcript, *, is_new: bool = True) -> None:
        if self._given.output_dir:
            folder, stem = self._given.output_dir, self.results.stems[path]
            for name in self._formats:
                place = folder / f"{stem}.{name}"
                if is_new or not place.exists():
                    if not self._given.overwrite:
                        _keep_other(place, captions.render(found, name, self._layout))
                    say(f"Wrote {captions.write(found, name, folder, stem, self._layout)}")
        elif not self._given.json:
            if len(self.results.paths) > 1:
                show(f"# {path}")
            show(captions.render(found, self._formats[0], self._layout).rstrip("\n"))


def _keep_other(place: Path, text: str) -> None:
    """Puts aside what another text would replace: of another recording of this name, or corrected by hand."""
    with storage_errors(place):
        if place.is_file() and place.read_text(encoding="utf-8", errors="replace") != text:
            endings = chain(["~"], (f"~{number}" for number in count(2)))
            beside = (place.with_name(place.name + ending) for ending in endings)
            aside = place.replace(next(path for path in beside if not os.path.lexists(path)))
            say(f"What was in {place} is in {aside} now.")


def _recordings(given: argparse.Namespace) -> list[Path]:
    """The recordings named in any of the ways, in their order."""
    named = [*given.audio, *([given.audio_path] if given.audio_path else [])]
    paths = recordings_named(named, given.audio_list)
    if not paths:
        raise ConfigError("transcribe needs a recording: name one or more, or give --audio_list.")
    return paths


def _keep_what_is_read(given: argparse.Namespace, results: ResultsFile, formats: Sequence[str]) -> None:
    """Refuses a folder in which texts would get the name of a recording, or of the list of them."""
    read = {path.resolve() for path in (*results.paths, given.audio_list) if path}
    for path in results.paths if given.output_dir else ():
        for name in formats:
            place = given.output_dir / f"{results.stems[path]}.{name}"
            if place.resolve() in read:
                require_place(place, "--output_dir", [place])


def _formats(given: argparse.Namespace) -> list[str]:
    """Caption formats asked for; plain text unless told."""
    formats = names(given.format or "txt")
    for name in formats or [""]:
        check_choice("format", name, captions.FORMATS)
    if len(formats) > 1 and not given.output_dir:
        raise ConfigError("Several formats need a folder to go to: add --output_dir.")
    if given.output_dir:
        require_place(given.output_dir / "any")
    return formats
