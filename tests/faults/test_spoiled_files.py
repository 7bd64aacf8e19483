"""Archives, tables and cuts with changed bytes, and those found before: read, or refused in one sentence.

`tests/benchmarks/slow/fuzz.py` tries thousands, others each time; what it finds is put into `found/`.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from studio.errors import StudioError
from tests.faults.spoiled_files import FOUND, READERS, mutated, originals

TRIES = {"zip": 100, "tar": 60, "parquet": 12, "cuts": 200, "sound": 150, "safetensors": 300}


def answered(kind: str, path: Path) -> bool:
    """Whether it was read; else it was refused in one sentence."""
    try:
        READERS[kind](path)
    except StudioError as error:
        assert str(error).strip() and "\n" not in str(error).strip()
        return False
    return True


@pytest.mark.parametrize("kind", READERS)
def test_changed_bytes_are_read_or_refused(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(kind)
    files = originals(kind, tmp_path)
    assert all(answered(kind, path) for path in files)
    read = 0
    for number in range(TRIES[kind]):
        original = chance.choice(files)
        copy = original.with_name(f"changed-{number}{''.join(original.suffixes)}")
        copy.write_bytes(mutated(original.read_bytes(), chance))
        read += answered(kind, copy)
    assert read < TRIES[kind]
    record_property("changed files", TRIES[kind])


def test_what_was_found_once_is_a_sentence(tmp_path: Path) -> None:
    found = sorted(path for path in FOUND.glob("*/*") if path.parent.name in READERS)
    assert found
    for path in found:
        answered(path.parent.name, Path(shutil.copy(path, tmp_path)))
