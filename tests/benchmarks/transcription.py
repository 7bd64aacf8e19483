"""Transcription as the libraries' guides write it, and ours: errors, times, speed, memory on the same sound.

`python -m tests.benchmarks.transcription --folder F [--pools speech,words,…] [--only "without pauses"]
[--variants faster,…]` hears the recordings of `tests.benchmarks.recordings` with each variant, one thread and
a process each, at its library's own defaults. What was heard is kept in F, so that a run goes on where it was
broken off; `--again NAME` forgets what a variant heard. At the end it writes `reports/transcription.md`.

Seconds are those of the processor, so that a busy machine matters little: divided by the sound's length they
are the real-time factor of a core that does nothing else. Loading and a first clip are not counted.

The model is `STUDIO_TEST_MODEL`, the speech `STUDIO_TEST_SPEECH`. openai-whisper has to be on the path: its
alignment cuts the single words.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.settings import DEMO_SPEECH
from tests.benchmarks import recordings
from tests.benchmarks.hearing_report import report
from tests.benchmarks.recordings import Recording, Sound

ROOT = Path(__file__).resolve().parents[2]
REPORT = Path(__file__).parent / "reports" / "transcription.md"
VARIANTS = {
    "pipeline": "transformers pipeline",
    "pipeline-batched": "transformers pipeline, batched",
    "openai": "openai-whisper",
    "faster": "faster-whisper",
    "faster-batched": "faster-whisper, batched",
    "faster-multilingual": "faster-whisper, `multilingual`",
    "studio-transformers": "**studio, transformers**",
    "studio-transformers-batched": "**studio, transformers**, batched",
    "studio-ctranslate2": "**studio, faster-whisper**",
    "studio-ctranslate2-batched": "**studio, faster-whisper**, batched",
}
POOLS: dict[str, Callable[[Path], Iterator[Recording]]] = {
    "speech": lambda _: (r for language in recordings.FOLDERS for r in recordings.speech(language)),
    "words": lambda folder: (
        r for language in recordings.FOLDERS for r in recordings.words(language, cut_words(language, folder))
    ),
    "languages": lambda _: recordings.two_languages(),
    "lengths": lambda _: (r for language in recordings.FOLDERS for r in recordings.lengths(language)),
    "noise": lambda _: _noise(),
    "synthetic": lambda _: recordings.synthetic(),
}
TIMED = ("joined-0", "joined-1", "spliced", "synthetic")
"""Recordings, by a part of their names, that are heard once more with a time for each word."""
_PACKAGES = ("transformers", "torch", "faster-whisper", "ctranslate2", "openai-whisper")


def _noise() -> Iterator[Recording]:
    yield from recordings.non_speech()
    for language in recordings.FOLDERS:
        yield from recordings.noisy(language)


def known_sentences() -> list[tuple[Sound, str]]:
    """Two sentences of the studio's long sample at a time: about five seconds."""
    folder = DEMO_SPEECH / "samples"
    row = json.loads((folder / "long.json").read_text(encoding="utf-8"))
    samples = read_audio(folder / row["file"])
    pairs = zip(row["segments"][::2], row["segments"][1::2], strict=False)
    return [
        (
            samples[int((a["start"] - 0.3) * SAMPLING_RATE) : int((b["end"] + 0.3) * SAMPLING_RATE)],
            f"{a['text']} {b['text']}",
        )
        for a, b in pairs
    ]


def cut_words(language: str, folder: Path, split: str = "test") -> Path:
    """Where single words lie in the clips, as openai-whisper aligns the true text: made once, a file."""
    path = folder / f"words-{language}{'' if split == 'test' else f'-{split}'}.json"
    if path.is_file():
        return path
    from whisper.audio import N_FRAMES, log_mel_spectrogram, pad_or_trim
    from whisper.timing import find_alignment
    from whisper.tokenizer import get_tokenizer

    from tests.benchmarks.transcribers import openai_model

    model = openai_model(Path(os.environ["STUDIO_TEST_MODEL"]))
    tokenizer = get_tokenizer(True, language=language, task="transcribe")
    speech = Path(os.environ["STUDIO_TEST_SPEECH"]) / recordings.FOLDERS[language]
    lines = _lines(speech / f"{split}.jsonl")
    every = [json.loads(line) for split in ("train", "test") for line in _lines(speech / f"{split}.jsonl")]
    usual = recordings.usual_pairs([row["text"] for row in every])
    found = []
    for row in map(json.loads, lines):
        samples = read_audio(speech / row["audio"])
        mel = log_mel_spectrogram(samples, padding=0)
        frames = mel.shape[-1]
        text = row["text"] if language == "zh" else f" {row['text']}"
        aligned = find_alignment(model, tokenizer, tokenizer.encode(text), pad_or_trim(mel, N_FRAMES), frames)
        timed = [
            (word.word.strip(), float(word.start), float(word.end)) for word in aligned if word.word.strip()
        ]
        for said, start, end in recordings.candidates(language, timed):
            if language == "en" or said in usual:
                found.append({"audio": row["audio"], "text": said, "start": start, "end": end})
    random.Random(4).shuffle(found)
    path.write_text(json.dumps(found[: recordings.WORDS], ensure_ascii=False), encoding="utf-8")
    return path


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


# ---------------------------------------------------------------------- hearing


class _Process:
    """One variant with its model loaded."""

    def __init__(self, variant: str, model: Path, export: Path) -> None:
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-m", "tests.benchmarks.transcribers", variant, str(model), str(export)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._answer("ready")

    def hear(self, path: Path, language: str, *, with_words: bool) -> dict[str, Any]:
        """What it answers about the samples in a file."""
        assert self._process.stdin
        asked = {"path": str(path), "language": language, "with_words": with_words}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._answer("{"))
        return found

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self, beginning: str) -> str:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line
        raise RuntimeError("A process of the benchmark ended before its time: its error is above.")


class Heard:
    """What each variant answered, a line each in a file that a later run reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        rows = map(json.loads, _lines(path)) if path.is_file() else ()
        self.rows: dict[tuple[str, str, bool], dict[str, Any]] = {_key(row): row for row in rows}

    def add(self, row: dict[str, Any]) -> None:
        """Keeps an answer."""
        self.rows[_key(row)] = row
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def forget(self, variant: str) -> None:
        """Drops what a variant answered."""
        self.rows = {key: row for key, row in self.rows.items() if not row["variant"].startswith(variant)}
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows.values()]
        self._path.write_text("".join(lines), encoding="utf-8")


def _key(row: dict[str, Any]) -> tuple[str, str, bool]:
    return row["variant"], row["name"], row["with_words"]


def hear_all(sounds: list[Recording], variants: list[str], heard: Heard, folder: Path) -> None:
    """Each recording with each variant, one variant after the other, except what is known."""
    model = Path(os.environ["STUDIO_TEST_MODEL"])
    export = exported(model, folder)
    for variant in variants:
        if variant == "faster-multilingual":
            sounds = [sound for sound in sounds if sound.language == "auto"]
        wanted = [
            (sound, with_words)
            for sound in sounds
            for with_words in (False, True)
            if (not with_words or any(part in sound.name.replace(" ", "-") for part in TIMED))
            and (variant, sound.name, with_words) not in heard.rows
        ]
        if not wanted:
            continue
        process = _Process(variant, model, export)
        for sound, with_words in wanted:
            path = folder / "sound.npy" if len(variants) == 1 else folder / f"{variant}.npy"
            np.save(path, sound.samples)
            answer = process.hear(path, sound.language, with_words=with_words)
            heard.add({"variant": variant, "name": sound.name, "with_words": with_words, **answer})
        process.close()
        print(variant, f"{sum(heard.rows[variant, s.name, w]['cpu'] for s, w in wanted):.0f} s", flush=True)


def exported(model: Path, folder: Path) -> Path:
    """The model for faster-whisper, its weights in float32: made once."""
    export = folder / "home" / "models" / "export"
    if not export.is_dir():
        environ = {**os.environ, "STUDIO_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
        command = ["export", str(model), "--quantization", "float32", "--name", "export"]
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([sys.executable, "-m", "studio", *command], cwd=ROOT, env=environ, **quiet)
    return export


def machine() -> dict[str, str]:
    """What the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {"processor": name or platform.machine(), "python": platform.python_version(), **versions}


def main() -> None:
    """Hears what is not yet known, and writes the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pools", default=",".join(POOLS))
    parser.add_argument("--only", default="", help="a part of the names of the recordings to hear")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--again", action="append", default=[])
    parser.add_argument("--report", type=Path, default=REPORT)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    heard = Heard(given.folder / "heard.jsonl")
    for variant in given.again:
        heard.forget(variant)
    sounds: list[Recording] = []
    for pool in given.pools.split(","):
        made = [sound for sound in POOLS[pool](given.folder) if given.only in sound.name]
        print(
            pool, f"{len(made)} recordings, {sum(sound.seconds for sound in made) / 60:.0f} min", flush=True
        )
        sounds += made
        hear_all(made, given.variants.split(","), heard, given.folder)
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    text = report(sounds, VARIANTS, heard.rows, told)
    given.report.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
