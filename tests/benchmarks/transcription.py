"""Transcription as the libraries' guides write it, and ours: speed, memory and errors on the same sound.

`python -m tests.benchmarks.transcription [--data demo,short,aishell] [--clips 12] [--long_seconds 240]` hears
short clips and a recording joined from clips with each variant, on one thread, and writes
`reports/transcription.json` and `.md`. Each variant has a process of its own; all of them hear each clip in
turn, several times over, and the quickest round counts. Seconds are those of the processor, so that a busy
machine matters little: divided by the sound's length they are the real-time factor of a core that does
nothing else. Wall time stands beside them. Loading and a first clip are not counted. Of
a clip the studio is asked for the text alone, as a library's guide asks its pipeline; of a recording for
times, too.

- `demo`: the demo model and sentences of the studio's samples, which it knows.
- `short`: the demo model fine-tuned in short-audio mode, as the benchmark begins, and the demo's test clips.
- `aishell`: whisper-tiny and AISHELL-1 (folders `STUDIO_TEST_MODEL` and `STUDIO_TEST_SPEECH`).

openai-whisper takes part where it is installed and knows the model's vocabulary; it gets the same weights.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.evaluation.metrics import error_rates
from studio.settings import DEMO_MODEL, DEMO_SPEECH
from tests.benchmarks.transcribers import Sound

ROOT = Path(__file__).resolve().parents[2]
REPORTS = Path(__file__).parent / "reports"
VARIANTS = {
    "pipeline": "transformers pipeline",
    "openai": "openai-whisper",
    "faster": "faster-whisper",
    "faster-batched": "faster-whisper, batched",
    "faster-as-ours": "faster-whisper, our options",
    "studio-transformers": "**studio, transformers**",
    "studio-faster": "**studio, faster-whisper**",
}
ONLY_LONG = ("faster-batched",)
"""Differs from another variant in the recording only."""
OPENAI_VOCABULARY = (51864, 51865, 51866)
TITLES = {
    "demo": "The demo model, sentences it knows; errors in words",
    "short": "The demo model fine-tuned in short-audio mode, the demo's test clips; errors in words",
    "aishell": "whisper-tiny on AISHELL-1; errors in characters",
}
PAUSE_SECONDS = 0.3
CHEAP_SECONDS, CHEAP_CLIP_SECONDS = 20.0, 2.0
"""A recording, and a clip, that takes less of the processor is heard `MORE_ROUNDS` times more."""
MORE_ROUNDS = 3
_PACKAGES = ("transformers", "torch", "faster-whisper", "ctranslate2", "openai-whisper")


@dataclass(frozen=True)
class Sounds:
    """Clips with their texts, and a recording joined from them, clip after clip from the first on."""

    clips: list[Sound]
    texts: list[str]
    recording: Sound
    said: str
    language: str

    def save(self, folder: Path) -> None:
        """For the processes that hear them."""
        for number, clip in enumerate(self.clips):
            np.save(folder / f"{number}.npy", clip)
        np.save(folder / "long.npy", self.recording)


def sounds_of(data: str, count: int, long_seconds: float) -> Sounds:
    """The first `count` clips of a set, and a recording of about `long_seconds`."""
    pairs = known_sentences() if data == "demo" else _test_clips(data)
    pause = np.zeros(int(PAUSE_SECONDS * SAMPLING_RATE), np.float32)
    parts: list[Sound] = []
    said: list[str] = []
    while sum(map(len, parts)) < long_seconds * SAMPLING_RATE:
        samples, text = pairs[len(said) % len(pairs)]
        parts += [samples, pause]
        said.append(text)
    chosen = pairs[:count]
    joined = ("" if data == "aishell" else " ").join(said)
    language = "zh" if data == "aishell" else "en"
    return Sounds([c for c, _ in chosen], [t for _, t in chosen], np.concatenate(parts), joined, language)


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


def _test_clips(data: str) -> list[tuple[Sound, str]]:
    folder = DEMO_SPEECH if data == "short" else Path(os.environ["STUDIO_TEST_SPEECH"]) / "aishell1_zh"
    rows = map(json.loads, (folder / "test.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        (
            read_audio(folder / (row["audio"]["path"] if data == "short" else row["audio"])),
            row["sentence"] if data == "short" else row["text"],
        )
        for row in rows
    ]


# ---------------------------------------------------------------------- models


def model_of(data: str, home: Path) -> Path:
    """The folder of the model that hears a set; the one for short clips is made now."""
    if data != "short":
        return DEMO_MODEL if data == "demo" else Path(os.environ["STUDIO_TEST_MODEL"])
    _studio(home, "train --base_model demo --train_data demo --short_audio on --run_name short --json")
    adapter = next(path for path in (home / "models").iterdir() if (path / "adapter_config.json").is_file())
    _studio(home, f"export {adapter.name} --format merged --name short-merged")
    return home / "models" / "short-merged"


def export_of(data: str, model: Path, home: Path) -> Path:
    """The model for faster-whisper, its weights in float32."""
    name = "demo" if data == "demo" else model
    _studio(home, f"export {name} --quantization float32 --name {data}-export")
    return home / "models" / f"{data}-export"


def _studio(home: Path, command: str) -> None:
    environ = {**os.environ, "STUDIO_HOME": str(home), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "studio", *command.split()],
        cwd=ROOT,
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
    )


# ---------------------------------------------------------------------- measuring


class _Process:
    """One variant with its model loaded."""

    def __init__(self, variant: str, folder: Path, model: Path, export: Path, language: str) -> None:
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        module = "tests.benchmarks.transcribers"
        command = [sys.executable, "-m", module, variant, str(folder), str(model), str(export), language]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._answer("ready")

    def hear(self, what: str) -> dict[str, Any]:
        """The answer to `short 3` or `long`."""
        assert self._process.stdin
        self._process.stdin.write(f"{what}\n")
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


def measure(data: str, count: int, long_seconds: float, rounds: int, home: Path) -> dict[str, Any]:
    """All variants on one set: each clip is heard by each of them before the next clip is."""
    sounds = sounds_of(data, count, long_seconds)
    model = model_of(data, home)
    export = export_of(data, model, home)
    folder = home / data
    folder.mkdir()
    sounds.save(folder)
    processes = {
        variant: _Process(variant, folder, model, export, sounds.language)
        for variant in VARIANTS
        if variant != "openai" or _has_openai(model)
    }
    clips: dict[str, list[dict[str, Any]]] = {
        variant: [] for variant in processes if variant not in ONLY_LONG
    }
    for number in range(len(sounds.clips)):
        found = _least({v: processes[v] for v in clips}, f"short {number}", rounds, CHEAP_CLIP_SECONDS)
        for variant, answer in found.items():
            clips[variant].append(answer)
    print(data, {v: round(sum(answer["cpu"] for answer in all_), 3) for v, all_ in clips.items()}, flush=True)
    whole = _least(processes, "long", max(1, rounds - 1), CHEAP_SECONDS)
    for process in processes.values():
        process.close()
    lengths = {
        "clips": len(sounds.clips),
        "clip_seconds": sum(map(len, sounds.clips)) / SAMPLING_RATE,
        "long_seconds": len(sounds.recording) / SAMPLING_RATE,
    }
    rows = {v: _row(data, sounds, clips.get(v, []), whole[v]) for v in processes}
    return {**lengths, "variants": rows}


def _has_openai(model: Path) -> bool:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return importlib.util.find_spec("whisper") is not None and config["vocab_size"] in OPENAI_VOCABULARY


def _least(
    processes: dict[str, _Process], what: str, rounds: int, cheap_seconds: float
) -> dict[str, dict[str, Any]]:
    """Each variant's answer with its least seconds; what is close to one another is heard more often."""
    found = _quickest(processes, what, rounds)
    cheap = {v: process for v, process in processes.items() if found[v]["cpu"] < cheap_seconds}
    for variant, answer in _quickest(cheap, what, MORE_ROUNDS).items():
        found[variant] = min((found[variant], answer), key=lambda one: float(one["cpu"]))
    return found


def _quickest(processes: dict[str, _Process], what: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Each variant's answer with its least seconds of all rounds."""
    answers: dict[str, list[dict[str, Any]]] = {variant: [] for variant in processes}
    for _ in range(rounds):
        for variant, process in processes.items():
            answers[variant].append(process.hear(what))
    return {
        variant: {**all_[-1], "cpu": min(a["cpu"] for a in all_), "wall": min(a["wall"] for a in all_)}
        for variant, all_ in answers.items()
    }


def _row(
    data: str, sounds: Sounds, clips: list[dict[str, Any]], whole: dict[str, Any]
) -> dict[str, float | None]:
    normalizer, metric = ("chinese", "cer") if data == "aishell" else ("none", "wer")
    row: dict[str, float | None] = dict.fromkeys(("short_cpu", "short_wall", "short_errors"))
    if clips:
        length = sum(map(len, sounds.clips)) / SAMPLING_RATE
        rates = error_rates(sounds.texts, [clip["text"] for clip in clips], normalizer)
        row["short_cpu"] = sum(clip["cpu"] for clip in clips) / length
        row["short_wall"] = sum(clip["wall"] for clip in clips) / length
        row["short_errors"] = getattr(rates, metric)
    length = len(sounds.recording) / SAMPLING_RATE
    row["long_cpu"], row["long_wall"] = whole["cpu"] / length, whole["wall"] / length
    row["long_errors"] = getattr(error_rates([sounds.said], [whole["text"]], normalizer), metric)
    row["peak_mib"] = whole["peak"]
    return row


# ---------------------------------------------------------------------- report


def table(data: str, found: dict[str, Any]) -> str:
    """The results of one set in Markdown."""
    head = (
        f"## {TITLES[data]}\n\n{found['clips']} clips, {found['clip_seconds']:.0f} s together, and a "
        f"recording of {found['long_seconds']:.0f} s.\n\n"
        "| | clips, RTF | by the clock | errors | recording, RTF | by the clock | errors | peak, MiB |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(f"| {VARIANTS[name]} {_cells(row)}\n" for name, row in found["variants"].items())


def _cells(row: dict[str, float | None]) -> str:
    cells = []
    for kind in ("short", "long"):
        for name in ("cpu", "wall"):
            value = row[f"{kind}_{name}"]
            cells.append("" if value is None else f"{value:.4f}")
        errors = row[f"{kind}_errors"]
        cells.append("" if errors is None else f"{100 * errors:.1f} %")
    return "| " + " | ".join([*cells, f"{row['peak_mib']:.0f}"]) + " |"


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
    """Measures and writes both reports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="demo,short,aishell")
    parser.add_argument("--clips", type=int, default=12)
    parser.add_argument("--long_seconds", type=float, default=240.0)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    results: dict[str, Any] = {"schema_version": 1, "machine": machine(), "rounds": given.rounds, "sets": {}}
    for data in given.data.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found = measure(data, given.clips, given.long_seconds, given.rounds, Path(folder))
        results["sets"][data] = found
        print(table(data, found), flush=True)
        # After each set: who breaks a long run off keeps what is done.
        text = json.dumps(results, indent=1) + "\n"
        (REPORTS / "transcription.json").write_text(text, encoding="utf-8")
        (REPORTS / "transcription.md").write_text(report(results), encoding="utf-8")


def report(results: dict[str, Any]) -> str:
    """All results in Markdown."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    head = (
        "# Transcription, beside the libraries\n\n`python -m tests.benchmarks.transcription`: one thread, "
        "float32; RTF is the real-time factor in seconds of the processor, the least of "
        f"{results['rounds']} rounds. {told}.\n\n"
    )
    return head + "\n".join(table(data, found) for data, found in results["sets"].items())


if __name__ == "__main__":
    main()
