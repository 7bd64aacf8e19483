"""Datasets of the model hub: copied once to the cache as an audio folder with metadata.

The copy is what is read, so a dataset that was read before can be read again without a network.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from studio.dataset.cards import CARDS, MOST_BYTES, require_own_files, too_long
from studio.dataset.columns import Wanted, columns_of
from studio.dataset.copies import TABLE, Copies, is_audio, is_current, places, rows_of_dataset, write_copy
from studio.dataset.formats.parquet import LARGEST_ROW_BYTES, streamed
from studio.errors import HubUnreachableError, ManifestError, StudioError, first_line
from studio.patience import ANSWERS_IN, not_the_hub, within
from studio.units import format_bytes

_ANSWER_SECONDS = 10.0
_RETRIES = 1
_PACKED = re.compile(r"(zip|tar|gzip|bz2|xz|zstd|lz4)://.*", re.DOTALL)
"""What a recording may be packed in. Any other step before the last would be opened for itself."""


def fetch(
    source: str,
    *,
    split: str,
    max_rows: int | None,
    copies: Copies,
    local_files_only: bool,
    wanted: Wanted,
    answer_seconds: float = _ANSWER_SECONDS,
) -> Path:
    """The metadata file of the local copy of a hub dataset, made now if need be. `answer_seconds` is how long
    the hub may take for its first answer.

    Raises:
        HubUnreachableError: if there is no copy, and the hub does not answer or must not be asked.
        ManifestError: if the hub has no such dataset, configuration or split, or it is no speech.
        StorageError: if the copy cannot be written.
    """
    name, config, split = _parts(source, split)
    part = f"{config or 'default'}--{split}"
    new, *others = places(copies.folder / name.replace("/", "--") / part, max_rows)
    try:
        revision = _revision(name, local_files_only, answer_seconds)
    except HubUnreachableError:
        for copy in others:
            if (copy / TABLE).is_file():
                return copy / TABLE
        raise
    for copy in others:
        if is_current(copy, revision):
            return copy / TABLE
    rows = _received(name, config, split, revision, wanted, answer_seconds)
    return write_copy(rows, new, revision, max_rows, wanted, copies.room)


def _parts(source: str, split: str) -> tuple[str, str | None, str]:
    name, _, rest = source.partition(":")
    config, _, named_split = rest.partition(":")
    return name, config or None, named_split or split


def _revision(name: str, local_files_only: bool, answer_seconds: float) -> str:
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
        ask = partial(HfApi().dataset_info, name, timeout=answer_seconds)
        revision = within(ANSWERS_IN * answer_seconds, ask).sha
    except GatedRepoError as error:
        raise _gated(name) from error
    except RepositoryNotFoundError as error:
        raise ManifestError(
            "There is no file or folder {name}, and no such dataset on the model hub.", name=name
        ) from error
    except (JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise not_the_hub(name) from error
    except Exception as error:
        raise HubUnreachableError(
            "There is no file or folder {name}, and the model hub does not answer ({reason}): "
            "check the name or the network.",
            name=name,
            reason=first_line(error),
        ) from error
    if not isinstance(revision, str) or not revision:
        raise not_the_hub(name)
    return revision


def _gated(name: str) -> ManifestError:
    return ManifestError(
        "The dataset {name} asks for your consent: accept its terms on the hub, "
        "then log in with hf auth login.",
        name=name,
    )


def _received(
    name: str, config: str | None, split: str, revision: str, wanted: Wanted, answer_seconds: float
) -> Iterator[dict[str, Any]]:
    """The rows of `_streamed`, with whatever goes wrong on the way as a sentence."""
    from huggingface_hub.errors import GatedRepoError

    try:
        for file in CARDS:
            if card := within(ANSWERS_IN * answer_seconds, partial(_card, name, file, revision)):
                require_own_files(card, f"{name}/{file}")
        for part in split.split("+"):
            yield from _streamed(name, config, part, revision, wanted)
    except StudioError:
        raise
    except GatedRepoError as error:
        raise _gated(name) from error
    except (ValueError, FileNotFoundError, RuntimeError) as error:
        raise ManifestError(
            "The dataset {name} cannot be read ({reason}).", name=name, reason=first_line(error)
        ) from error
    except Exception as error:
        raise HubUnreachableError(
            "The model hub stopped answering while {name} was read ({reason}): try again later.",
            name=name,
            reason=first_line(error),
        ) from error


def _card(name: str, file: str, revision: str) -> Path | None:
    """A file of a dataset that says where its data are, if it has one."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        about = get_hf_file_metadata(hf_hub_url(name, file, repo_type="dataset", revision=revision))
        if (about.size or 0) > MOST_BYTES:
            raise too_long(f"{name}/{file}")
        return Path(hf_hub_download(name, file, repo_type="dataset", revision=revision))
    except LocalEntryNotFoundError as error:
        raise ConnectionError(str(error)) from error
    except EntryNotFoundError:
        return None


def _streamed(
    name: str, config: str | None, split: str, revision: str, wanted: Wanted
) -> Iterator[dict[str, Any]]:
    """The rows of a dataset, with audio as it is in the files: a dict of `bytes` and `path`."""
    import datasets

    # Its own patience (twenty times five seconds for each read) would look like a page that hangs.
    datasets.config.STREAMING_READ_MAX_RETRIES = datasets.config.STREAMING_OPEN_MAX_RETRIES = _RETRIES
    data = streamed(name, split, config, revision=revision)
    for row in rows_of_dataset(data):
        values = {column: with_bytes(value, name) for column, value in row.items()}
        sound = columns_of(tuple(values), replace(wanted, needs_text=False)).get(values, "audio")
        if isinstance(sound, str):
            raise _elsewhere(name, sound)
        yield values


def with_bytes(value: Any, name: str, most_bytes: int = LARGEST_ROW_BYTES) -> Any:
    """Audio that is named by its place in the dataset `name` gets its bytes; what is no audio is left alone.

    Raises:
        ManifestError: if the place is anywhere else: a file of this machine, another address; or if there
            are more than `most_bytes`.
    """
    if not is_audio(value) or value["bytes"] or value["path"] is None:
        return value
    path = str(value["path"])
    *members, place = path.split("::")
    is_packed = all(map(_PACKED.fullmatch, members))
    if not is_packed or not place.startswith(f"hf://datasets/{name}@") or ".." in place.split("/"):
        raise _elsewhere(name, path)
    from datasets.utils.file_utils import xopen

    with xopen(path, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ManifestError(
            "The dataset {name} has a recording of more than {size} ({path}), which is no clip.",
            name=name,
            size=format_bytes(most_bytes),
            path=path,
        )
    return {**value, "bytes": content}


def _elsewhere(name: str, path: str) -> ManifestError:
    return ManifestError(
        "The dataset {name} names a recording that is not in it ({path}), and nothing else is opened: "
        "download the recordings and a list of them.",
        name=name,
        path=path,
    )
