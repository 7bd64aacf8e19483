"""Five beams that share what they hear, beside beams with a copy each, as transformers decodes by itself.

`python -m tests.benchmarks.beams [MODEL_FOLDER …]`: the demo model, and each model whose folder is named, on
windows of 30 s of `STUDIO_TEST_SPEECH`, one thread, float32. A process each way and number of windows; they
come in turn, twice. Seconds are those of the processor, the lesser of the two. The exit code is 1 if
the texts differ. The report goes to `tests/benchmarks/reports`.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.settings import DEMO_MODEL
from studio.transcription.loaded_base import load_base
from studio.transcription.window_model import Search
from studio.transcription.windows import WINDOW_SAMPLES
from studio.units import MIB
from tests.benchmarks.recordings import FOLDERS
from tests.benchmarks.transcription import machine
from tests.studio_process import ROOT

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "beams.md"
BEAMS, ROUNDS = 5, 2
WINDOWS = (1, 8)
WAYS = ("copies", "shared")


def speech(language: str, windows: int) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """Full windows of clips one after the other, with half a second between them."""
    folder = Path(os.environ["STUDIO_TEST_SPEECH"]) / FOLDERS[language]
    lines = (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()
    pause = np.zeros(SAMPLING_RATE // 2, np.float32)
    sound = np.concatenate(
        [part for row in map(json.loads, lines) for part in (read_audio(folder / row["audio"]), pause)]
    )
    return [sound[place * WINDOW_SAMPLES : (place + 1) * WINDOW_SAMPLES] for place in range(windows)]


def measure(folder: str, language: str, windows: int, way: str) -> dict[str, object]:
    """Decodes the windows together: seconds of the processor, the growth of memory, and the tokens."""
    from studio.transcription.engines import transformers

    if way == "copies":
        transformers.can_share = lambda _model, _beams: False
    with load_base(Path(folder), device="cpu", precision="float32", threads=1).using(None) as model:
        encoded = model.encode(speech(language, windows))
        prompts = [model.tokens.prompt(language, "transcribe", with_times=True)] * windows
        before = _peak()
        start = time.process_time()
        found = model.generate(encoded, prompts, Search(num_beams=BEAMS))
        took = time.process_time() - start
    return {"seconds": took, "bytes": _peak() - before, "tokens": [one.tokens for one in found]}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_a_process(*asked: object) -> dict[str, object]:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.beams", "--measure", *map(str, asked)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str]) -> int:
    """Measures each model, writes the report, and says whether all texts were the same."""
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [
        "# Beams that share what they hear",
        "",
        f"`python -m tests.benchmarks.beams`: {BEAMS} beams, windows of 30 s decoded together, one thread, "
        f"float32, seconds of the processor, the least of {ROUNDS} each; the growth of memory is that of the "
        f"process while it decodes. {told}. Other work ran beside.",
        "",
        "| model | speech | windows | a copy each | shared | ratio | memory, MiB | the same texts |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    is_same = True
    for folder in (str(DEMO_MODEL), *arguments):
        for language in FOLDERS:
            for windows in WINDOWS:
                rounds = [
                    [in_a_process(folder, language, windows, way) for way in WAYS] for _ in range(ROUNDS)
                ]
                copies, shared = (min(float(str(one[n]["seconds"])) for one in rounds) for n in range(2))
                grown = [min(int(str(one[n]["bytes"])) for one in rounds) // MIB for n in range(2)]
                same = all(one["tokens"] == rounds[0][0]["tokens"] for both in rounds for one in both)
                is_same &= same
                lines.append(
                    f"| {Path(folder).name} | {language} | {windows} | {copies:.2f} s | {shared:.2f} s | "
                    f"{shared / copies:.2f} | {grown[0]:,} → {grown[1]:,} | {'yes' if same else '**no**'} |"
                )
                print(lines[-1], flush=True)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(not is_same)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        folder, language, count, way = sys.argv[2:]
        print(json.dumps(measure(folder, language, int(count), way)))
    else:
        sys.exit(main(sys.argv[1:]))
