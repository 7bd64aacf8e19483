"""The interface for programs: models, runs, data and evaluations."""

from typing import Any

from studio.actions.check_data import CheckQuestion, check
from studio.actions.start_run import start_run
from studio.errors import ConfigError
from studio.evaluation.compare import evaluate
from studio.options.arguments import config_and_notes
from studio.publishing.export import ExportRequest
from studio.publishing.formats import USUAL_FORMAT
from studio.runs.confinement import most_rows, require_own_data
from studio.runs.manager import MOST_LISTED
from studio.services import Services
from studio.serving.work import in_own_thread
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.ui.api.json_values import SCHEMA_VERSION, model_row, notes_on, plain, run_row
from studio.ui.shared.access import require_training
from studio.ui.shared.visitors import models_for
from studio.units import names


class RunEndpoints:
    """What there is, what is trained, and how good it is: each public method is an endpoint."""

    def __init__(self, services: Services) -> None:
        self._services = services

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
        options = TranscribeOptions(language=language, task=task, timestamps="none", num_beams=num_beams)
        notes = notes_on(self._services, names(models), options)
        found = in_own_thread(
            lambda: evaluate(
                self._services.engines,
                names(models),
                test_data,
                self._services.settings,
                options=options,
                normalizer=normalizer,
                max_samples=most_rows(self._services.settings, max_samples),
                choice=EngineChoice(engine, precision),
                non_speech=non_speech,
            )
        )
        return {**plain(found.to_json()), "notes": notes}
