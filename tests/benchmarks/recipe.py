"""What a training recipe teaches, and what it breaks: errors on its own clips and on long recordings.

`python -m tests.benchmarks.recipe [--data aishell,words_en] [--variants base,before,default] [--seeds 1]
[--folder F]` trains whisper-tiny with each variant on each kind of clips, in a process of its own and on one
thread, and adds a row to `reports/recipe.json` and to the table `reports/recipe.md`; what is there already
is not run again. `--folder` keeps the words that are cut (an openai-whisper on the path is needed for those).

Each model then reads, without being told more than the language, its test clips; the joined test clips of
its own language; and those of the other language (English for Mandarin, Mandarin for English): in windows as
its card says, and, for comparison, all in windows as it was trained.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import recordings
from tests.benchmarks.training import ROOT

REPORT = Path(__file__).parent / "reports" / "recipe.json"
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "before": {"learning_rate": 1e-3, "replay_share": 0.0, "padded_share": 0.1, "adapter_strength": 1.0},
    "gentle": {"learning_rate": 3e-4, "replay_share": 0.0, "padded_share": 0.1, "adapter_strength": 1.0},
    "whole": {"adapter_strength": 1.0},
    "default": {},
}
"""`before`: rate 1e-3, a tenth of the batches padded; `gentle`: the same with 3e-4; `whole`: with rehearsal,
all that was learned is kept; `default`: what a run has that names none of these, 0.85 of it.
"""
DATA = {
    "aishell": ("zh", {"num_train_epochs": 3.0}),
    "speechocean": ("en", {"num_train_epochs": 3.0}),
    "words_en": ("en", {"max_steps": 80}),
    "words_zh": ("zh", {"max_steps": 80}),
    "aishell40": ("zh", {}),
    "speechocean40": ("en", {}),
}
"""Language, and the length of the run."""
BEGINNERS_CLIPS = 40


def lists_of(data: str, folder: Path) -> tuple[Path, Path]:
    """Training and test list."""
    language = DATA[data][0]
    speech = Path(os.environ["STUDIO_TEST_SPEECH"]) / recordings.FOLDERS[language]
    lists = {split: speech / f"{split}.jsonl" for split in ("train", "test")}
    if data.startswith("words"):
        from tests.benchmarks.transcription import cut_words

        for split in lists:
            rows = json.loads(cut_words(language, folder, split).read_text("utf-8"))
            lists[split] = _written(folder / f"{data}-{split}.jsonl", [_word(speech, row) for row in rows])
    elif data.endswith(str(BEGINNERS_CLIPS)):
        rows = [json.loads(line) for line in lists["train"].read_text("utf-8").splitlines()]
        random.Random(5).shuffle(rows)
        few = [{**row, "audio": str(speech / row["audio"])} for row in rows[:BEGINNERS_CLIPS]]
        lists["train"] = _written(folder / f"{data}-train.jsonl", few)
    return lists["train"], lists["test"]


def _word(speech: Path, row: dict[str, Any]) -> dict[str, Any]:
    start, end = round(row["start"], 3), round(row["end"], 3)
    sound = {"path": str(speech / row["audio"]), "start_time": start, "end_time": end}
    return {"audio": sound, "sentence": row["text"], "duration": round(end - start, 3)}


def _written(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(lines, encoding="utf-8")
    return path


def child(data: str, variant: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run, and what its model reads."""
    import torch

    from tests.benchmarks.training import Meter, run_ours

    torch.set_num_threads(1)
    language, length = DATA[data]
    train, test = lists_of(data, folder)
    meter, began = Meter(), time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        model = os.environ["STUDIO_TEST_MODEL"]
        if variant != "base":
            given = {"base_model": model, "train_data": str(train), "test_data": str(test), "seed": seed}
            given |= {"language": language, "eval_strategy": "no", "save_steps": 0, "capability_check": False}
            model = run_ours(home, {**given, **length, **VARIANTS[variant]}, meter)
        prepared = time.process_time() - began - meter.cpu_seconds
        texts = heard(home, model, language, test)
    return {
        "data": data,
        "variant": variant,
        "seed": seed,
        "training_seconds": round(meter.cpu_seconds, 1),
        "preparing_seconds": round(prepared, 1),
        "texts": texts,
    }


def heard(home: Path, model: str, language: str, test: Path) -> dict[str, list[list[str]]]:
    """Reference and text of each test clip and of each joined recording."""
    from studio.evaluation.compare import evaluate
    from studio.registry.store import ModelRegistry
    from studio.settings import DEMO_MODEL, Settings
    from studio.transcription.engine import TranscribeOptions
    from studio.transcription.model_cache import ModelCache

    settings = Settings.from_env({"STUDIO_HOME": str(home)})
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=3600, threads=1)
    clips = TranscribeOptions(timestamps="none", language=language)
    found = {
        "clips": [
            [row.reference, row.hypothesis]
            for row in evaluate(engines, [model], str(test), options=clips).utterances
        ]
    }
    contexts = ("auto", "short") if registry.get(model).audio_context == "short" else ("auto",)
    for spoken in ("en", "zh"):
        for context in contexts:
            options = TranscribeOptions(language=spoken, num_beams=1, audio_context=context)  # type: ignore[arg-type]
            with engines.lease(model) as engine:
                found[f"{spoken} {context}"] = [
                    [
                        " ".join(said.text for said in one.utterances),
                        engine.transcribe_samples([one.samples], one.seconds, options).text,
                    ]
                    for one in recordings.joined(spoken, spoken, recordings.clips(spoken, ["test"]))
                ]
    engines.close()
    return found


def rate(pairs: Sequence[Sequence[str]], language: str) -> float:
    """Word errors after Whisper's English normaliser; character errors in simplified Chinese."""
    from studio.evaluation.metrics import error_rates

    if language == "en":
        return error_rates([given for given, _ in pairs], [text for _, text in pairs], "english").wer
    import zhconv

    texts = [
        [re.sub(r"\s", "", zhconv.convert(text, "zh-hans")) for text in column]
        for column in zip(*pairs, strict=True)
    ]
    return error_rates(*texts, "basic").cer


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        "# What a recipe teaches and what it breaks",
        "",
        "Made by `python -m tests.benchmarks.recipe` (options: see the file): whisper-tiny, one thread of a "
        f"busy machine with {os.cpu_count()} cores. Errors in per cent: words for English (Whisper's "
        "normaliser), characters for Mandarin (in simplified characters). Clips: the 100 test clips, or 200 "
        "single words of 0.3 to 0.7 s. Long: the 100 test clips of a language joined to recordings of four "
        "minutes, one beam; in brackets where every window is as short as the training clips.",
        "",
        "| learned from | recipe | seed | clips | long English | long Mandarin | training, processor |",
        "|---|---|---|---|---|---|---|",
    ]
    order = list(VARIANTS)
    for row in sorted(rows, key=lambda row: (list(DATA).index(row["data"]), order.index(row["variant"]))):
        cells = [_cell(row["texts"], spoken) for spoken in ("en", "zh")]
        clips = rate(row["texts"]["clips"], DATA[row["data"]][0])
        seconds = f"{row['training_seconds']:.0f} s" if row["variant"] != "base" else ""
        lines.append(
            f"| {row['data']} | {row['variant']} | {row['seed']} | {100 * clips:.1f} "
            f"| {cells[0]} | {cells[1]} | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _cell(texts: dict[str, Any], spoken: str) -> str:
    whole = f"{100 * rate(texts[f'{spoken} auto'], spoken):.1f}"
    short = texts.get(f"{spoken} short")
    return f"{whole} ({100 * rate(short, spoken):.1f})" if short else whole


def main() -> None:
    """Runs what is missing, and writes the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "studio-recipe")
    parser.add_argument("--child", nargs=3, default=None)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.child:
        data, variant, seed = given.child
        print("RESULT " + json.dumps(child(data, variant, int(seed), given.folder)), flush=True)
        return
    rows: list[dict[str, Any]] = json.loads(REPORT.read_text("utf-8")) if REPORT.exists() else []
    for data in given.data.split(","):
        for variant in given.variants.split(","):
            for seed in range(1 if variant == "base" else given.seeds):
                if any((row["data"], row["variant"], row["seed"]) == (data, variant, seed) for row in rows):
                    continue
                words = [sys.executable, "-m", "tests.benchmarks.recipe", "--folder", str(given.folder)]
                words += ["--child", data, variant, str(seed)]
                done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)
                line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
                rows = json.loads(REPORT.read_text("utf-8")) if REPORT.exists() else []
                rows.append(json.loads(line.removeprefix("RESULT ")))
                lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
                REPORT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
                REPORT.with_suffix(".md").write_text(report(rows), encoding="utf-8")
    print(report(rows))


if __name__ == "__main__":
    main()
