"""How much the endpoint adds to the engine's own time, for a clip of five seconds.

`python -m tests.benchmarks.endpoint [MODEL_FOLDER …]`: the demo model, and each model whose folder is named.
The clip is heard fifty times by the engine and fifty times through the endpoint with OpenAI's package, in
turn, so that a busy moment meets both; all in one process. So is a clip in which nobody speaks, of which the
engine hears no word: there the difference stands out. The report goes to `tests/benchmarks/reports`; the exit
code is 1 if the median of the differences is above 20 ms.
"""

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import soundfile

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.settings import DEMO_SPEECH, Settings
from studio.transcription.engine import TranscribeOptions
from tests.studio_process import ROOT
from tests.unit.serving.served import ServedEndpoint, served_endpoint

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "endpoint.md"
PAIRS = 50
CLIP_SECONDS = 5.0
HIGHEST_MEDIAN_MS = 20.0


def five_seconds(folder: Path, sample: str) -> Path:
    """The beginning of a sample, with silence behind it where it is shorter."""
    length = int(CLIP_SECONDS * SAMPLING_RATE)
    samples = read_audio(DEMO_SPEECH / "samples" / sample)[:length]
    path = folder / sample
    soundfile.write(path, np.pad(samples, (0, length - len(samples))), SAMPLING_RATE)
    return path


def measure(served: ServedEndpoint, model: str, clip: Path) -> list[tuple[float, float]]:
    """Milliseconds of the engine and through the endpoint, pair by pair; which is first takes turns."""
    options = TranscribeOptions(timestamps="word")
    client = served.client()

    def engine() -> str:
        return served.services.engines.transcribe(model, clip, options).text

    def endpoint() -> str:
        return client.audio.transcriptions.create(model=model, file=clip).text

    assert engine() == endpoint()  # once unmeasured: the model is loaded the first time
    pairs = []
    for number in range(PAIRS):
        took = {}
        for ask in (engine, endpoint) if number % 2 else (endpoint, engine):
            start = time.perf_counter()
            ask()
            took[ask] = 1000 * (time.perf_counter() - start)
        pairs.append((took[engine], took[endpoint]))
    return pairs


def report(measured: dict[str, list[tuple[float, float]]]) -> str:
    """The report as Markdown."""
    rows = []
    for model, pairs in measured.items():
        more = [asked - own for own, asked in pairs]
        own, asked = (statistics.median(values) for values in zip(*pairs, strict=True))
        least, most = np.quantile(more, [0.05, 0.95])
        middle = statistics.median(more)
        rows.append(f"| {model} | {own:.1f} | {asked:.1f} | **{middle:.1f}** | {least:.1f} to {most:.1f} |")
    return f"""# What the endpoint adds

A clip of {CLIP_SECONDS:g} seconds, heard by the engine itself and through `POST /v1/audio/transcriptions`
with OpenAI's package, {PAIRS} times each in turn, made by `python -m tests.benchmarks.endpoint`.
Milliseconds; at most {HIGHEST_MEDIAN_MS:g} may be added.

| model | engine, median | endpoint, median | added, median of the pairs | 5 to 95 % of the pairs |
|---|---|---|---|---|
{chr(10).join(rows)}

Machine: {platform.machine()}, {os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.1f} at the end (other
work included), {platform.system()}; Python {platform.python_version()}, torch {version("torch")}, starlette
{version("starlette")}, openai {version("openai")}.
"""


def main(models: Sequence[str]) -> int:
    """Measures, writes the report, and tells whether the endpoint is quick enough."""
    measured = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(home=folder / "home", hf_cache=folder / "hf")
        settings.prepare()
        for model in map(Path, models):
            (settings.models / model.name).symlink_to(model.resolve())
        clip, silence = (five_seconds(folder, name) for name in ("kitchen-light.flac", "silence.flac"))
        with served_endpoint(settings) as served:
            measured["demo, nobody speaks"] = measure(served, "demo", silence)
            for model_id in ("demo", *(Path(model).name for model in models)):
                measured[model_id] = measure(served, model_id, clip)
                print(report(measured), flush=True)
    REPORT.write_text(report(measured), encoding="utf-8")
    added = [statistics.median(asked - own for own, asked in pairs) for pairs in measured.values()]
    return 0 if max(added) <= HIGHEST_MEDIAN_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
