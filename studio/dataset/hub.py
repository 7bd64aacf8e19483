"""Datasets of the model hub (and Parquet folders): copied once to the cache as an audio folder with metadata.

The copy is what is read, so a dataset that was read before can be read again without a network.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from studio.dataset.columns import columns_of
from studio.errors import HubUnreachableError, ManifestError
from studio.files import read_json, storage_errors, write_json
from studio.settings import Settings

_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]*)?(:[\w.+-]*)?")
_TABLE = "metadata.jsonl"
_ORIGIN = "origin.json"
_TIMEOUT_SECONDS = 10.0
_RETRIES = 1


def is_dataset_id(source: str) -> bool:
    """Whether a source that is no file here may be a dataset of the hub: `owner/name:config:split`.

    Several splits are joined by a plus sign, as in `train+validation`.
    """
    return _ID.fullmatch(source) is not None


def fetch(
    source: str, *, split: str, max_rows: int | None, cache_dir: Path | None, local_files_only: bool
) -> Path:
    """The metadata file of the local copy of a hub dataset, made now if need be.

    Raises:
        HubUnreachableError: if there is no copy, and the hub does not answer or must not be asked.
        ManifestError: if the hub has no such dataset, configuration or split, or it is no speech.
        StorageError: if the copy cannot be written.
    """
    name, config, split = _parts(source, split)
    part = f"{config or 'default'}--{split}"
    root = _copies(cache_dir) / name.replace("/", "--")
    whole, limited = root / part, root / f"{part}--first-{max_rows}"
    try:
        revision = _revision(name, local_files_only)
    except HubUnreachableError:
        for copy in (whole, limited):
            if (copy / _TABLE).is_file():
                return copy / _TABLE
        raise
    for copy in (whole, limited):
        if _is_current(copy, revision):
            return copy / _TABLE
    rows = _received(name, config, split, revision)
    return _copy(rows, whole if max_rows is None else limited, revision, max_rows)


def copy_local(folder: Path, *, split: str, max_rows: int | None, cache_dir: Path | None) -> Path:
    """The metadata file of a copy of a folder of Parquet files (their audio is inside the table).

    Raises:
        ManifestError: if it has no such split, or it is no speech.
        StorageError: if the copy cannot be written.
    """
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*.parquet")]
    revision = hashlib.sha256(repr(sorted(files)).encode("utf-8")).hexdigest()
    place = hashlib.sha256(str(folder.resolve()).encode("utf-8")).hexdigest()[:16]
    copy = (
        _copies(cache_dir)
        / f"folder--{place}"
        / (split if max_rows is None else f"{split}--first-{max_rows}")
    )
    if _is_current(copy, revision):
        return copy / _TABLE
    return _copy(_received(str(folder.resolve()), None, split, None), copy, revision, max_rows)


def _parts(source: str, split: str) -> tuple[str, str | None, str]:
    name, _, rest = source.partition(":")
    config, _, named_split = rest.partition(":")
    return name, config or None, named_split or split


def _copies(cache_dir: Path | None) -> Path:
    return (cache_dir or Settings.from_env().cache) / "datasets"


def _is_current(copy: Path, revision: str) -> bool:
    try:
        origin = read_json(copy / _ORIGIN)
    except (OSError, ValueError):
        return False
    return isinstance(origin, dict) and origin.get("revision") == revision and (copy / _TABLE).is_file()


def _revision(name: str, local_files_only: bool) -> str:
    """The commit of the dataset on the hub: one short request that tells whether it can be read at all."""
    if local_files_only:
        raise HubUnreachableError(
            "There is no file or folder {name}, nor a copy of such a dataset, and with local_files_only "
            "the model hub is not asked.",
            name=name,
        )
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = HfApi().dataset_info(name, timeout=_TIMEOUT_SECONDS)
    except GatedRepoError as error:
        raise ManifestError(
            "The dataset {name} asks for your consent: accept its terms on the hub, "
            "then log in with `hf auth login`.",
            name=name,
        ) from error
    except RepositoryNotFoundError as error:
        raise ManifestError(
            "There is no file or folder {name}, and no such dataset on the model hub.", name=name
        ) from error
    except Exception as error:
        raise HubUnreachableError(
            "There is no file or folder {name}, and the model hub does not answer ({reason}): "
            "check the name or the network.",
            name=name,
            reason=_first_line(error),
        ) from error
    return str(info.sha)


def _received(name: str, config: str | None, split: str, revision: str | None) -> Iterator[dict[str, Any]]:
    """The rows of `_streamed`, with whatever goes wrong on the way as a sentence."""
    try:
        for part in split.split("+"):
            yield from _streamed(name, config, part, revision)
    except (ValueError, FileNotFoundError, RuntimeError) as error:
        raise ManifestError(
            "The dataset {name} cannot be read ({reason}).", name=name, reason=_first_line(error)
        ) from error
    except Exception as error:
        raise HubUnreachableError(
            "The model hub stopped answering while {name} was read ({reason}): try again later.",
            name=name,
            reason=_first_line(error),
        ) from error


def _streamed(name: str, config: str | None, split: str, revision: str | None) -> Iterator[dict[str, Any]]:
    """The rows of a dataset, with audio as it is in the files: a dict of `bytes` and `path`."""
    import datasets

    # Its own patience (twenty times five seconds for each read) would look like a page that hangs.
    datasets.config.STREAMING_READ_MAX_RETRIES = datasets.config.STREAMING_OPEN_MAX_RETRIES = _RETRIES
    data = datasets.load_dataset(name, config, split=split, streaming=True, revision=revision)
    for column, feature in (data.features or {}).items():
        if isinstance(feature, datasets.Audio):
            data = data.cast_column(column, datasets.Audio(decode=False))
    for row in data:
        yield {column: _with_bytes(value) for column, value in row.items()}


def _with_bytes(value: Any) -> Any:
    """Audio that is named by its place gets its bytes; anything else is left alone."""
    if not _is_audio(value) or value["bytes"]:
        return value
    from datasets.utils.file_utils import xopen

    with xopen(str(value["path"]), "rb") as file:
        return {**value, "bytes": file.read()}


def _is_audio(value: Any) -> bool:
    return isinstance(value, Mapping) and {"bytes", "path"} <= set(value)


def _copy(rows: Iterator[dict[str, Any]], copy: Path, revision: str, max_rows: int | None) -> Path:
    """Writes the rows beside `copy` and moves them there when all are written."""
    aside = copy.with_name(f".{copy.name}.{os.getpid()}.part")
    first = list(islice(rows, 1))
    for row in first:
        columns_of(tuple(row))
    with storage_errors(copy):
        try:
            aside.mkdir(parents=True, exist_ok=True)
            with (aside / _TABLE).open("w", encoding="utf-8") as table:
                for number, row in enumerate(islice(chain(first, rows), max_rows)):
                    table.write(
                        json.dumps(_written(row, number, aside), ensure_ascii=False, default=str) + "\n"
                    )
            write_json(aside / _ORIGIN, {"schema_version": 1, "revision": revision})
            shutil.rmtree(copy, ignore_errors=True)
            aside.replace(copy)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return copy / _TABLE


def _written(row: Mapping[str, Any], number: int, folder: Path) -> dict[str, Any]:
    """The row with its audio in a file of its own."""
    values = dict(row)
    for column, value in row.items():
        if _is_audio(value):
            name = re.sub(r"[^\w.-]", "_", Path(str(value["path"] or "clip")).name)[-80:]
            file = f"{number:07d}-{name}"
            (folder / file).write_bytes(value["bytes"])
            values[column] = {"path": file}
    return values


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
