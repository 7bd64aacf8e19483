"""Exports for whisper.cpp beside the model they were made of: `python -m tests.benchmarks.whisper_cpp`.

A hundred test clips of English and of Mandarin (`STUDIO_TEST_MODEL`, `STUDIO_TEST_SPEECH`), greedily, without
times and without fall-back. The report goes to `tests/benchmarks/reports/whisper_cpp.md`.
"""

import json
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

from studio.dataset.audio import read_audio
from studio.evaluation.metrics import error_rates, paired_bootstrap
from studio.publishing.formats.ggml import Ggml
from studio.transcription.loaded_base import load_base
from studio.transcription.window_model import Search
from studio.units import format_bytes

REPORT = Path(__file__).parent / "reports" / "whisper_cpp.md"
SETS = {"speechocean762_en": ("en", "english"), "aishell1_zh": ("zh", "chinese")}
SEARCH = Search(max_new_tokens=96)
COLUMNS = ("speech", "form", "size", "texts identical", "CER", "against the model")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def measure(model: Path, speech: Path, clips: int = 100) -> list[str]:
    """Rows of the table: the model itself, and each form of its weights."""
    rows = []
    with (
        load_base(model, device="cpu", precision="float32").using(None) as decoder,
        tempfile.TemporaryDirectory() as place,
    ):
        for name, (language, normalizer) in SETS.items():
            folder = speech / name
            listed = [json.loads(line) for line in (folder / "test.jsonl").read_text("utf-8").splitlines()]
            sounds = [read_audio(folder / row["audio"]) for row in listed[:clips]]
            references = [row["text"] for row in listed[:clips]]
            prompts = [decoder.tokens.prompt(language, "transcribe", with_times=False)] * len(sounds)
            own = [
                decoder.text_of(
                    decoder.generate(decoder.encode([sound]), [prompts[0]], SEARCH)[0].tokens
                ).strip()
                for sound in sounds
            ]
            rate = error_rates(references, own, normalizer).cer
            rows.append(f"| {name} | transformers, float32 | | | {rate:.1%} | |")
            for kind in Ggml.quantizations:
                target = Path(place) / kind
                target.mkdir(exist_ok=True)
                Ggml().write(decoder, target, kind, model)
                size = (target / Ggml.weights).stat().st_size
                with Ggml().reopened(target) as played:
                    written = played.generate(played.encode(sounds), prompts, SEARCH)
                texts = [decoder.text_of(one.tokens).strip() for one in written]
                same = sum(a == b for a, b in zip(own, texts, strict=True))
                rate = error_rates(references, texts, normalizer).cer
                beside = paired_bootstrap(references, own, texts, "cer", normalizer)
                low, high = 100 * beside.ci_low, 100 * beside.ci_high
                rows.append(
                    f"| {name} | ggml, {kind} | {format_bytes(size)} | {same} of {len(texts)} "
                    f"| {rate:.1%} | {100 * beside.difference:+.1f} points ({low:+.1f} to {high:+.1f}) |"
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measures and writes the report."""
    rows = measure(Path(os.environ["STUDIO_TEST_MODEL"]), Path(os.environ["STUDIO_TEST_SPEECH"]))
    used = ", ".join(f"{name} {version(name)}" for name in ("pywhispercpp", "torch", "transformers"))
    text = (
        "# Exports for whisper.cpp\n\nwhisper-tiny, greedy, without times and fall-back, each clip alone; "
        "the features are each library's own. In brackets the 95 % interval (paired bootstrap over clips).\n"
        f"`python -m tests.benchmarks.whisper_cpp`; Python {platform.python_version()}, {used}.\n\n"
    )
    REPORT.write_text(text + "\n".join([HEAD, *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
