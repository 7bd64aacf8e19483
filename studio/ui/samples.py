"""Clips that come with the studio, to try a model on."""

from dataclasses import dataclass
from pathlib import Path

from studio.files import read_json
from studio.settings import DEMO_SPEECH

SAMPLES = DEMO_SPEECH / "samples"


@dataclass(frozen=True)
class SampleClip:
    """A recording and what is said in it."""

    path: Path
    text: str

    @property
    def title(self) -> str:
        """`kitchen-light.flac` → `Kitchen light`."""
        return self.path.stem.replace("-", " ").capitalize()


def sample_clips(folder: Path = SAMPLES) -> tuple[SampleClip, ...]:
    """The clips named in `samples.json`; none if there is no such list."""
    listed = folder / "samples.json"
    if not listed.is_file():
        return ()
    return tuple(SampleClip(folder / row["file"], row["text"]) for row in read_json(listed))
