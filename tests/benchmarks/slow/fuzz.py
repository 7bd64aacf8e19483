"""Manifests and recordings whose bytes were changed at random: each is read, or refused in one sentence."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.dataset.audio import audio_duration, read_audio
from studio.dataset.manifest import read_manifest
from studio.errors import StudioError
from studio.settings import DEMO_SPEECH
from tests.unit.dataset.test_manifest import SAME_ROWS

TRIES = 4000
STRANGE = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n\n",
        b'"',
        b"'",
        b"{",
        b"[",
        b"]",
        b"\\u",
    ),
    *(b"NaN", b"-Infinity", b"1e999", b"-1", b"99999999999999999999", b"null", b"true", b",", b";", b"\t"),
    *(b"../", b"/dev/zero", b"/", b"[" * 3000, b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"A" * 300),
)
Record = Callable[[str, object], None]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Up to five changes, of a byte, a piece, or the end."""
    for _ in range(chance.randint(1, 5)):
        start = chance.randrange(min(len(data), chance.choice((64, 10**9))) + 1)
        end = start + chance.choice((0, 1, 1, 4, 100))
        new = chance.choice(
            (b"", chance.randbytes(1), chance.randbytes(4), chance.choice(STRANGE), data[start:end] * 2)
        )
        data = data[:start] + new + data[end:]
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)]
    return data


def tried(
    files: list[Path], read: Callable[[Path], object], record: Record, chance: random.Random, tries: int
) -> None:
    """Reads `tries` changed copies, beside the originals; what else than a sentence comes of one is told."""
    came: Counter[str] = Counter()
    faults: list[str] = []
    slowest = 0.0
    for number in range(tries):
        original = chance.choice(files)
        copy = original.with_name(f"changed-{number}{original.suffix}")
        copy.write_bytes(mutated(original.read_bytes(), chance))
        before = len(faults)
        began = time.monotonic()
        try:
            read(copy)
            came["read"] += 1
        except StudioError as error:
            came["refused in a sentence"] += 1
            if "\n" in str(error).strip() or not str(error).strip():
                faults.append(f"{copy}: {str(error)!r}")
        except Exception as error:  # noqa: BLE001 - to find these is what this is for
            faults.append(f"{copy}: {error!r}"[:300])
        slowest = max(slowest, time.monotonic() - began)
        if len(faults) == before:  # otherwise the bytes are still needed
            copy.unlink()
    for name, count in came.items():
        record(name, count)
    record("neither", len(faults))
    for text in sorted({re.sub(r"\S*changed-\d+", "…", fault) for fault in faults})[:9]:
        record("for instance", f"`{text}`")
    record("slowest, in seconds", f"{slowest:.2f}")
    assert faults == []


@pytest.fixture
def chance(record_property: Record) -> random.Random:
    """Other bytes each time; the report tells the seed."""
    seed = random.randrange(2**32)
    record_property("seed", seed)
    return random.Random(seed)


@pytest.mark.timeout(3600)
def test_changed_manifests_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_HOME", str(tmp_path / "home"))
    (tmp_path / "clips").mkdir()
    for name in ("a.wav", "clips/b.flac"):
        soundfile.write(tmp_path / name, np.zeros(48_000), 16_000)
    files = []
    for number, text in enumerate(SAME_ROWS.values()):
        files.append(tmp_path / f"original-{number}{chance.choice(('.json', '.csv', '.txt'))}")
        files[-1].write_text(text, encoding="utf-8")
    demo = "".join(DEMO_SPEECH.joinpath("train.jsonl").read_text("utf-8").splitlines(keepends=True)[:3])
    for number in range(3):
        (tmp_path / "audio").mkdir(exist_ok=True)
        (tmp_path / "audio" / f"train-00{number}.ogg").symlink_to(
            DEMO_SPEECH / "audio" / f"train-00{number}.ogg"
        )
    files.append(tmp_path / "demo.jsonl")
    files[-1].write_text(demo, encoding="utf-8")
    tried(files, read_manifest, record_property, chance, TRIES)


def heard(path: Path) -> None:
    """The length from the header, and all samples."""
    assert audio_duration(path) > 0
    samples = read_audio(path)
    assert samples.ndim == 1 and np.isfinite(samples).all()


@pytest.mark.timeout(3600)
def test_changed_recordings_are_read_or_refused(
    tmp_path: Path, chance: random.Random, record_property: Record
) -> None:
    import av

    sound = (0.3 * np.sin(np.arange(32_000) / 20)).astype(np.float32)
    files = [tmp_path / f"tone.{ending}" for ending in ("wav", "flac", "ogg", "mp3", "aiff")]
    for path in files:
        soundfile.write(path, sound, 16_000)
    for ending, codec in (("m4a", "aac"), ("webm", "libopus")):
        files.append(tmp_path / f"tone.{ending}")
        with av.open(str(files[-1]), "w") as container:
            stream = container.add_stream(codec, rate=48_000)
            frame = av.AudioFrame.from_ndarray(np.repeat(sound, 3)[None], format="fltp", layout="mono")
            frame.sample_rate = 48_000
            for packet in [*stream.encode(frame), *stream.encode(None)]:
                container.mux(packet)
    tried(files, heard, record_property, chance, TRIES)
