import shutil
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.dataset.audio import (
    SAMPLING_RATE,
    audio_duration,
    read_audio,
    save_pcm,
    save_sound,
    stream_audio,
)
from studio.errors import AudioError, StorageError
from tests.films import encode, make_video

from .conftest import SECONDS, sweep

KINDS = (
    *("narrow.wav", "stereo.wav", "float.wav", "deep.wav", "plain.flac", "song.mp3"),
    *("vorbis.ogg", "call.opus", "memo.m4a", "browser.webm", "pcm.sph", "call.WV1"),
)


def likeness(heard: np.ndarray, expected: np.ndarray) -> float:
    """Highest correlation of the two within 100 ms: encoders put a little silence in front."""
    width = min(len(heard), len(expected)) - 1600
    middle = expected[800 : 800 + width]
    scores = []
    for lag in range(0, 1601, 2):
        part = heard[lag : lag + width]
        scores.append(float(np.dot(part, middle) / np.linalg.norm(part) / np.linalg.norm(middle)))
    return max(scores)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_is_heard_as_mono_at_16_khz_whole_in_blocks_and_in_parts(
    sounds: dict[str, Path], name: str
) -> None:
    whole = read_audio(sounds[name])
    assert whole.dtype == np.float32
    assert whole.ndim == 1
    assert abs(len(whole) / SAMPLING_RATE - SECONDS) < 0.1
    assert abs(audio_duration(sounds[name]) - SECONDS) < 0.1, "known from the header"
    assert likeness(whole, sweep(SAMPLING_RATE)) > 0.98
    blocks = list(stream_audio(sounds[name], block_seconds=0.7))
    assert {len(block) for block in blocks[:-1]} == {11_200}
    assert 0 < len(blocks[-1]) <= 11_200
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    part = read_audio(sounds[name], 1.0, 2.5)
    assert abs(len(part) - 24_000) <= 1
    assert likeness(whole[15_200:40_800], part) > 0.99


@pytest.mark.parametrize("name", ["long.wav", "long.flac", "long.mp3", "long.ogg", "long.opus"])
def test_nothing_is_lost_where_two_reads_meet(tmp_path: Path, name: str) -> None:
    samples = sweep(16_000, 23.0)
    kind = {"format": "OGG", "subtype": "OPUS"} if name.endswith("opus") else {}
    soundfile.write(tmp_path / name, samples, 16_000, **kind)
    at_once = soundfile.read(tmp_path / name, dtype="float32")[0]
    np.testing.assert_allclose(read_audio(tmp_path / name), at_once, atol=1e-3)


def test_a_part_may_reach_to_the_end(sounds: dict[str, Path]) -> None:
    assert len(read_audio(sounds["plain.flac"], 2.0)) == SAMPLING_RATE
    assert len(read_audio(sounds["plain.flac"], 2.0, 99.0)) == SAMPLING_RATE


def test_decoding_needs_no_program_on_the_path(
    sounds: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert shutil.which("ffmpeg") is None
    assert all(len(read_audio(path)) > 40_000 for path in sounds.values())


@pytest.mark.parametrize("name", ["long.wav", "long.m4a"])
def test_a_long_recording_is_never_whole_in_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    samples = np.tile(sweep(8_000, 60.0), 5 if name.endswith("m4a") else 30)
    if name.endswith("m4a"):
        encode(path, "aac", samples, 8_000)
    else:
        soundfile.write(path, samples, 8_000)
    whole_bytes = len(samples) * 2 * 4
    tracemalloc.start()
    largest, total = 0, 0
    for block in stream_audio(path, 30.0):
        largest, total = max(largest, len(block)), total + len(block)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest == 480_000
    assert abs(total - 2 * len(samples)) < SAMPLING_RATE
    assert peak_bytes < min(16_000_000, whole_bytes / 2)


def test_a_recording_of_a_browser_without_a_length_is_measured(
    sounds: dict[str, Path], tmp_path: Path
) -> None:
    import av

    path = tmp_path / "live.webm"
    live = {"live": "1"}
    with av.open(str(sounds["browser.webm"])) as source, av.open(str(path), "w", options=live) as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.pts is not None:
                packet.stream = stream
                target.mux(packet)
    with av.open(str(path)) as container:
        assert container.duration is None
    assert abs(audio_duration(path) - SECONDS) < 0.1
    assert abs(len(read_audio(path)) / SAMPLING_RATE - SECONDS) < 0.1
    assert abs(len(read_audio(path, 1.0, 2.0)) - SAMPLING_RATE) <= 1


def wav(channels: int, bits: int, frame: int | None = None) -> bytes:
    """A file that says it has so many channels, bits a sample, and bytes for a sample of all."""
    frame = channels * bits // 8 if frame is None else frame
    form = (1, channels, 16_000, 16_000 * frame, frame, bits)
    return struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 1060, b"WAVEfmt ", 16, *form, b"data", 1024) + bytes(1024)


SHORTENED = (
    b"NIST_1A\n   1024\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n".ljust(1024)
    + b"ajkg\x02" * 99
)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("no channel.wav", wav(0, 16), "is not a sound file|is damaged"),
        *((f"no channel, {frame}.wav", wav(0, 16, frame), "is not a sound file") for frame in (1, 2)),
        ("no bits.wav", wav(1, 0), "is not a sound file"),
        ("neither.wav", wav(0, 0), "is not a sound file"),
        ("gone.wav", None, "There is no audio file"),
        ("", None, "is a folder"),
        ("empty.wav", b"", "is an empty file"),
        ("text.wav", b"This is not sound.\n" * 50, "is not a sound file"),
        ("text.mp3", b"This is not sound.\n" * 50, "is not a sound file"),
        ("text.raw", b"This is not sound.\n" * 50, "is not a sound file"),
        ("list.wav", b"#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/a.wav\n", "is not a sound file"),
        *(
            (
                name,
                SHORTENED,
                rf"packed with shorten, which is not read: unpack it with sph2pipe .*{new}\.wav",
            )
            for name, new in (("talk.sph", "talk"), ("talk.WV1", "talk"), ("talk.wav", "talk-unpacked"))
        ),
        ("picture.wav", b"\x89PNG\r\n\x1a\n" + bytes(100), "is not a sound file"),
    ],
)
def test_what_is_no_sound_is_refused_with_a_sentence(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for use in (read_audio, audio_duration, lambda p: list(stream_audio(p))):
        with pytest.raises(AudioError, match=sentence) as refused:
            use(path)
        assert str(path) in str(refused.value)


def test_no_sample_at_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nothing.wav"
    soundfile.write(path, np.zeros(0, np.float32), 16_000)
    for use in (read_audio, audio_duration):
        with pytest.raises(AudioError, match="0 s long"):
            use(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    samples = sweep(16_000)
    samples[20_000] = bad
    path = tmp_path / "bad.wav"
    soundfile.write(path, samples, 16_000, subtype="FLOAT")
    with pytest.raises(AudioError, match="no numbers"):
        read_audio(path)


def test_a_part_behind_the_end_is_refused_with_the_length(sounds: dict[str, Path]) -> None:
    with pytest.raises(AudioError, match=r"is 3\.00 s long: there is no sound from 5\.00 s"):
        read_audio(sounds["plain.flac"], 5.0, 6.0)


def test_a_file_cut_in_the_middle_gives_what_is_there(sounds: dict[str, Path], tmp_path: Path) -> None:
    for name, path in sounds.items():
        data = path.read_bytes()
        cut = tmp_path / name
        cut.write_bytes(data[: len(data) // 2])
        if name in ("memo.m4a", "vorbis.ogg"):  # their table of contents, their only page, is not whole
            with pytest.raises(AudioError, match=f"{name} is not a sound file"):
                read_audio(cut)
            continue
        heard = read_audio(cut)
        assert 0.25 * SECONDS < len(heard) / SAMPLING_RATE < 0.75 * SECONDS, name
        assert likeness(heard, sweep(SAMPLING_RATE)[: len(heard)]) > 0.98


def flac_that_promises(seconds: float, path: Path) -> Path:
    """A FLAC of the sweep whose header tells a length of its own; 0 is what an encoder in a pipe leaves."""
    soundfile.write(path, sweep(16_000, 23.0), 16_000)
    data = bytearray(path.read_bytes())
    data[22:26] = struct.pack(">I", round(seconds * 16_000))  # the low bits of STREAMINFO's total samples
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("promised", [0, 23, 60])
def test_a_flac_is_heard_to_its_end_whatever_its_header_promises(tmp_path: Path, promised: float) -> None:
    path = flac_that_promises(promised, tmp_path / "piped.flac")
    np.testing.assert_allclose(read_audio(path), sweep(16_000, 23.0), atol=1e-3)
    assert audio_duration(path) == pytest.approx(promised or 23.0)
    np.testing.assert_allclose(read_audio(path, 20.0, 22.0), sweep(16_000, 23.0)[320_000:352_000], atol=1e-3)


@pytest.mark.parametrize("ending", [b"", b"LIST\x04\x00\x00\x00INFO"])
def test_a_wav_whose_header_promises_too_little_is_heard_to_its_end(tmp_path: Path, ending: bytes) -> None:
    path = tmp_path / "recorder.wav"
    soundfile.write(path, sweep(16_000, 23.0), 16_000, "PCM_16")
    data = bytearray(path.read_bytes())
    assert data[36:40] == b"data"
    path.write_bytes(data + ending)
    assert audio_duration(path) == pytest.approx(23.0), "what follows is no sound"
    data[40:44] = struct.pack("<I", 32_000)
    path.write_bytes(data)
    assert sum(map(len, stream_audio(path))) == pytest.approx(23 * 16_000, abs=10)
    np.testing.assert_allclose(read_audio(path), sweep(16_000, 23.0), atol=1e-3)


def test_a_flac_whose_header_promises_far_too_little_is_heard_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "recorder.flac"
    sound = 0.1 * np.random.default_rng(0).standard_normal(23 * 16_000)
    soundfile.write(path, sound, 16_000)
    data = bytearray(path.read_bytes())
    data[22:26] = struct.pack(">I", 16_000)
    path.write_bytes(data)
    assert sum(map(len, stream_audio(path))) == len(sound)


def test_a_flac_damaged_in_its_middle_is_refused_with_the_place(tmp_path: Path) -> None:
    path = flac_that_promises(23, tmp_path / "damaged.flac")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20_000] = bytes(20_000)
    path.write_bytes(data)
    with pytest.raises(AudioError, match=r"cannot be decoded past \d+\.\d s"):
        read_audio(path)


@pytest.mark.parametrize("told", [0, 2**32 - 1])
def test_a_wav_whose_recorder_was_killed_is_heard_to_its_end(tmp_path: Path, told: int) -> None:
    path = tmp_path / "killed.wav"
    soundfile.write(path, sweep(16_000), 16_000)
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", told)
    path.write_bytes(data)
    assert audio_duration(path) == pytest.approx(SECONDS)
    np.testing.assert_allclose(read_audio(path), sweep(16_000), atol=1e-3)


def test_channels_that_cancel_out_and_channels_that_are_silent_are_heard(tmp_path: Path) -> None:
    voice, nothing = sweep(16_000), np.zeros(int(SECONDS * 16_000), np.float32)
    for name, channels in (("wired.wav", [voice, -voice]), ("centre.wav", [*[nothing] * 5, voice])):
        soundfile.write(tmp_path / name, np.stack(channels, axis=1), 16_000)
        assert likeness(read_audio(tmp_path / name), voice) > 0.99


def test_floats_that_were_never_scaled_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "whole.wav"
    soundfile.write(path, sweep(16_000) * 32_768, 16_000, subtype="FLOAT")
    with pytest.raises(AudioError, match="divide them by 32768"):
        read_audio(path)


def test_a_sample_too_few_for_16_khz_is_no_sound(tmp_path: Path) -> None:
    path = tmp_path / "one.wav"
    soundfile.write(path, sweep(44_100)[:1], 44_100)
    for read in (read_audio, lambda path: list(stream_audio(path))):
        with pytest.raises(AudioError, match="there is no sound in it"):
            read(path)


def test_what_a_microphone_gives_is_kept(tmp_path: Path) -> None:
    floats = sweep(48_000)
    shorts, longs = (floats * 32767).astype(np.int16), (floats * 2147483647.0).astype(np.int32)
    for samples in (floats, shorts, longs, np.stack([floats, floats], axis=1)):
        for ending in (".flac", ".wav"):
            path = save_pcm(samples, 48_000, tmp_path / "take" / f"one{ending}")
            assert likeness(read_audio(path), sweep(SAMPLING_RATE)) > 0.999
            assert soundfile.info(path).subtype == "PCM_16"
    assert {path.name for path in (tmp_path / "take").iterdir()} == {"one.flac", "one.wav"}


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        (np.zeros(0, np.int16), "empty"),
        (np.array([0.1, np.nan], np.float32), "no numbers"),
        (np.zeros((10, 10, 2), np.float32), "shape"),
        (np.zeros((2, 1000), np.float32), "shape"),
    ],
)
def test_a_recording_that_is_none_is_refused_and_leaves_no_file(
    tmp_path: Path, samples: np.ndarray, sentence: str
) -> None:
    with pytest.raises(AudioError, match=sentence):
        save_pcm(samples, 16_000, tmp_path / "take.flac")
    assert not list(tmp_path.iterdir())


def test_a_recording_that_cannot_be_kept_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError):
        save_pcm(sweep(16_000), 16_000, tmp_path / "file" / "take.flac")


@pytest.mark.parametrize("rate", [1, 3_999, 1_000_000])
def test_a_rate_that_no_speech_has_is_refused_before_a_sample_is_read(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "odd.wav", np.zeros(18_000, np.float32), rate)
    with pytest.raises(AudioError, match=f"has {rate} samples a second"):
        audio_duration(tmp_path / "odd.wav")


def test_a_file_that_is_far_longer_than_its_header_says_is_not_read_whole(tmp_path: Path) -> None:
    encode(tmp_path / "lying.m4a", "aac", sweep(16_000, 130.0), 16_000)
    content = bytearray((tmp_path / "lying.m4a").read_bytes())
    for box, lengths in ((b"mvhd", 12), (b"mdhd", 12), (b"tkhd", 16)):
        at = content.index(box) + 4
        content[at + lengths + 4 : at + lengths + 8] = struct.pack(">I", 1000)
    (tmp_path / "lying.m4a").write_bytes(content)
    assert audio_duration(tmp_path / "lying.m4a") < 2
    with pytest.raises(AudioError, match="says that it lasts"):
        read_audio(tmp_path / "lying.m4a")
    assert sum(map(len, stream_audio(tmp_path / "lying.m4a"))) > 129 * 16_000, "a piece at a time it is heard"


def test_a_sound_that_is_too_long_for_a_clip_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studio.dataset.audio._MOST_WHOLE_SECONDS", 5.0)
    for seconds in (4.0, 60.0):
        soundfile.write(tmp_path / f"{seconds:.0f}.wav", sweep(16_000, seconds), 16_000)
    assert len(read_audio(tmp_path / "4.wav")) == 64_000
    assert len(read_audio(tmp_path / "60.wav", 10.0, 14.0)) == 64_000
    with pytest.raises(AudioError, match=r"60\.wav is longer than 5\.0 s, too long for a clip: cut it"):
        read_audio(tmp_path / "60.wav")


@pytest.mark.parametrize("ending", [".mp4", ".mkv", ".mov", ".webm"])
def test_the_sound_of_a_video_is_read_and_kept(tmp_path: Path, ending: str) -> None:
    codec = "libopus" if ending == ".webm" else "aac"
    video = make_video(tmp_path / f"film{ending}", sweep(48_000), 48_000, codec)
    assert abs(audio_duration(video) - SECONDS) < 0.1
    kept = save_sound(video, tmp_path / "film.flac")
    np.testing.assert_allclose(read_audio(kept), read_audio(video), atol=1e-4)
    with pytest.raises(AudioError, match=r"is too long: here a recording may last 2\.0 s"):
        save_sound(video, tmp_path / "short.flac", 2.0)
    assert {path.name for path in tmp_path.iterdir()} == {video.name, "film.flac"}
