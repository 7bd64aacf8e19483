"""The interface for programs: plain values in, JSON out, under the names of the command line.

Each function asks what a tab asks; `gradio_client` and plain HTTP see them as `/models`, `/estimate`, ….
"""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.events import api

from studio.doctor.examine import examine
from studio.errors import AudioError
from studio.inference.engine import TranscribeOptions
from studio.jobs.status import RunStatus
from studio.memory.claims import claims
from studio.memory.oom import explain
from studio.memory.trace.store import traced
from studio.registry.spec import ModelSpec
from studio.services import Services
from studio.training.arguments import config_from_dict, config_to_dict
from studio.training.config import TrainingConfig
from studio.training.fitting import FitQuestion, find_fit, shape_of
from studio.training.plan import config_of, planned
from studio.training.presets import preset_answers, preset_row
from studio.ui.access import require_training
from studio.ui.errors import shows_errors
from studio.ui.sizing import Question, answer

SCHEMA_VERSION = 1


def build_api(services: Services) -> None:
    """Adds the public endpoints to the page that is being built."""
    for function in (*_about_models(services), *_about_memory(services), *_about_runs(services)):
        api(shows_errors(function), api_name=function.__name__, concurrency_limit=4)
    _transcribe_endpoint(services)


def plain(value: Any) -> Any:
    """Dataclasses, enums, paths and tuples as JSON has them."""
    if isinstance(value, TrainingConfig):
        return config_to_dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _run(status: RunStatus) -> dict[str, Any]:
    """A run and what can be done with it."""
    return {**plain(status), "can_stop": status.can_stop, "can_resume": status.can_resume}


def _model(spec: ModelSpec) -> dict[str, Any]:
    """A row of the registry; its `path` as `folder`, since Gradio's clients fetch whatever has a `path`."""
    row: dict[str, Any] = plain(spec)
    return {("folder" if name == "path" else name): value for name, value in row.items()}


def _about_models(services: Services) -> tuple[Callable[..., Any], ...]:
    def models() -> dict[str, Any]:
        """Every model the studio knows."""
        return {
            "schema_version": SCHEMA_VERSION,
            "models": [_model(spec) for spec in services.registry.all()],
        }

    def estimate(
        base_model: str,
        use: str = "train",
        method: str = "lora",
        quantization: str = "none",
        precision: str = "auto",
        per_device_train_batch_size: int = 8,
        label_length: int = 64,
        gradient_checkpointing: bool = False,
        lora_r: int = 32,
        num_beams: int = 1,
        gpu: str = "",
        engine: str = "transformers",
    ) -> dict[str, Any]:
        """GPU memory, in bytes a part, of a training run or (use="transcribe") of transcribing."""
        question = Question(
            base_model,
            use,
            method,
            quantization,
            precision,
            per_device_train_batch_size,
            label_length,
            gradient_checkpointing,
            lora_r,
            num_beams,
            gpu,
            engine,
        )
        found = answer(question, services.registry)
        return {**found.estimate.to_json(), "gpu": found.gpu.name, "verdict": found.verdict}

    return models, estimate


def _about_memory(services: Services) -> tuple[Callable[..., Any], ...]:
    def fit(
        gpu: str = "",
        memory_gib: float = 0,
        base_model: str = "auto",
        hours: float = 0,
        method: str = "auto",
        effective_batch_size: int = 16,
        label_length: int = 128,
    ) -> dict[str, Any]:
        """The best training run for a GPU, the changes that led to it, and the other models and cards."""
        question = FitQuestion(gpu, memory_gib, base_model, hours, method, effective_batch_size, label_length)
        return find_fit(question, services.registry).to_json()

    def explain_oom(
        text: str, config: dict[str, Any] | None = None, label_length: int = 128
    ) -> dict[str, Any]:
        """Why a run was out of memory; with its `config`, also a run that fits."""
        if not config:
            return explain(text).to_json()
        run = config_from_dict(config)
        diagnosis = explain(text, planned(run, label_length), shape_of(run.base_model, services.registry))
        repaired = diagnosis.repaired
        fitting = config_of(repaired.plan, run) if repaired and repaired.fits else None
        return {**diagnosis.to_json(), "config": config_to_dict(fitting) if fitting else None}

    def memory_claims() -> dict[str, Any]:
        """What common guides say about memory, and what is true."""
        rows = [{"key": each.key, "said": str(each.said), "truth": str(each.truth)} for each in claims()]
        return {"schema_version": SCHEMA_VERSION, "claims": rows}

    def presets() -> dict[str, Any]:
        """Ready-made questions with the runs that fit, beside what common guides say."""
        rows = [preset_row(row, answer) for row, answer in preset_answers(services.registry)]
        return {"schema_version": SCHEMA_VERSION, "presets": rows}

    def doctor() -> dict[str, Any]:
        """What is here, what of it works, and what to do about the rest."""
        return examine(services.settings).to_json()

    def trace(config: dict[str, Any], label_length: int = 64) -> dict[str, Any]:
        """One training step run on tensors without memory: bytes a part at the peak, and over the step.

        `config` holds options of `python -m studio train`.
        """
        run = config_from_dict(config)
        dimensions = shape_of(run.base_model, services.registry)
        return traced(planned(run, label_length), dimensions, services.settings.cache).to_json()

    return fit, explain_oom, presets, memory_claims, doctor, trace


def _about_runs(services: Services) -> tuple[Callable[..., Any], ...]:
    jobs = services.jobs

    def start_run(config: dict[str, Any]) -> str:
        """Queues a training run; `config` holds options of `python -m studio train`. Returns the run's id."""
        require_training(services.settings)
        return jobs.submit(config_from_dict(config))

    def runs() -> dict[str, Any]:
        """All runs, newest first, without their curves."""
        return {"schema_version": SCHEMA_VERSION, "runs": [_run(status) for status in jobs.runs()]}

    def run_status(run_id: str) -> dict[str, Any]:
        """State, progress, curves and results of a run."""
        return {"schema_version": SCHEMA_VERSION, **_run(jobs.status(run_id))}

    def stop_run(run_id: str) -> dict[str, Any]:
        """Asks a run to save a checkpoint and end."""
        require_training(services.settings)
        jobs.stop(run_id)
        return run_status(run_id)

    def resume_run(run_id: str) -> dict[str, Any]:
        """Queues a stopped or interrupted run again, from its last checkpoint."""
        require_training(services.settings)
        jobs.resume(run_id)
        return run_status(run_id)

    return start_run, runs, run_status, stop_run, resume_run


def _transcribe_endpoint(services: Services) -> None:
    """`/transcribe`. Its components check that the file is an upload and none of the server's own."""

    def transcribe(
        audio: str | None,
        model: str,
        language: str,
        task: str,
        timestamps: str,
        initial_prompt: str,
        num_beams: int,
        request: gr.Request,
    ) -> dict[str, Any]:
        """What is said in a recording, with times; the answer of `python -m studio transcribe --json`."""
        if not audio:
            raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
        options = TranscribeOptions(
            language=language,
            task=task,
            timestamps=timestamps,  # type: ignore[arg-type]
            initial_prompt=initial_prompt,
            num_beams=int(num_beams),
        )
        return services.engines.transcribe(model, Path(audio), options).to_json()

    with gr.Group(visible=False):
        inputs = {
            "audio": gr.Audio(type="filepath"),
            "model": gr.Textbox("demo"),
            "language": gr.Textbox("auto"),
            "task": gr.Textbox("transcribe"),
            "timestamps": gr.Textbox("segment"),
            "initial_prompt": gr.Textbox(""),
            "num_beams": gr.Number(1, precision=0),
        }
        answer_json = gr.JSON()
    gr.on(
        [],
        shows_errors(transcribe),
        inputs_kwargs=inputs,
        outputs=answer_json,
        api_name="transcribe",
        concurrency_limit=2,
    )
