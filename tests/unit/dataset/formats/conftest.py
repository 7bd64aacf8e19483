"""Short sounds for lists in every format."""

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from studio.dataset.manifest import Manifest
from tests.unit.dataset.conftest import sweep

Sound = Callable[..., Path]


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    """Writes a sound of so many seconds at a path in the test's folder."""

    def write(name: str, seconds: float = 1.0) -> Path:
        return write_sound(tmp_path / name, seconds)

    return write


def write_sound(path: Path, seconds: float) -> Path:
    """A sound of so many seconds, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sweep(16_000, seconds), 16_000)
    return path


def said(manifest: Manifest) -> list[tuple[str, str]]:
    """The file and the text of each clip."""
    return [(example.audio_path.name, example.text) for example in manifest.examples]


def reasons(manifest: Manifest) -> list[tuple[int, str]]:
    """What is wrong with which line."""
    return [(problem.line, str(problem.reason)) for problem in manifest.problems]
