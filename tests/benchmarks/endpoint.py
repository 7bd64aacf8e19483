"""How much the endpoint adds to the engine's own time, for a clip of five seconds.

`python -m tests.benchmarks.endpoint [MODEL_FOLDER …]`: the demo model, and each model whose folder is named.
The clip is heard fifty times by the engine and fifty times through the endpoint with OpenAI's package, in
turn, so that a busy moment meets both; all in one process. Where other work makes the engine's time differ by
more than the endpoint can add, the pairs tell little: so the engine's time is also taken within each request,
and what the request takes beyond it is what the endpoint adds. The report goes to `tests/benchmarks/reports`;
the exit code is 1 if the median of that is above 20 ms.
"""

import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.settings import DEMO_SPEECH, Settings
from studio.transcription.engine import TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from tests.studio_process import ROOT
from tests.unit.serving.served import ServedEndpoint, served_endpoint

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "endpoint.md"
PAIRS = 50
CLIP_SECONDS = 5.0
HIGHEST_MEDIAN_MS = 20.0


@dataclass
class TimedEngines:
    """Real engines, which note how long they took last."""

    engines: ModelCache
    took_ms: float = 0.0

    def transcribe(self, *asked: Any) -> Transcript:
        """As the engines do."""
        start = time.perf_counter()
        heard = self.engines.transcribe(*asked)
        self.took_ms = 1000 * (time.perf_counter() - start)
        return heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engines, name)


def five_seconds(folder: Path) -> Path:
    """The sample of 4.5 s, with silence behind it."""
    length = int(CLIP_SECONDS * SAMPLING_RATE)
    samples = read_audio(DEMO_SPEECH / "samples" / "kitchen-light.flac")
    path = folder / "clip.flac"
    soundfile.write(path, np.pad(samples, (0, length - len(samples))), SAMPLING_RATE)
    return path


def measure(served: ServedEndpoint, model: str, clip: Path) -> list[tuple[float, float, float]]:
    """Milliseconds of the engine alone, through the endpoint, and of the engine within that request."""
    options = TranscribeOptions(timestamps="word")
    engines: Any = served.services.engines
    client = served.client()

    def alone() -> None:
        # In a thread that ends, as the endpoint's: two that computed and live on share the cores badly.
        thread = threading.Thread(target=engines.transcribe, args=(model, clip, options))
        thread.start()
        thread.join()

    def asked() -> None:
        client.audio.transcriptions.create(model=model, file=clip)

    def milliseconds(ask: Callable[[], None]) -> tuple[float, float]:
        start = time.perf_counter()
        ask()
        return 1000 * (time.perf_counter() - start), engines.took_ms

    for ask in (alone, asked):  # once unmeasured: the model is loaded the first time
        ask()
    rows = []
    for number in range(PAIRS):
        order = (alone, asked) if number % 2 else (asked, alone)
        took = {ask: milliseconds(ask) for ask in order}
        rows.append((took[alone][1], *took[asked]))
    return rows


def report(measured: dict[str, list[tuple[float, float, float]]]) -> str:
    """The report as Markdown."""
    rows = []
    for model, took in measured.items():
        alone, asked, _ = (statistics.median(values) for values in zip(*took, strict=True))
        pairs = [through - own for own, through, _ in took]
        least, most = np.quantile(pairs, [0.05, 0.95])
        differ = f"{statistics.median(pairs):.0f} ({least:.0f} to {most:.0f})"
        rows.append(f"| {model} | {alone:.0f} | {asked:.0f} | {differ} | **{added(took):.1f}** |")
    return f"""# What the endpoint adds

A clip of {CLIP_SECONDS:g} seconds, heard by the engine itself and through `POST /v1/audio/transcriptions`
with OpenAI's package, {PAIRS} times each in turn, made by `python -m tests.benchmarks.endpoint`.
Milliseconds; at most {HIGHEST_MEDIAN_MS:g} may be added. The last column is what a request takes beyond the
engine's own time within it; pairs differ by what else the machine does, in brackets from 5 to 95 % of them.

| model | engine | endpoint | difference of pairs | added, median |
|---|---|---|---|---|
{chr(10).join(rows)}

Machine: {platform.machine()}, {os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.1f} at the end (other
work included), {platform.system()}; Python {platform.python_version()}, torch {version("torch")}, starlette
{version("starlette")}, openai {version("openai")}.
"""


def added(took: list[tuple[float, float, float]]) -> float:
    """Median of what requests take beyond the engine's time within them, in milliseconds."""
    return statistics.median(through - within for _, through, within in took)


def main(models: Sequence[str]) -> int:
    """Measures, writes the report, and tells whether the endpoint is quick enough."""
    measured = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(home=folder / "home", hf_cache=folder / "hf")
        settings.prepare()
        for model in map(Path, models):
            (settings.models / model.name).symlink_to(model.resolve())
        clip = five_seconds(folder)
        with served_endpoint(settings, TimedEngines) as served:
            for model_id in ("demo", *(Path(model).name for model in models)):
                measured[model_id] = measure(served, model_id, clip)
                print(report(measured), flush=True)
    REPORT.write_text(report(measured), encoding="utf-8")
    return 0 if max(map(added, measured.values())) <= HIGHEST_MEDIAN_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
