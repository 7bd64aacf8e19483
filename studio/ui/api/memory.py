"""The interface for programs: how much memory a run or a transcription takes."""

from typing import Any

from studio.actions.estimate import Question, answer, shape_of, traced_run
from studio.actions.explain_oom import OomQuestion, explain_oom, question_of_run
from studio.actions.fit import FitQuestion, find_fit
from studio.actions.presets import preset_answers, preset_row
from studio.doctor.examine import examine_for_visitors
from studio.memory.myths import claims
from studio.memory.plan import LABEL_LENGTH
from studio.options.arguments import config_from_dict
from studio.options.checks import check_between
from studio.services import Services
from studio.training.probe.question import ProbeQuestion
from studio.ui.api.arguments import asks
from studio.ui.api.json_values import SCHEMA_VERSION
from studio.ui.shared.access import require_machine
from studio.whisper.constants import TEXT_POSITIONS


class MemoryEndpoints:
    """Estimates, fits, explanations and measurements: each public method is an endpoint."""

    def __init__(self, services: Services) -> None:
        self._services = services

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
