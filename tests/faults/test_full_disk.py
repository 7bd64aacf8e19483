"""A disk that has no room at any one moment: what was there stays whole, or what was asked for is whole.

Nothing of the studio is replaced. The interpreter asks an audit hook before it opens, moves or makes a file,
and what the hook raises is what a full disk raises; the kernel's limit on sizes cuts off what is written.
"""

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from studio.dataset.audio import audio_duration, read_audio, save_sound
from studio.dataset.recordings import begin_session, keep_clip, open_session
from studio.errors import StorageError
from studio.evaluation.corrections import KeptCorrections, save_list
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.services import Services
from studio.serving.gate import Names
from studio.serving.server import endpoint_app
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.settings import Settings
from tests.reading import read_manifest
from tests.unit.registry.conftest import make_adapter, make_whisper

STEPS = ("open", "os.rename", "os.mkdir")
MOST_BYTES = 140_000
"""More than any file here has."""


@dataclass
class Disk:
    """Says no to one step, counted from 0; audit hooks stay, so there is one for all tests."""

    folder: Path | None = None
    fails_at: int = -1
    steps: int = 0
    is_watched: bool = False
    tried: int = 0
    """Faults of all tests so far."""
    said_no: list[str] = field(default_factory=list)

    def asked(self, event: str, given: tuple[Any, ...]) -> None:
        if self.folder is None or event not in STEPS or not self._is_written(event, given):
            return
        self.steps += 1
        if self.steps == self.fails_at + 1:
            self.said_no.append(f"{event} {given[0]}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _is_written(self, event: str, given: tuple[Any, ...]) -> bool:
        is_here = isinstance(given[0], str | os.PathLike) and str(given[0]).startswith(str(self.folder))
        return is_here and (event != "open" or bool(given[2] & (os.O_WRONLY | os.O_RDWR)))

    @contextmanager
    def without_room_at(self, step: int, folder: Path) -> Iterator[None]:
        if not self.is_watched:
            sys.addaudithook(self.asked)
            self.is_watched = True
        self.folder, self.fails_at, self.steps = folder, step, 0
        self.said_no.clear()
        try:
            yield
        finally:
            self.folder = None


DISK = Disk()


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    before = DISK.tried
    yield
    record_property("disks without room", DISK.tried - before)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_full_disks(
    home: Path,
    do: Callable[[], object],
    told: Callable[[], Any],
    *,
    sizes: range = range(0, MOST_BYTES, 8000),
) -> None:
    """Does it where each step fails in turn, and where files may have only so many bytes, each time anew.

    What is told afterwards is what was told before, or, if nothing was said of the disk, what is told after
    it was done with room. Nothing is left lying about that was not there before, either.
    """
    before, kept = told(), home.with_name("kept")
    shutil.copytree(home, kept)
    names = files_in(home)

    def once(fault: Any) -> bool:
        is_done = False
        DISK.tried += 1
        with suppress(StorageError), fault:
            do()
            is_done = True
        return is_done

    def again() -> None:
        shutil.rmtree(home)
        shutil.copytree(kept, home)

    do()
    after = told()
    assert after != before
    again()
    for step in count():
        is_done = once(DISK.without_room_at(step, home))
        assert told() == (after if is_done else before), DISK.said_no
        assert is_done or files_in(home) == names, DISK.said_no
        again()
        if not DISK.said_no:
            break
    assert step > 1, "some of it is written"
    outcomes = set()
    for size in sizes:
        is_done = once(files_of_at_most(size))
        outcomes.add(is_done)
        assert told() == (after if is_done else before), size
        again()
    assert outcomes == {True, False}


def files_in(home: Path) -> set[Path]:
    return {path for path in home.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_a_run_is_queued_or_there_is_none(settings: Settings, micro_model: Path, tones: Path) -> None:
    jobs = JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))
    config = TrainingConfig(base_model=str(micro_model), train_data=str(tones))
    on_full_disks(
        settings.home,
        lambda: jobs.submit(config),
        lambda: [(run.state, run.config, run.queue_position, bool(run.created)) for run in jobs.runs()],
        sizes=range(0, 4000, 200),
    )
    jobs.close()


@pytest.fixture
def registry(settings: Settings) -> ModelRegistry:
    """With a model, an adapter that needs it, and a model that is to come."""
    card = {"schema_version": 1, "note": "m" * 300}
    make_whisper(settings.models / "mine", card=card)
    make_adapter(settings.models / "tuned", "mine", card={**card, "base_model": "mine", "more": "n" * 300})
    make_whisper(settings.home / "staged", card={})
    return ModelRegistry(settings.models, demo=None, hf_cache=None)


def cards(registry: ModelRegistry) -> list[tuple[Any, ...]]:
    fresh = ModelRegistry(registry.models, demo=None, hf_cache=None)
    own = [spec for spec in fresh.all() if spec.path and registry.models in spec.path.parents]
    told = [(spec.id, spec.base_model, str(spec.problem), dict(spec.card)) for spec in own]
    return sorted(told, key=itemgetter(0))


@pytest.mark.parametrize(
    "change",
    [
        lambda registry: registry.annotate("mine", {"forms": ["x" * 500]}),
        lambda registry: registry.rename("mine", "yours"),
        lambda registry: registry.add("new", registry.models.parent / "staged", {"kind": "base"}),
    ],
    ids=["a card that is written", "a model that is renamed", "a model that is added"],
)
def test_models_and_their_cards_are_as_they_were_or_as_they_shall_be(
    settings: Settings, registry: ModelRegistry, change: Callable[[ModelRegistry], object]
) -> None:
    on_full_disks(settings.home, lambda: change(registry), lambda: cards(registry), sizes=range(0, 4000, 200))


def test_a_correction_is_kept_or_the_earlier_ones_are_alone(settings: Settings) -> None:
    kept = KeptCorrections(settings.home / "corrections", "demo:test")
    clip = ("one.ogg", 1, None, "turn on")
    kept.put(clip, "turn off")
    on_full_disks(
        settings.home,
        lambda: kept.put(("two.ogg", 2, 0.5, "the light"), "the lights " * 20),
        kept.read,
        sizes=range(0, 600, 25),
    )


def test_a_corrected_list_is_there_or_not(settings: Settings) -> None:
    manifest, target = read_manifest("demo:test"), settings.home / "lists" / "new.jsonl"
    on_full_disks(
        settings.home,
        lambda: save_list(manifest, {}, target),
        lambda: [one.text for one in read_manifest(target).examples] if target.exists() else None,
    )


def test_a_sentence_read_again_has_its_new_clip_and_its_length_or_the_old_ones(settings: Settings) -> None:
    tone = (3000 * np.sin(np.arange(2 * 16_000) / 30)).astype(np.int16)
    root = settings.home / "recordings"
    for first, second in ((0, 0), (0, 1)):
        shutil.rmtree(root, ignore_errors=True)
        session = keep_clip(begin_session(root, "list", "first\nsecond"), first, tone, 16_000)

        def clips() -> dict[int, tuple[float, float]]:
            now = open_session(root, "list")
            paths = {number: now.clip(number) for number in now.clips}
            return {
                number: (now.clips[number], len(read_audio(path)) / 16_000)
                for number, path in paths.items()
                if path
            }

        on_full_disks(
            settings.home,
            lambda: keep_clip(session, second, tone[:16_000], 16_000),  # noqa: B023
            clips,
        )
        shutil.rmtree(settings.home.with_name("kept"))


def test_the_sound_of_a_video_is_whole_or_not_there(settings: Settings, demo_speech: Path) -> None:
    """Libsndfile would leave one that ends where the disk was full, and say nothing."""
    target = settings.home / "sounds" / "sound.flac"
    target.parent.mkdir()
    on_full_disks(
        settings.home,
        lambda: save_sound(demo_speech / "samples" / "kitchen-light.flac", target),
        lambda: (audio_duration(target), len(read_audio(target))) if target.exists() else None,
    )


def test_half_an_upload_is_not_kept_and_where_it_lay_not_told(settings: Settings) -> None:
    services, uploads = Services.open(settings), Uploads(settings)
    app = endpoint_app(services, Names(settings, "127.0.0.1"), uploads, "demo", Line(AT_ONCE))
    before = files_in(uploads.folder)
    client = TestClient(app, base_url="http://127.0.0.1:8000")
    with files_of_at_most(1000):
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"x" * 5000)})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"].startswith("Cannot write a.wav (File too large): ")
    assert files_in(uploads.folder) == before
    services.close()
    uploads.close()
