"""What a training recipe teaches, and what it breaks: errors on its own clips and on long recordings.

`python -m tests.benchmarks.recipe [--data aishell,words_en] [--variants base,before,default] [--seeds 1]
[--folder F]` trains whisper-tiny with each variant on each kind of clips, in a process of its own and on one
thread, and adds a row to `reports/recipe.json` and to the table `reports/recipe.md`; what is there already
is not run again. A tenth of the training clips is kept back, for the best checkpoint and for the adapter's
strength. Variants that differ in the strength alone are trained once and read at each of them.
`--folder` keeps the words that are cut (an openai-whisper on the path is needed for those).

Each model then reads, without being told more than the language, its test clips; the joined test clips of
its own language; and all clips of the other language, joined (English for Mandarin, Mandarin for English).
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studio.chinese import SIMPLIFIED, converted
from tests.benchmarks import recordings
from tests.benchmarks.training import ROOT

REPORT = Path(__file__).parent / "reports" / "recipe.json"
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "before": {"learning_rate": 1e-3, "replay_share": 0.0, "padded_share": 0.1, "adapter_strength": 1.0},
    "gentle": {"learning_rate": 3e-4, "replay_share": 0.0, "padded_share": 0.1, "adapter_strength": 1.0},
    "whole": {"adapter_strength": 1.0},
    "default": {},
    "with dropout": {"lora_dropout": 0.05},
    "twice as often": {"replay_share": 0.125, "lora_dropout": 0.05},
    "usual": {"adapter_strength": 0.85},
    "seven tenths": {"adapter_strength": 0.7},
    "half": {"adapter_strength": 0.5},
    "all weights": {"method": "full"},
    "all weights, whole": {"method": "full", "adapter_strength": 1.0},
    "all weights, usual": {"method": "full", "adapter_strength": 0.85},
    "all weights, seven tenths": {"method": "full", "adapter_strength": 0.7},
    "adalora": {"method": "adalora"},
    "dora": {"method": "dora"},
    "frozen encoder": {"method": "frozen_encoder"},
    "ended early": {"eval_strategy": "steps", "eval_steps": 10, "early_stopping_patience": 1},
}
"""`before`: rate 1e-3, a tenth of the batches padded; `gentle`: the same with 3e-4; `whole`: with rehearsal,
all that was learned is kept; `default`: as a run that names none of these, which chooses 0.85 or 0.7; `with
dropout`: as the default was when adapters had dropout; `twice as often`: a window beside each batch of eight,
as the default was still earlier; then as much of what it learned as is written; and the default of other
methods, of all weights also at each strength; `ended early`: the default until the clips kept back have no
fewer errors than ten steps before.
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


def child(data: str, variants: Sequence[str], seed: int, folder: Path) -> list[dict[str, Any]]:
    """One run, and what its model reads, as strong as each of the variants says."""
    import torch

    from tests.benchmarks.training import Meter, run_ours

    torch.set_num_threads(1)
    language, length = DATA[data]
    train, test = lists_of(data, folder)
    meter, began = Meter(), time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        model = os.environ["STUDIO_TEST_MODEL"]
        if variants[0] != "base":
            given = {"base_model": model, "train_data": str(train), "seed": seed}
            given |= {"language": language, "save_steps": 0, "capability_check": False}
            model = run_ours(home, {**given, **length, **_trained_with(variants[0])}, meter)
        prepared = time.process_time() - began - meter.cpu_seconds
        kept = {variant: _at_strength(home, model, variant) for variant in variants}
        texts = {variant: heard(home, kept[variant][0], language, test) for variant in variants}
    return [
        {
            "data": data,
            "variant": variant,
            "seed": seed,
            "training_seconds": round(meter.cpu_seconds, 1),
            "preparing_seconds": round(prepared, 1),
            "strength": kept[variant][1],
            "texts": texts[variant],
        }
        for variant in variants
    ]


def _trained_with(variant: str) -> dict[str, Any]:
    return {name: value for name, value in VARIANTS[variant].items() if name != "adapter_strength"}


def _at_strength(home: Path, model: str, variant: str) -> tuple[str, float]:
    """A copy of the trained model with as much of what was learned as the variant keeps, and how much that
    is.
    """
    from studio.files import read_json
    from studio.registry.spec import CARD_FILE
    from studio.training.strength import mix_files, weaken

    if variant == "base":
        return model, 0.0
    made = float(read_json(home / "models" / model / CARD_FILE).get("adapter_strength", 1))
    if "adapter_strength" not in VARIANTS[variant]:
        return model, made
    strength = VARIANTS[variant]["adapter_strength"]
    copy = home / "models" / f"{model}-{round(100 * strength)}"
    if not copy.exists():
        shutil.copytree(home / "models" / model, copy)
        base = Path(os.environ["STUDIO_TEST_MODEL"])
        if (copy / "adapter_model.safetensors").is_file():
            weaken(copy / "adapter_model.safetensors", base, strength / made)
        else:
            mix_files(copy, base, strength / made)
    return copy.name, strength


def heard(home: Path, model: str, language: str, test: Path) -> dict[str, list[list[Any]]]:
    """Reference and text of each test clip; the sentences of each joined recording, and its text."""
    from studio.registry.store import ModelRegistry
    from studio.settings import DEMO_MODEL, Settings
    from studio.transcription.engine import TranscribeOptions
    from studio.transcription.model_cache import ModelCache
    from tests.reading import evaluate

    settings = Settings.from_env({"STUDIO_HOME": str(home)})
    registry = ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None)
    engines = ModelCache(registry, idle_seconds=3600, threads=1)
    clips = TranscribeOptions(timestamps="none", language=language)
    rows = evaluate(engines, [model], str(test), options=clips).utterances
    found: dict[str, list[list[Any]]] = {"clips": [[row.reference, row.hypothesis] for row in rows]}
    for spoken in recordings.FOLDERS:
        splits = ["test"] if spoken == language else ["train", "test"]
        options = TranscribeOptions(language=spoken, num_beams=1)
        with engines.lease(model) as engine:
            found[spoken] = [
                [
                    [said.text for said in one.utterances],
                    engine.transcribe_samples([one.samples], one.seconds, options).text,
                ]
                for one in recordings.joined(spoken, spoken, recordings.clips(spoken, splits))
            ]
    engines.close()
    return found


def errors(pairs: Sequence[Sequence[Any]], language: str) -> list[tuple[int, int]]:
    """Errors and length of each sentence: words after Whisper's English normaliser; simplified characters."""
    from studio.evaluation.metrics import errors_of_parts

    metric, normalizer = ("wer", "english") if language == "en" else ("cer", "basic")
    found: list[tuple[int, int]] = []
    for said, text in pairs:
        parts = [_comparable(part, language) for part in ([said] if isinstance(said, str) else said)]
        found += errors_of_parts(parts, _comparable(text, language), metric, normalizer)
    return found


def _comparable(text: str, language: str) -> str:
    if language == "en":
        return text
    return re.sub(r"\s", "", converted(text, SIMPLIFIED))


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        "# What a recipe teaches and what it breaks",
        "",
        "Made by `python -m tests.benchmarks.recipe` (options: see the file): whisper-tiny, one thread of a "
        f"busy machine with {os.cpu_count()} cores. Errors in per cent: words for English (Whisper's "
        "normaliser), characters for Mandarin (in simplified characters). Clips: the 100 test clips, or 200 "
        "single words of 0.3 to 0.7 s. Long: clips joined to recordings of four minutes, one beam; of the "
        "language that was learned those of the test, of the other one all 400. In brackets: beside the "
        "base, with 95 % of a paired bootstrap over sentences. Training: processor time, evaluations of the "
        "clips that are kept back included.",
        "",
        "| learned from | recipe | strength | seed | clips | long, its language | long, the other language "
        "| training |",
        "|---|---|---|---|---|---|---|---|",
    ]
    bases = {row["data"]: row["texts"] for row in rows if row["variant"] == "base"}
    order = list(VARIANTS)
    place = {(data, variant): (i, j) for i, data in enumerate(DATA) for j, variant in enumerate(order)}
    for row in sorted(rows, key=lambda row: (*place[row["data"], row["variant"]], row["seed"])):
        language = DATA[row["data"]][0]
        other = next(spoken for spoken in recordings.FOLDERS if spoken != language)
        pairs = [("clips", language), (language, language), (other, other)]
        base = bases.get(row["data"], {}) if row["variant"] != "base" else {}
        cells = [_cell(row["texts"][key], base.get(key), spoken) for key, spoken in pairs]
        seconds = f"{row['training_seconds']:.0f} s" if row["variant"] != "base" else ""
        lines.append(
            f"| {row['data']} | {row['variant']} | {row['strength'] or ''} | {row['seed']} "
            f"| {' | '.join(cells)} | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _cell(texts: Sequence[Any], base: Sequence[Any] | None, language: str) -> str:
    from studio.evaluation.metrics import interval_of

    found = errors(texts, language)
    rate = f"{100 * sum(count for count, _ in found) / sum(length for _, length in found):.1f}"
    if not base:
        return rate
    more, low, high = (100 * value for value in interval_of(errors(base, language), found))
    return f"{rate} ({more:+.1f}: {low:+.1f} to {high:+.1f})"


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
        data, variants, seed = given.child
        print("RESULT " + json.dumps(child(data, variants.split(","), int(seed), given.folder)), flush=True)
        return
    for data in given.data.split(","):
        for variants in trained_once(given.variants.split(",")):
            for seed in range(1 if "base" in variants else given.seeds):
                there = {(row["data"], row["variant"], row["seed"]) for row in reported()}
                if missing := [each for each in variants if (data, each, seed) not in there]:
                    write([*reported(), *run(data, missing, seed, given.folder)])
    print(report(reported()))


def trained_once(variants: Sequence[str]) -> list[list[str]]:
    """The variants by what they are trained with."""
    groups: dict[str, list[str]] = {}
    for variant in variants:
        groups.setdefault(f"{variant == 'base'} {_trained_with(variant)}", []).append(variant)
    return list(groups.values())


def run(data: str, variants: Sequence[str], seed: int, folder: Path) -> list[dict[str, Any]]:
    """Rows of one run, made in a process of its own."""
    words = [sys.executable, "-m", "tests.benchmarks.recipe", "--folder", str(folder)]
    words += ["--child", data, ",".join(variants), str(seed)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    rows: list[dict[str, Any]] = json.loads(line.removeprefix("RESULT "))
    return rows


def reported() -> list[dict[str, Any]]:
    """The rows that are there."""
    rows: list[dict[str, Any]] = json.loads(REPORT.read_text("utf-8")) if REPORT.exists() else []
    return rows


def write(rows: Sequence[dict[str, Any]]) -> None:
    """The rows, and the table of them."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    REPORT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    REPORT.with_suffix(".md").write_text(report(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
