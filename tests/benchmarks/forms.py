"""Which form to deploy, on real clips: `python -m tests.benchmarks.forms [--clips 60]`.

As somebody asks for it on the command line, in a home of its own: whisper-tiny (`STUDIO_TEST_MODEL`) is
exported for whisper.cpp in both of its precisions, then `evaluate --forms all` hears English test clips
(`STUDIO_TEST_SPEECH`). The report goes to `tests/benchmarks/reports/forms.md`.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from studio.publishing.formats.ggml import Ggml
from studio.reports.forms_views import form_rows, recommendation
from tests.studio_process import ROOT

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "forms.md"
SPEECH = "speechocean762_en"
MODEL = "tiny-here"
COLUMNS = ("form", "WER", "CER", "loss in points (95 %)", "RTF", "peak memory", "size")
LIBRARIES = ("torch", "transformers", "faster-whisper", "ctranslate2", "pywhispercpp")


def words_of(data: Path, clips: int) -> list[str]:
    """The command, but for where its answer goes."""
    asked = f"evaluate --models {MODEL} --data {data} --max_samples {clips} --language en"
    return [*asked.split(), "--normalizer", "english", "--forms", "all"]


def measure(model: Path, speech: Path, clips: int) -> dict[str, Any]:
    """What the command answers as JSON.

    Raises:
        subprocess.CalledProcessError: if an export or the comparison fails.
    """
    with tempfile.TemporaryDirectory() as place:
        home, answer = Path(place) / "home", Path(place) / "forms.json"
        shutil.copytree(model, home / "models" / MODEL)  # the result is kept in the card beside the weights
        environ = {**os.environ, "STUDIO_HOME": str(home)}
        for kind in Ggml.quantizations:
            studio(["export", MODEL, "--format", "ggml", "--quantization", kind], environ)
        studio([*words_of(speech / SPEECH / "test.jsonl", clips), "--output_file", str(answer)], environ)
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found


def studio(words: list[str], environ: Mapping[str, str]) -> None:
    """Runs a command of the studio to its end."""
    subprocess.run([sys.executable, "-m", "studio", *words], cwd=ROOT, env=environ, check=True)


def report(found: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    rows, problems = [], []
    for cells, problem in form_rows(found):
        if problem is None:
            rows.append(f"| {' | '.join(cells)} |")
        else:
            problems.append(f"- {cells[0]}: {problem}")
    used = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    command = " ".join(words_of(Path(SPEECH) / "test.jsonl", found["clips"]))
    return f"""# Which form to deploy

whisper-tiny on {found["clips"]} test clips of {SPEECH}, errors after Whisper's normaliser for English. The
loss is the difference to the first form, with its 95 % interval (paired bootstrap over clips); RTF in seconds
of the clock for a second of sound, loading left out; memory beyond what the libraries took. As `evaluate`
does unless told, faster-whisper looks with five beams, the others greedily. Other work on the machine
counts in the RTF, more beside one form than beside another. Made by `python -m tests.benchmarks.forms`, which
exports the model for whisper.cpp and runs
`python -m studio {command}`.

| {" | ".join(COLUMNS)} |
|{"---|" * len(COLUMNS)}
{chr(10).join(rows)}

{recommendation(found) or "No form is recommended."}

Not played on this machine:

{chr(10).join(problems) or "- none"}

Machine: {platform.machine()}, {os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.1f} at the end (other
work included), {platform.system()}; Python {platform.python_version()}, {used}.
"""


def main() -> None:
    """Measures and writes the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clips", type=int, default=60)
    clips = parser.parse_args().clips
    found = measure(Path(os.environ["STUDIO_TEST_MODEL"]), Path(os.environ["STUDIO_TEST_SPEECH"]), clips)
    REPORT.write_text(report(found), encoding="utf-8")


if __name__ == "__main__":
    main()
