"""What tells one state of a model's files from another: a hash of what is in them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.files import storage_errors

_MATTERS = ("*.safetensors", "config.json", "adapter_config.json", "generation_config.json", "tokenizer.json")


@dataclass(frozen=True)
class Fingerprint:
    """The state of some folders."""

    hash: str
    """`sha256:…` over the contents."""
    signature: tuple[tuple[str, int, int], ...]
    """Path, size and time of each file: while they are the same, the contents are not read again."""


def fingerprint(folders: Sequence[Path], known: Fingerprint | None = None) -> Fingerprint:
    """The state of the weights and configs in `folders`; `known` is what was found before, if anything.

    Raises:
        StorageError: if a file cannot be read.
    """
    files = [path for folder in folders for pattern in _MATTERS for path in sorted(folder.glob(pattern))]
    stats = [(path, path.stat()) for path in files]
    signature = tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats)
    if known is not None and known.signature == signature:
        return known
    digest = hashlib.sha256()
    for path in files:
        with storage_errors(path), path.open("rb") as content:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return Fingerprint(f"sha256:{digest.hexdigest()}", signature)
