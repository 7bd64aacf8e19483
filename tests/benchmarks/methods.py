"""Every method on the same speech: error rates, time, memory. `python -m tests.benchmarks.methods`.

Each method trains the demo model on the demo speech in a worker of its own, with the same clips, steps and
seed; with `--real`, whisper-tiny on AISHELL-1 (`STUDIO_TEST_MODEL`, `STUDIO_TEST_SPEECH`). Rows that the
report has already are kept unless `--again` is given, so that a run can be cut short and taken up.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from studio.files import write_json
from studio.memory.trace.store import library_versions
from studio.memory.training import estimate_training
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.registry.catalog import find_released
from studio.settings import Settings
from studio.training.plan import planned
from studio.training.run_dir import RunDir
from studio.units import format_bytes, format_count

REPORTS = Path(__file__).parent / "reports"
METHODS: dict[str, dict[str, Any]] = {
    "LoRA": {},
    "All weights": {"method": "full"},
    "Decoder only": {"method": "frozen_encoder"},
    "DoRA": {"method": "dora"},
    "AdaLoRA": {"method": "adalora"},
    "LoRA on 8 bits": {"quantization": "8bit"},
    "LoRA on 4 bits": {"quantization": "4bit"},
    "LoRA, checkpointing": {"gradient_checkpointing": True},
    "LoRA, query and value only": {"target_modules": ("q_proj", "v_proj")},
    "LoRA, AdamW in 8 bits": {"optim": "adamw_bnb_8bit"},
    "LoRA, Adafactor": {"optim": "adafactor"},
    "LoRA, bf16 base": {"base_dtype": "bf16"},
    "All weights, bf16 throughout": {"method": "full", "precision": "pure_bf16"},
}
_EPOCHS = 2
_REAL_STEPS = 40


@dataclass(frozen=True)
class Row:
    """What came of one method."""

    wer: float
    cer: float
    base_wer: float | None
    """None where the base was not measured again."""
    base_cer: float | None
    processor_seconds: float
    """Of the whole worker, from its start to the saved model: so that a busy machine does not matter much."""
    peak_bytes: int
    """Most main memory that the worker's process held."""
    trainable_parameters: int
    all_parameters: int


def configuration(changes: dict[str, Any], *, is_first: bool, is_real: bool) -> TrainingConfig:
    """The run of a method: everything but the method is the same. The first one also measures the base."""
    shared: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 10**6, "num_train_epochs": _EPOCHS}
    shared |= {"eval_on_start": is_first, "short_audio": "on", "capability_check": False}
    if is_real:
        speech = Path(os.environ["STUDIO_TEST_SPEECH"]) / "aishell1_zh"
        shared |= {
            "base_model": os.environ["STUDIO_TEST_MODEL"],
            "train_data": str(speech / "train.jsonl"),
            "test_data": str(speech / "test.jsonl"),
            "language": "zh",
            "max_steps": _REAL_STEPS,
            "max_eval_samples": 40,
        }
    return TrainingConfig(**shared, **changes)


def measure(config: TrainingConfig) -> Row:
    """Carries the run out in a worker, in a studio of its own."""
    with tempfile.TemporaryDirectory() as name:
        settings = Settings(home=Path(name), hf_cache=Path(name) / "hub")
        settings.prepare()
        run = RunDir(settings.runs / "run")
        run.path.mkdir()
        write_json(run.config, config_to_dict(config))
        environ = {
            **os.environ,
            "STUDIO_HOME": name,
            "OMP_NUM_THREADS": "1",
            "STUDIO_THREADS": "1",
        }
        with (run.path / "log").open("w") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "studio.training.worker", str(run.path)],
                env=environ,
                stdout=log,
                stderr=log,
            )
            usage = os.wait4(worker.pid, 0)[2]
        result = json.loads(run.result.read_text(encoding="utf-8"))
        if result["state"] != "finished":
            raise SystemExit(f"{result['error']}\n{(run.path / 'log').read_text()}")
        events = [json.loads(line) for line in run.events.read_text(encoding="utf-8").splitlines()]
    plan = next(event for event in events if event["kind"] == "plan")
    final, base = result["metrics"]["final"], result["metrics"]["base"] or {}
    return Row(
        wer=final["wer"],
        cer=final["cer"],
        base_wer=base.get("wer"),
        base_cer=base.get("cer"),
        processor_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        trainable_parameters=plan["trainable_parameters"],
        all_parameters=plan["all_parameters"],
    )


def on_a_gpu(changes: dict[str, Any]) -> str:
    """What the same method takes of a GPU for large-v3, by the estimate."""
    model = find_released("large-v3")
    assert model is not None
    plan = planned(TrainingConfig(**changes), TrainingConfig().generation_max_length)
    return format_bytes(estimate_training(plan, model.dimensions).device_bytes)


def table(rows: dict[str, Row]) -> str:
    """The report's table in Markdown."""
    lines = [
        "| method | trained | WER | CER | processor | process, at most | large-v3 on a GPU, estimated |",
        "|---|---|---|---|---|---|---|",
    ]
    first = next(iter(rows.values()))
    lines.append(f"| none: the base | 0 | {first.base_wer:.1%} | {first.base_cer:.1%} | | | |")
    for name, row in rows.items():
        lines.append(
            f"| {name} | {format_count(row.trainable_parameters)} of {format_count(row.all_parameters)} | "
            f"{row.wer:.1%} | {row.cer:.1%} | {row.processor_seconds:.0f} s | "
            f"{format_bytes(row.peak_bytes)} | {on_a_gpu(METHODS[name])} |"
        )
    return "\n".join(lines)


def report(rows: dict[str, Row], *, is_real: bool) -> str:
    """The whole report in Markdown; the machine is named."""
    versions = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    command = ["python -m tests.benchmarks.methods", *(["--real"] if is_real else [])]
    what = (
        f"whisper-tiny on AISHELL-1, {_REAL_STEPS} steps of 8 clips, judged on 40 clips"
        if is_real
        else f"the demo model on the demo speech, {_EPOCHS} epochs in short-audio mode, judged on the 24 "
        "validation clips"
    )
    return (
        f"# Methods side by side\n\n{what[0].upper()}{what[1:]}; the same seed for all; the learning rate is "
        f"the default of the method. Made by `{' '.join(command)}`.\n\n"
        f"{table(rows)}\n\nOn a CPU ({platform.machine()}, {platform.system()}) without a GPU, one thread; "
        "seconds of the processor are of the whole worker: starting, training, judging, saving. The first "
        "row also judges the base. Python "
        f"{platform.python_version()}, {versions}. The last column is the closed form for batches of 8 with "
        "texts of 225 tokens; half precision saves memory on GPUs, and costs time on a CPU.\n"
    )


def main(arguments: list[str]) -> None:
    """Measures what the report lacks, and writes it after each method."""
    is_real = "--real" in arguments
    name = "methods-real" if is_real else "methods"
    file = REPORTS / f"{name}.json"
    known = (
        json.loads(file.read_text(encoding="utf-8")) if file.exists() and "--again" not in arguments else {}
    )
    wanted = {field.name for field in fields(Row)}
    known = {method: row for method, row in known.items() if set(row) == wanted}
    for method, changes in METHODS.items():
        if method not in known:
            started = time.monotonic()
            known[method] = asdict(measure(configuration(changes, is_first=not known, is_real=is_real)))
            print(f"{method}: {time.monotonic() - started:.0f} s", flush=True)
        rows = {each: Row(**known[each]) for each in METHODS if each in known}
        file.write_text(json.dumps({each: known[each] for each in rows}, indent=1) + "\n", encoding="utf-8")
        (REPORTS / f"{name}.md").write_text(report(rows, is_real=is_real), encoding="utf-8")
    print((REPORTS / f"{name}.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
