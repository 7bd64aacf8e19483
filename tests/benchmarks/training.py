"""Training as the Hugging Face guides write it, and ours: speed, memory and error rates on the same clips.

`python -m tests.benchmarks.training [--data aishell,demo,long] [--recipes plain,padded,mix,short,rehearsed]
[--seeds 1] [--steps N]` runs each recipe in a process of its own, on one thread, and adds what it measured to
`reports/training.json` and, as tables, to `reports/training.md`; what is there already is not run again.
With `--steps`, a run ends after so many steps and has speed and memory only. Speed is counted in seconds of
the processor, so that a busy machine does not matter. All recipes have the same clips, learning rate,
batches and number of steps, and the same adapter but for dropout: the plain one has the guides', ours none.

`long` are the clips of AISHELL joined to 28 to 30 seconds, for speed and memory (`--data long --steps 3`).

- `plain`: `Seq2SeqTrainer` and PEFT, features padded to 30 s, loss over the whole vocabulary at once.
- `padded`: ours without short-audio mode; `mix`: ours, one batch in ten padded; `short`: ours, none padded;
  `rehearsed`: none padded, a window rehearsed beside every other batch.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPORT = Path(__file__).parent / "reports" / "training.json"
ROOT = Path(__file__).resolve().parents[2]
GUIDES_DROPOUT = 0.05
"""Of the guides' adapter."""
RECIPES = ("plain", "padded", "mix", "short", "rehearsed")
SHORT_AUDIO: dict[str, dict[str, Any]] = {
    "padded": {"short_audio": "off", "replay_share": 0.0},
    "mix": {"short_audio": "on", "replay_share": 0.0, "padded_share": 0.1},
    "short": {"short_audio": "on", "replay_share": 0.0},
    "rehearsed": {"short_audio": "on"},
}


def options(data: str, seed: int, steps: int, home: Path) -> dict[str, Any]:
    """The run that all recipes carry out; `home` is for clips that have to be made."""
    import os

    shared: dict[str, Any] = {
        "seed": seed,
        "max_steps": steps,
        "warmup_steps": 0.1 if steps < 0 else 0.0,
        "eval_strategy": "no",
        "timestamps": False,
        "save_steps": 0,
        "logging_steps": 1,
    }
    if data == "demo":
        speech = ROOT / "assets" / "demo-speech"
        return {"train_data": str(speech / "train.jsonl"), "test_data": str(speech / "test.jsonl"), **shared}
    folder = Path(os.environ["STUDIO_TEST_SPEECH"]) / "aishell1_zh"
    if data == "long":
        folder = join_clips(folder, home / "long")
    return {
        "base_model": os.environ["STUDIO_TEST_MODEL"],
        "train_data": str(folder / "train.jsonl"),
        "test_data": str(folder / "test.jsonl"),
        "num_train_epochs": 3.0,
        **shared,
    }


def join_clips(folder: Path, target: Path) -> Path:
    """Clips one after the other to recordings of 28 to 30 seconds; manifests as in `folder`."""
    import numpy as np
    import soundfile

    from studio.dataset.audio import SAMPLING_RATE, read_audio
    from tests.reading import read_manifest

    target.mkdir(parents=True)
    for name in ("train", "test"):
        rows: list[dict[str, Any]] = []
        pieces: list[Any] = []
        text, samples = "", 0
        for example in read_manifest(folder / f"{name}.jsonl").examples:
            sound = read_audio(example.audio_path, example.start_seconds, example.end_seconds)
            if samples + len(sound) > 30 * SAMPLING_RATE:
                if samples >= 28 * SAMPLING_RATE:
                    path = target / f"{name}-{len(rows)}.wav"
                    soundfile.write(path, np.concatenate(pieces), SAMPLING_RATE)
                    rows.append({"audio": path.name, "text": text, "language": example.language or "zh"})
                pieces, text, samples = [], "", 0
            pieces.append(sound)
            text += example.text
            samples += len(sound)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (target / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return target


def clips_of(values: dict[str, Any], steps: int) -> int:
    """Clips that a run learns from: those of its steps, or all of its data once an epoch."""
    from studio.options.training import TrainingConfig
    from tests.reading import read_source

    config = TrainingConfig(**values)
    if steps:
        return config.per_device_train_batch_size * steps
    return round(config.num_train_epochs * len(read_source(config).train_examples))


class Meter:
    """Seconds of training, and the most bytes that a forward pass kept for its backward pass."""

    def __init__(self) -> None:
        self.cpu_seconds = self.wall_seconds = 0.0
        self.kept_bytes = 0

    @contextmanager
    def training(self) -> Iterator[None]:
        """Around the loop of training steps."""
        cpu, wall = time.process_time(), time.monotonic()
        yield
        self.cpu_seconds += time.process_time() - cpu
        self.wall_seconds += time.monotonic() - wall

    @contextmanager
    def forward(self, model: Any) -> Iterator[None]:
        """Around a forward pass: storages that autograd keeps, without the weights."""
        import torch

        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept: dict[int, int] = {}

        def pack(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
        self.kept_bytes = max(self.kept_bytes, sum(kept.values()))


def run_ours(home: Path, values: dict[str, Any], meter: Meter) -> str:
    """The studio's own run; gives back the id of its model."""
    from studio.files import write_json
    from studio.options.arguments import config_to_dict
    from studio.options.training import TrainingConfig
    from studio.settings import Settings
    from studio.training.attempt import Attempt
    from studio.training.outcome import Outcome
    from studio.training.run_dir import RunDir
    from studio.training.stop import StopSignal
    from studio.training.trainer import WhisperTrainer

    patched: Any = WhisperTrainer
    train, compute = patched.train, patched.compute_loss

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        with meter.training():
            return train(self, *args, **kwargs)

    def watched(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        with meter.forward(model):
            return compute(self, model, *args, **kwargs)

    patched.train, patched.compute_loss = timed, watched
    settings = Settings.from_env({"STUDIO_HOME": str(home), "STUDIO_THREADS": "1"})
    run = RunDir(settings.runs / "run")
    run.path.mkdir(parents=True)
    write_json(run.config, config_to_dict(TrainingConfig(**values, run_name="tuned")))
    outcome = Outcome()
    Attempt(run, settings, StopSignal(run.stop_request), outcome).carry_out()
    assert outcome.model_id
    return outcome.model_id


def run_plain(home: Path, values: dict[str, Any], meter: Meter) -> str:
    """As the guides write it: the same labels and adapter; every batch padded, all logits at once."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

    from studio.files import write_json
    from studio.options.training import TrainingConfig
    from studio.settings import DEMO_MODEL, Settings
    from studio.training.adapters import choose_precision, load_training_base
    from studio.training.data.collator import FeatureSource, padded_labels
    from studio.training.data.preparation import prepare
    from studio.training.events import EventLog
    from studio.training.learning_rate import learning_rate_for
    from studio.training.run_dir import RunDir
    from studio.training.stop import StopSignal
    from tests.reading import read_source

    config = TrainingConfig(**values)
    settings = Settings.from_env({"STUDIO_HOME": str(home)})
    run = RunDir(settings.runs / "plain")
    run.path.mkdir(parents=True)
    base_path = DEMO_MODEL if config.base_model == "demo" else Path(config.base_model)
    base = load_training_base(base_path, config, choose_precision(config, has_gpu=False))
    stop = StopSignal(run.stop_request)
    clips, _ = prepare(config, settings, read_source(config), base, EventLog(run.events), stop)
    source = FeatureSource(base.decoder.extractor, keep=True)

    def example(clip: Any) -> dict[str, Any]:
        features = torch.from_numpy(source(clip)).float()
        tail = features[:, -1:].expand(-1, 3000 - features.shape[1])
        return {"input_features": torch.cat([features, tail], dim=1), "labels": clip.labels}

    def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "input_features": torch.stack([row["input_features"] for row in rows]),
            "labels": padded_labels([row["labels"] for row in rows]),
        }

    class Plain(Seq2SeqTrainer):
        def compute_loss(self, model: Any, *args: Any, **kwargs: Any) -> Any:
            with meter.forward(model):
                return super().compute_loss(model, *args, **kwargs)

    torch.manual_seed(config.seed)
    adapter = LoraConfig(
        r=config.lora_r,
        lora_alpha=config.lora_alpha,
        lora_dropout=GUIDES_DROPOUT,
        target_modules=list(config.target_modules),
    )
    model: Any = get_peft_model(base.decoder.model, adapter)
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(run.checkpoints),
        per_device_train_batch_size=config.per_device_train_batch_size,
        num_train_epochs=config.num_train_epochs,
        max_steps=config.max_steps,
        learning_rate=learning_rate_for(config, model.base_model.model.config.d_model),
        warmup_steps=config.warmup_steps,
        seed=config.seed,
        remove_unused_columns=False,
        label_names=["labels"],
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_steps=1,
    )
    rows = [example(clip) for clip in clips.train]
    trainer = Plain(model=model, args=arguments, train_dataset=rows, data_collator=collate)  # type: ignore[arg-type]
    with meter.training():
        trainer.train()
    folder = settings.models / "tuned"
    model.save_pretrained(folder)
    adapter_config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    adapter_config["base_model_name_or_path"] = config.base_model
    write_json(folder / "adapter_config.json", adapter_config)
    return "tuned"


def written(home: Path, model_id: str, values: dict[str, Any]) -> list[list[str]]:
    """Reference and hypothesis of each clip of the test set, read as the model's card says."""
    from studio.registry.store import ModelRegistry
    from studio.settings import DEMO_MODEL, Settings
    from studio.transcription.engine import TranscribeOptions
    from studio.transcription.model_cache import ModelCache
    from tests.reading import evaluate

    settings = Settings.from_env({"STUDIO_HOME": str(home)})
    engines = ModelCache(ModelRegistry(settings.models, demo=DEMO_MODEL, hf_cache=None), idle_seconds=300)
    found = evaluate(engines, [model_id], values["test_data"], options=TranscribeOptions(timestamps="none"))
    engines.close()
    return [[row.reference, row.hypothesis] for row in found.utterances]


def child(data: str, recipe: str, seed: int, steps: int) -> dict[str, Any]:
    """One recipe, measured."""
    import torch

    torch.set_num_threads(1)
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        values = options(data, seed, steps or -1, home)
        clips = clips_of(values, steps)
        if recipe == "plain":
            model_id = run_plain(home, values, meter)
        else:
            model_id = run_ours(home, {**values, **SHORT_AUDIO[recipe]}, meter)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        texts = [] if steps else written(home, model_id, values)
    return {
        "data": data,
        "recipe": recipe,
        "seed": seed,
        "steps": steps,
        "clips": clips,
        "cpu_seconds": round(meter.cpu_seconds, 2),
        "wall_seconds": round(meter.wall_seconds, 2),
        "kept_bytes": meter.kept_bytes,
        "peak_process_bytes": peak,
        "texts": texts,
    }


def read() -> list[dict[str, Any]]:
    """What was measured before."""
    return json.loads(REPORT.read_text(encoding="utf-8"))["runs"] if REPORT.exists() else []


def write(rows: list[dict[str, Any]]) -> None:
    """A run a line."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    REPORT.write_text(f'{{"runs": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    """Runs what is missing, and prints what there is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="aishell,demo")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--child", nargs=4, default=None)
    given = parser.parse_args()
    from tests.benchmarks.training_report import report, summary

    if given.child:
        data, recipe, seed, steps = given.child
        print("RESULT " + json.dumps(child(data, recipe, int(seed), int(steps))), flush=True)
        return
    for data in given.data.split(","):
        for seed in range(given.seeds):
            for recipe in given.recipes.split(","):
                key = {"data": data, "recipe": recipe, "seed": seed, "steps": given.steps}
                if any(all(row[name] == value for name, value in key.items()) for row in read()):
                    continue
                done = subprocess.run(
                    [
                        *(sys.executable, "-m", "tests.benchmarks.training", "--child"),
                        *(data, recipe, str(seed), str(given.steps)),
                    ],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    encoding="utf-8",
                    check=True,
                )
                line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
                write([*read(), json.loads(line.removeprefix("RESULT "))])
                print(summary(read()[-1:], read()), flush=True)
    REPORT.with_suffix(".md").write_text(report(read()), encoding="utf-8")
    print(summary(read(), read()))


if __name__ == "__main__":
    main()
