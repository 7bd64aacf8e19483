"""The interface for programs: plain values in, JSON out, under the names of the command line.

Each function asks what a tab asks; `gradio_client` and plain HTTP see them as `/models`, `/estimate`, ….
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gradio as gr
from gradio.events import api

from studio.actions.check_data import CheckQuestion, check
from studio.actions.estimate import Question, answer, shape_of, traced_run
from studio.actions.explain_oom import OomQuestion, explain_oom, question_of_run
from studio.actions.fit import FitQuestion, find_fit
from studio.actions.presets import preset_answers, preset_row
from studio.actions.start_run import start_run
from studio.doctor.examine import examine_for_visitors
from studio.errors import ConfigError
from studio.evaluation.compare import PLAIN, EvaluationRequest, evaluate
from studio.memory.myths import claims
from studio.memory.plan import LABEL_LENGTH
from studio.options.arguments import config_and_notes, config_from_dict
from studio.options.checks import check_between
from studio.publishing.export import ExportRequest
from studio.publishing.formats import USUAL_FORMAT
from studio.runs.confinement import most_rows, require_own_data
from studio.runs.manager import MOST_LISTED
from studio.services import Services
from studio.serving.work import in_own_thread
from studio.training.probe.question import ProbeQuestion
from studio.transcription.engine import EngineChoice
from studio.ui.api.arguments import asks, checked, endpoints_of
from studio.ui.api.json_values import SCHEMA_VERSION, model_row, notes_on, plain, run_row
from studio.ui.api.mcp import documented
from studio.ui.api.transcribe import transcribe_endpoint
from studio.ui.shared.access import require_machine, require_training, without_places
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.visitors import models_for, services_for
from studio.units import names
from studio.whisper.constants import TEXT_POSITIONS


def build_api(services: Services) -> None:
    """Adds the public endpoints to the page that is being built."""
    for endpoint in endpoints_of(Endpoints(services)):
        answered = documented(shows_errors(_for_visitor(services, endpoint)))
        api(answered, api_name=endpoint.__name__, concurrency_limit=4)
    transcribe_endpoint(services)


def _for_visitor(services: Services, endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The endpoint over the services as whoever asks may use them; Gradio says behind its arguments who."""

    @functools.wraps(endpoint)
    def answered(*args: Any) -> Any:
        """What the endpoint answers this visitor."""
        *values, request = args
        own = services_for(services, request)
        answer = checked(getattr(Endpoints(own), endpoint.__name__))(*values)
        return without_places(answer) if own.settings.is_public else answer

    who = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)
    plain = inspect.signature(endpoint)
    if plain.parameters:
        who = who.replace(default=None)
    answered.__signature__ = plain.replace(parameters=[*plain.parameters.values(), who])  # type: ignore[attr-defined]
    answered.__annotations__ = {**endpoint.__annotations__, "request": gr.Request}
    return answered


class Endpoints:
    """Each public method is an endpoint."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # ------------------------------------------------------------------ memory

    @asks(Question)
    def estimate(self, question: Question) -> dict[str, Any]:
        """GPU memory, in bytes per part, of a training run or (use="transcribe") of transcribing."""
        found = answer(question, self._services.registry, self._services.settings.calibration)
        return {**found.estimate.to_json(), "gpu": found.gpu.name, "verdict": found.verdict}

    @asks(FitQuestion)
    def fit(self, question: FitQuestion) -> dict[str, Any]:
        """The best training run for a GPU, the changes that led to it, and the other models and cards."""
        return find_fit(question, self._services.registry, self._services.settings.calibration).to_json()

    def explain_oom(
        self,
        text: str = "",
        config: dict[str, Any] | None = None,
        label_length: int = LABEL_LENGTH,
        run_id: str = "",
    ) -> dict[str, Any]:
        """Why a run was out of memory, from its error or log; with its `config`, also a run that fits.

        `run_id` names a run of this studio instead, which brings its own log and options.
        """
        if run_id:
            question = question_of_run(run_id, self._services)
        else:
            question = OomQuestion(text, config_from_dict(config) if config else None, label_length)
        found = explain_oom(question, self._services.registry)
        return found.to_json() if question.config else found.diagnosis.to_json()

    def memory_claims(self) -> dict[str, Any]:
        """What common guides say about memory, and what is true."""
        rows = [{"key": each.key, "said": str(each.said), "truth": str(each.truth)} for each in claims()]
        return {"schema_version": SCHEMA_VERSION, "claims": rows}

    def presets(self) -> dict[str, Any]:
        """Presets with the runs that fit, beside what common guides say."""
        rows = [preset_row(row, answer) for row, answer in preset_answers(self._services.registry)]
        return {"schema_version": SCHEMA_VERSION, "presets": rows}

    def doctor(self) -> dict[str, Any]:
        """Checks this machine (GPU, libraries, disk, audio, hub), and says what to do about problems."""
        return examine_for_visitors(self._services.settings).to_json()

    def trace(self, config: dict[str, Any], label_length: int = LABEL_LENGTH) -> dict[str, Any]:
        """One training step traced on meta tensors: bytes per part at the peak, and over the step.

        `config` holds options of `python -m studio train`.
        """
        return traced_run(config_from_dict(config), label_length, self._services).to_json()

    def probe(self, config: dict[str, Any], label_length: int = TEXT_POSITIONS) -> dict[str, Any]:
        """Measures two real steps of a run on this machine, with texts of so many tokens; waits for it.

        `config` holds options of `python -m studio train`. The answer is the receipt that is kept.
        """
        require_machine(self._services.settings)
        run = config_from_dict(config)
        check_between("label_length", label_length, 1, TEXT_POSITIONS)
        question = ProbeQuestion(run, shape_of(run.base_model, self._services.registry), label_length)
        return self._services.prober.measure(question)[0].to_json()

    # ------------------------------------------------------------------ models, runs, data

    def models(self) -> dict[str, Any]:
        """Every model the studio knows."""
        specs = models_for(self._services.registry, self._services.settings)
        return {"schema_version": SCHEMA_VERSION, "models": [model_row(spec) for spec in specs]}

    def export(
        self, model: str, format: str = USUAL_FORMAT, quantization: str = "auto", name: str = ""
    ) -> dict[str, Any]:
        """Exports a model for faster-whisper, or merges an adapter; its card has the proof under `parity`."""
        require_training(self._services.settings)
        made = self._services.exporter.export(ExportRequest(model, format, quantization, name))
        return {"schema_version": SCHEMA_VERSION, **model_row(made)}

    def start_run(self, config: dict[str, Any]) -> str:
        """Queues a training run; `config` holds options of `python -m studio train`. Returns the run's id.

        What of them is read otherwise than it was written is among the `warnings` of `run_status`.
        """
        require_training(self._services.settings)
        asked, notes = config_and_notes(config)
        return start_run(asked, self._services, notes)

    def runs(self, limit: int = MOST_LISTED) -> dict[str, Any]:
        """The newest `limit` runs and all at work, newest first, without their curves; `count` is of all."""
        if limit < 1:
            raise ConfigError("{name} must be at least {low}, got {value}.", name="limit", low=1, value=limit)
        jobs = self._services.jobs
        rows = [run_row(status) for status in jobs.runs(limit)]
        return {"schema_version": SCHEMA_VERSION, "runs": rows, "count": jobs.count()}

    def run_status(self, run_id: str) -> dict[str, Any]:
        """State, progress, curves and results of a run."""
        return {"schema_version": SCHEMA_VERSION, **run_row(self._services.jobs.status(run_id))}

    def stop_run(self, run_id: str) -> dict[str, Any]:
        """Asks a run to save a checkpoint and end."""
        require_training(self._services.settings)
        self._services.jobs.stop(run_id)
        return self.run_status(run_id)

    def resume_run(self, run_id: str) -> dict[str, Any]:
        """Queues a stopped or interrupted run again, from its last checkpoint."""
        require_training(self._services.settings)
        self._services.jobs.resume(run_id)
        return self.run_status(run_id)

    def check_data(
        self,
        train_data: str,
        test_data: str = "",
        base_model: str = "",
        transcribe: int = 0,
        normalizer: str = "none",
        language: str = "auto",
        max_rows: int = 0,
    ) -> dict[str, Any]:
        """What is wrong with which row of a data set; the answer of `python -m studio check-data --json`."""
        for source in (train_data, test_data):
            require_own_data(self._services.settings, source)
        question = CheckQuestion(
            train_data,
            test_data,
            base_model,
            transcribe,
            normalizer,
            language,
            max_rows=most_rows(self._services.settings, max_rows),
        )
        found = in_own_thread(lambda: check(question, self._services))
        return plain(found.to_json())  # type: ignore[no-any-return]

    def evaluate(
        self,
        models: str,
        test_data: str,
        language: str = "auto",
        task: str = "transcribe",
        num_beams: int = 0,
        normalizer: str = "none",
        max_samples: int = 0,
        engine: str = "auto",
        precision: str = "auto",
        non_speech: bool = False,
    ) -> dict[str, Any]:
        """Error rates of models on the same clips; the answer of `python -m studio evaluate --json`.

        `notes` has what is to be known of it, such as that a training run shares the machine. With
        `non_speech`, each model is also measured on what it writes where nobody speaks.
        """
        require_own_data(self._services.settings, test_data)
        services, settings = self._services, self._services.settings
        asked = EvaluationRequest(
            names(models),
            test_data,
            replace(PLAIN, language=language, task=task, num_beams=num_beams),
            normalizer,
            max_samples=most_rows(settings, max_samples),
            choice=EngineChoice(engine, precision),
            non_speech=non_speech,
        )
        notes = notes_on(services, asked.models, asked.options)
        found = in_own_thread(lambda: evaluate(services.engines, asked, settings))
        return {**plain(found.to_json()), "notes": notes}
