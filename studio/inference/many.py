"""Many recordings, one after the other, with one loaded model; one that fails does not stop the rest."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studio.errors import DataError, StudioError
from studio.inference.engine import SCHEMA_VERSION, OnProgress, ShouldStop, TranscribeOptions, Transcript
from studio.inference.model_cache import ModelCache

OnResult = Callable[[dict[str, Any], Transcript | None], None]
"""Told of each recording when it is done: its row, and the transcript unless the row has an error."""


def transcribe_many(
    engines: ModelCache,
    model_id: str,
    paths: Sequence[Path],
    options: TranscribeOptions,
    on_result: OnResult | None = None,
    should_stop: ShouldStop | None = None,
    on_progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """The rows of `--output_file`, in the order of `paths`; a recording that cannot be used has an `error`.

    If `should_stop` says so, the rows so far are returned, and the recording at hand only if it was finished.

    Raises:
        ModelError, HubUnreachableError: if the model cannot be loaded.
        ConfigError: if the model lacks the language or the task: that would be so for each recording.
    """
    rows = []
    with engines.lease(model_id) as engine:
        for path in paths:
            transcript = None
            try:
                transcript = engine.transcribe(path, options, should_stop=should_stop)
                row = transcript.to_json()
            except DataError as error:
                row = failed_row(path, engine.model_id, error)
            if should_stop and should_stop():
                break
            rows.append(row)
            if on_result:
                on_result(row, transcript)
    return rows


def failed_row(path: Path, model_id: str, error: StudioError) -> dict[str, Any]:
    """The row of a recording that could not be transcribed, with the reason as a sentence."""
    return {
        "schema_version": SCHEMA_VERSION,
        "audio_path": str(path),
        "text": "",
        "language": "",
        "duration_seconds": 0.0,
        "model": model_id,
        "engine": "",
        "real_time_factor": 0.0,
        "segments": [],
        "error": str(error),
    }
