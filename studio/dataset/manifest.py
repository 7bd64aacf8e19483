"""Lists of clips from wherever they are: a file, a folder, the demo speech, or a dataset of the model hub."""

from collections.abc import Iterable
from pathlib import Path

from studio.dataset import hub
from studio.dataset.example import Example, Manifest, RowProblem, TextSegment
from studio.dataset.rows import example_of
from studio.dataset.tables import Row, read_text, rows_of
from studio.errors import ManifestError
from studio.settings import DEMO_SPEECH

__all__ = ["Example", "Manifest", "RowProblem", "TextSegment", "read_manifest"]

DEMO = "demo"
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.tsv", "metadata.json")
_ENDINGS = (".jsonl", ".json", ".csv", ".tsv")


def read_manifest(
    source: str | Path,
    *,
    split: str = "train",
    max_rows: int | None = None,
    cache_dir: Path | None = None,
    local_files_only: bool = False,
) -> Manifest:
    """The clips of `source`, and the rows that cannot be used, each with its line and the reason.

    `source` is one of

    - `demo` (the demo speech, its part `split`; `demo:test` names the part),
    - a file: JSON array, JSON lines, CSV or TSV with a header, recognised by what is in it,
    - a folder with `metadata.csv` or `.jsonl`, with one manifest (or one named `split`), or with Parquet,
    - a dataset of the model hub: `owner/name`, `owner/name:config` or `owner/name:config:split`.

    At most `max_rows` good rows are read. Audio files are looked up; the header of one is read only where
    its row has no duration. Hub datasets are copied to `cache_dir` (default: the studio's cache), and with
    `local_files_only` read only from there.

    Raises:
        ManifestError: if there is no such source, it cannot be read, or not one of its rows can be used.
        HubUnreachableError: if it has to come from the model hub, and the hub does not answer.
        StorageError: if a hub dataset cannot be written to the cache.
    """
    name = str(source)
    if name == DEMO or name.startswith(f"{DEMO}:"):
        part = name.partition(":")[2] or split
        return _read_file(DEMO_SPEECH / f"{part}.jsonl", name, max_rows, None)
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_folder(path, name, split, max_rows, cache_dir)
    if path.exists() or path.is_symlink() or path.suffix.lower() in _ENDINGS or not hub.is_dataset_id(name):
        return _read_file(path, name, max_rows, None)
    table = hub.fetch(
        name, split=split, max_rows=max_rows, cache_dir=cache_dir, local_files_only=local_files_only
    )
    return _read_file(table, name, max_rows, "hub")


def _read_file(path: Path, source: str, max_rows: int | None, format_name: str | None) -> Manifest:
    found, rows = rows_of(read_text(path), path)
    folders = tuple(dict.fromkeys((path.absolute().parent, Path.cwd())))
    return _collect(rows, folders, source, format_name or found, max_rows)


def _read_folder(
    folder: Path, source: str, split: str, max_rows: int | None, cache_dir: Path | None
) -> Manifest:
    manifest = _manifest_in(folder, split)
    if manifest is not None:
        return _read_file(manifest, source, max_rows, "folder")
    if any(folder.rglob("*.parquet")):
        table = hub.copy_local(folder, split=split, max_rows=max_rows, cache_dir=cache_dir)
        return _read_file(table, source, max_rows, "folder")
    raise ManifestError(
        "The folder {folder} has no metadata.csv, metadata.jsonl or other manifest: "
        "add one that names each audio file and its text.",
        folder=folder,
    )


def _manifest_in(folder: Path, split: str) -> Path | None:
    """The metadata of an audio folder, else the file named after the split, else the only manifest."""
    named = [*_METADATA, *(f"{split}{ending}" for ending in _ENDINGS), *(f"{split}/{m}" for m in _METADATA)]
    for name in named:
        if (folder / name).is_file():
            return folder / name
    lists = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
    if len(lists) > 1:
        raise ManifestError(
            "The folder {folder} has several manifests ({names}): name one of them.",
            folder=folder,
            names=", ".join(path.name for path in lists[:6]),
        )
    return lists[0] if lists else None


def _collect(
    rows: Iterable[Row], folders: tuple[Path, ...], source: str, format_name: str, max_rows: int | None
) -> Manifest:
    examples: list[Example] = []
    problems: list[RowProblem] = []
    for row in rows:
        if max_rows is not None and len(examples) >= max_rows:
            break
        result = example_of(row, folders)
        if isinstance(result, Example):
            examples.append(result)
        else:
            problems.append(result)
    if not examples:
        raise _nothing_usable(source, problems)
    return Manifest(source, format_name, tuple(examples), tuple(problems))


def _nothing_usable(source: str, problems: list[RowProblem]) -> ManifestError:
    if not problems:
        return ManifestError("{source} has no rows.", source=source)
    return ManifestError(
        "None of the {count} rows of {source} can be used. Line {line}: {reason}",
        count=len(problems),
        source=source,
        line=problems[0].line,
        reason=problems[0].reason,
    )
