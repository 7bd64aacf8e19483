"""Recordings that are cut off or damaged, as downloads and full disks leave them, and what only looks so."""

import re
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio, stream_audio
from tests.films import encode

from .conftest import sweep

SECONDS = 66.0
SAID = "The file says 1 min 06 s, and holds 33 s: it is cut off or damaged."


def noisy(seconds: float = SECONDS) -> NDArray[np.float32]:
    """As hard to pack from beginning to end."""
    size = int(seconds * SAMPLING_RATE)
    return (0.1 * np.random.default_rng(0).standard_normal(size)).astype(np.float32)


def half(path: Path) -> Path:
    """The file, broken off in its middle."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


def told(path: Path, start: float | None = None, end: float | None = None) -> list[str]:
    """What is said of a file, or a part of it, that is read; the same in blocks."""
    faults: list[str] = []
    read_audio(path, start, end, on_fault=lambda fault: faults.append(str(fault)))
    if start is None and end is None:
        in_blocks: list[str] = []
        list(stream_audio(path, on_fault=lambda fault: in_blocks.append(str(fault))))
        assert in_blocks == faults
    return faults


def front_table(path: Path, samples: NDArray[np.float32]) -> Path:
    """An M4A with its table of contents in front, as it is put on the web."""
    back = encode(path.with_name("back.m4a"), "aac", samples, SAMPLING_RATE)
    options = {"movflags": "faststart"}
    with av.open(str(back)) as source, av.open(str(path), "w", options=options) as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.pts is not None:
                packet.stream = stream
                target.mux(packet)
    return path


@pytest.mark.parametrize(
    "name", ["a.flac", "pcm.wav", "float.wav", "ulaw.wav", "wavex.wav", "front.m4a", "a.mp3", "lame.mp3"]
)
def test_half_a_file_is_heard_and_said_to_be_half(tmp_path: Path, name: str) -> None:
    path, samples = tmp_path / name, noisy()
    kinds = {"float": {"subtype": "FLOAT"}, "ulaw": {"subtype": "ULAW"}, "wavex": {"format": "WAVEX"}}
    if name == "front.m4a":
        front_table(path, samples)
    elif name == "lame.mp3":
        encode(path, "libmp3lame", samples, SAMPLING_RATE)
    else:
        soundfile.write(path, samples, SAMPLING_RATE, **kinds.get(path.stem, {}))
    assert told(path) == []
    assert told(half(path)) == [SAID]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_that_ends_in_the_middle_of_a_page_is_said_to_be_cut_off(tmp_path: Path, subtype: str) -> None:
    path = tmp_path / "a.ogg"
    soundfile.write(path, noisy(20.0), SAMPLING_RATE, format="OGG", subtype=subtype)
    data, end = path.read_bytes(), b"OggS\0\4" + bytes(21)
    for whole in (data, data[: data.rindex(b"OggS")], data + end, data + b"TAG".ljust(128)):
        path.write_bytes(whole)
        assert told(path) == []
    for cut in (data[:-1], data[: data.rindex(b"OggS") + 26], data + end[:-1]):
        path.write_bytes(cut)
        assert re.fullmatch(r"The file is cut off after (19|20)\.\d s\.", *told(path))
    heard = len(read_audio(half(path))) / SAMPLING_RATE
    assert told(path) == [f"The file is cut off after {heard:.1f} s."] == told(path, 5.0)
    assert told(path, 5.0, 8.0) == []
    assert told(path, 5.0, 15.0) == [
        f"The file is cut off or damaged: {15.0 - heard:.2f} s of this sound are missing."
    ]


def test_lengths_below_a_minute_are_said_so_exactly_that_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noisy(20.4), SAMPLING_RATE)
    path.write_bytes(path.read_bytes()[: -int(0.6 * 2 * SAMPLING_RATE)])
    assert told(path) == ["The file says 20.4 s, and holds 19.8 s: it is cut off or damaged."]


@pytest.mark.parametrize(("seconds", "missing"), [(2.0, 0.4), (66.0, 1.0)])
def test_a_wav_that_lacks_a_little_is_not_spoken_of(tmp_path: Path, seconds: float, missing: float) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noisy(seconds), SAMPLING_RATE)
    path.write_bytes(path.read_bytes()[: -int(missing * 2 * SAMPLING_RATE)])
    assert told(path) == []


def test_a_flac_that_lost_a_frame_in_its_middle_says_how_much(demo_speech: Path, tmp_path: Path) -> None:
    path, clip = tmp_path / "a.flac", demo_speech / "samples" / "kitchen-light.flac"
    data = bytearray(clip.read_bytes())
    begin = len(data) // 5
    data[begin : begin + 6000] = b"\xff" * 6000
    path.write_bytes(data)
    whole = soundfile.info(clip).duration
    missing = whole - len(read_audio(path)) / SAMPLING_RATE
    assert 0.05 < missing < 0.5
    assert told(path) == [f"The file is cut off or damaged: {missing:.2f} s of this sound are missing."]


def test_only_parts_that_reach_behind_the_end_are_spoken_of(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, noisy(), SAMPLING_RATE)
    heard = len(read_audio(half(path))) / SAMPLING_RATE
    assert told(path, 10.0, 20.0) == told(path, None, 30.0) == []
    for start, end in ((30.0, 36.0), (30.0, None), (None, 50.0)):
        missing = (end or SECONDS) - heard
        sentence = f"The file is cut off or damaged: {missing:.2f} s of this sound are missing."
        assert told(path, start, end) == [sentence]


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF, 0xFFFFFFDB])
def test_a_wav_from_a_pipe_has_no_length_to_be_short_of(tmp_path: Path, size: int) -> None:
    path = tmp_path / "piped.wav"
    soundfile.write(path, sweep(SAMPLING_RATE), SAMPLING_RATE)
    data = bytearray(path.read_bytes())
    assert data[36:40] == b"data"
    data[40:44] = size.to_bytes(4, "little")
    path.write_bytes(data)
    assert told(path) == []


def test_whole_files_of_every_kind_are_not_spoken_of(sounds: dict[str, Path]) -> None:
    assert {name: told(path) for name, path in sounds.items() if told(path)} == {}


def test_an_mp3_without_a_table_of_contents_is_not_spoken_of(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    soundfile.write(path, noisy(), SAMPLING_RATE)
    data = path.read_bytes()
    begin = data.index(b"\xff\xf3", 4)  # its second frame
    path.write_bytes(data[begin:])
    assert told(path) == [] == told(half(path))


def test_what_ffmpeg_writes_into_a_pipe_is_not_spoken_of(tmp_path: Path) -> None:
    flac = encode(tmp_path / "a.flac", "flac", sweep(SAMPLING_RATE, 23.0), SAMPLING_RATE)
    data = bytearray(flac.read_bytes())
    data[21] &= 0xF0  # the number of samples in STREAMINFO: not known
    data[22:26] = bytes(4)
    flac.write_bytes(data)
    assert told(flac) == []
