"""Changed bytes, and the readers that meet them: of lists, archives with lists and sounds, sound, weights."""

import gzip
import io
import json
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
from safetensors.numpy import save_file

from studio.dataset.added import add_data
from studio.dataset.audio import audio_duration, read_audio
from studio.registry.tensors import read_shapes
from studio.settings import Settings
from tests.films import encode
from tests.reading import read_manifest

FOUND = Path(__file__).parent / "found"
"""What was once no sentence: a folder a reader."""
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


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Up to five changes, of a byte, a piece, or the end; of what is packed with gzip, also of its inside."""
    if data[:2] == b"\x1f\x8b" and chance.random() < 0.7:
        return gzip.compress(mutated(gzip.decompress(data), chance), 1)
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        start = chance.randrange(min(len(data), chance.choice((64, 10**9))) + 1)
        end = start + chance.choice((0, 1, 1, 4, 100))
        new = chance.choice(
            (b"", chance.randbytes(1), chance.randbytes(4), chance.choice(STRANGE), data[start:end] * 2)
        )
        data = data[:start] + new + data[end:]
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)]
    return data


def read_alone(path: Path) -> None:
    """A list or an archive, with nothing of it read before."""
    cache = path.with_name("cache")
    try:
        read_manifest(path, cache_dir=cache)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def unpack(path: Path) -> None:
    """A zip that somebody brings, with what the reader says of it."""
    home = path.with_name("brought")
    try:
        add_data([path], Settings(home))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def listen(path: Path) -> None:
    """The length from the header, and all samples."""
    assert audio_duration(path) > 0
    samples = read_audio(path)
    assert samples.ndim == 1 and np.isfinite(samples).all()


READERS: dict[str, Callable[[Path], object]] = {
    "zip": unpack,
    "tar": read_alone,
    "parquet": read_alone,
    "cuts": read_alone,
    "sound": listen,
    "safetensors": read_shapes,
}


def originals(kind: str, folder: Path) -> list[Path]:
    """Files of a kind that can be read, in a folder with the sound that they may name."""
    sound = io.BytesIO()
    soundfile.write(sound, np.zeros(16_000), 16_000, format="WAV")
    wav = sound.getvalue()[:2044]
    (folder / "a.wav").write_bytes(sound.getvalue())
    makers = {"zip": _zips, "tar": _tars, "parquet": _parquets, "cuts": _cuts}
    return {**makers, "sound": _sounds, "safetensors": _weights}[kind](folder, wav)


def _sounds(folder: Path, _wav: bytes) -> list[Path]:
    tone = np.sin(np.arange(4000) / 9).astype(np.float32)
    paths = [folder / f"original.{kind}" for kind in ("wav", "flac", "ogg", "mp3", "aiff")]
    for path in paths:
        soundfile.write(path, tone, 16_000)
    encoded = (("m4a", "aac", tone, 16_000), ("webm", "libopus", np.repeat(tone, 3), 48_000))
    return [*paths, *(encode(folder / f"original.{kind}", *how) for kind, *how in encoded)]


def _weights(folder: Path, _wav: bytes) -> list[Path]:
    path = folder / "original.safetensors"
    save_file({"a.weight": np.zeros((2, 3), np.float32), "b": np.ones(4, np.float16)}, path)
    return [path]


def _zips(folder: Path, wav: bytes) -> list[Path]:
    paths = []
    for number, method in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)):
        paths.append(folder / f"original-{number}.zip")
        with zipfile.ZipFile(paths[-1], "w", method) as archive:
            archive.writestr("mine/a.wav", wav)
            archive.writestr("mine/ä/b.wav", wav)
            archive.writestr("mine/list.csv", "audio_path,text\na.wav,one\nä/b.wav,two\n")
    return paths


def _tars(folder: Path, wav: bytes) -> list[Path]:
    members = {
        "0001.wav": wav,
        "0001.txt": b"one",
        "a/0002.wav": wav,
        "a/0002.json": json.dumps({"text": "two", "language": "en", "duration": 1.0}).encode(),
    }
    paths = []
    for ending, kind in (
        ("tar", tarfile.USTAR_FORMAT),
        ("tar.gz", tarfile.PAX_FORMAT),
        ("tar", tarfile.GNU_FORMAT),
    ):
        paths.append(folder / f"original-{len(paths)}.{ending}")
        mode = "w:gz" if ending.endswith("gz") else "w"
        with tarfile.open(paths[-1], mode, format=kind) as archive:  # type: ignore[call-overload]
            for name, content in members.items():
                member = tarfile.TarInfo(name if kind != tarfile.GNU_FORMAT else "long" * 40 + name)
                member.size = len(content)
                member.pax_headers = {"comment": "ü"} if kind == tarfile.PAX_FORMAT else {}
                archive.addfile(member, io.BytesIO(content))
    return paths


def _parquets(folder: Path, wav: bytes) -> list[Path]:
    import pyarrow
    import pyarrow.parquet

    paths = []
    for rows in (
        [
            {"audio": {"bytes": wav, "path": f"{name}.wav"}, "sentence": name, "id": 7}
            for name in ("one", "two")
        ],
        [{"audio": "a.wav", "text": "one", "sentences": [{"start": 0.0, "end": 1.0, "text": "one"}]}],
    ):
        paths.append(folder / f"original-{len(paths)}.parquet")
        compression = ("NONE", "snappy")[len(paths) - 1]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), paths[-1], compression=compression)
    return paths


def _cuts(folder: Path, _wav: bytes) -> list[Path]:
    recording = {
        "id": "r",
        "sources": [{"type": "file", "channels": [0], "source": "a.wav"}],
        "sampling_rate": 16_000,
        "num_samples": 16_000,
        "duration": 1.0,
        "channel_ids": [0],
    }
    said = [
        {"id": f"s{start}", "start": start, "duration": 0.4, "text": "good morning", "speaker": "ann"}
        for start in (0.0, 0.5)
    ]
    cut = {"id": "c", "start": 0.0, "duration": 1.0, "channel": 0, "supervisions": said, "type": "MonoCut"}
    lines = "".join(
        json.dumps({**cut, "recording": recording, "id": str(number)}) + "\n" for number in (1, 2)
    )
    plain, packed = folder / "original.jsonl", folder / "original.jsonl.gz"
    plain.write_text(lines)
    packed.write_bytes(gzip.compress(lines.encode()))
    return [plain, packed]
