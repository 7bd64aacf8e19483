"""How data are named: files, folders and their splits, datasets of the hub, several at once."""

import os
import re

from studio.errors import ConfigError
from studio.files import is_folder, user_path
from studio.settings import Settings

DEMO = "demo"
OWN_DATA = "my.jsonl"
"""Stands in a command for the list that it is to be run with."""
LIST_ENDINGS = (".jsonl", ".json", ".csv", ".tsv")
PARQUET_ENDING = ".parquet"
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
SPLITS = {
    "train": ("train", "training", "validated", "asr_train"),
    "test": ("test", "testing", "asr_test"),
    "validation": ("validation", "valid", "val", "dev", "asr_dev"),
}
"""What the list of a split is called, also in Common Voice and VoxPopuli."""
_FILE_ENDINGS = (*LIST_ENDINGS, ".gz", PARQUET_ENDING, *TAR_ENDINGS)
"""What ends so is a file, and no dataset of the hub."""
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]*)?(:[\w.+-]*)?")
_SPLITS = re.compile(r"(.+)::(\w[\w.-]*(?:\+\w[\w.-]*)*)")
"""A folder and its splits: words, which never lead out of it."""
_NAME = re.compile(r"\w[\w .-]{0,59}")


def checked_name(name: str) -> str:
    """The name of a folder of clips that is made here.

    Raises:
        ConfigError: if it cannot be called so.
    """
    name = name.strip()
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ConfigError(
            "{name!r} cannot be the name of a folder: use at most 60 letters, digits, spaces, - and _.",
            name=name[:80],
        )
    return name


def sources_of(text: str) -> list[str]:
    """`a.jsonl, b.jsonl` → both: commas and line ends separate, unless all of it names a file."""
    whole = text.strip()
    if not re.search("[,\n]", whole) or ("\n" not in whole and _is_there(folder_and_splits(whole)[0])):
        return [whole]
    return [part.strip() for part in re.split("[,\n]", whole) if part.strip()]


def split_of(stem: str) -> str:
    """The split that a list of this name belongs to; empty if its name tells none."""
    return next((split for split, stems in SPLITS.items() if stem.lower() in stems), "")


def _is_there(name: str) -> bool:
    try:
        return os.path.lexists(user_path(name))
    except ConfigError:  # several names in a row may be longer than one can be
        return False


def folder_and_splits(source: str) -> tuple[str, str]:
    """`folder::train+test` → both sides, if there is such a folder; of anything else, itself and nothing."""
    found = _SPLITS.fullmatch(source)
    return (found[1], found[2]) if found and is_folder(user_path(found[1])) else (source, "")


def is_demo(source: str) -> bool:
    """Whether a source is the demo speech, or a part of it (`demo:test`)."""
    return source.partition(":")[0] == DEMO


def has_splits(source: str) -> bool:
    """Whether `source` is a folder or a dataset of the hub: those have splits to choose from."""
    return is_own_folder(source) or (not is_demo(source) and is_on_hub(source))


def is_own_folder(source: str) -> bool:
    """Whether there is such a folder; on a Space, in the studio's own: which others there are is not told."""
    path, settings = user_path(source), Settings.from_env()
    if settings.on_spaces:
        path = path.resolve()
    return is_folder(path) and (not settings.on_spaces or path.is_relative_to(settings.home.resolve()))


def is_on_hub(name: str) -> bool:
    """Whether a source that is no folder is looked for on the hub, since it is not called as a file is."""
    path = user_path(name)
    is_file = os.path.lexists(path) or path.suffix.lower() in _FILE_ENDINGS
    return not is_file and is_dataset_id(name)


def is_dataset_id(source: str) -> bool:
    """Whether a source that is no file here may be a dataset of the hub: `owner/name:config:split`.

    Several splits are joined by a plus sign, as in `train+validation`.
    """
    return _DATASET.fullmatch(source) is not None
