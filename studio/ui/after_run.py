"""Where an ended run leads: its model in the tabs that transcribe, compare and export, or why it failed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.options.sources import is_demo, sources_of
from studio.registry.spec import ModelSpec
from studio.runs.oom import ended_run
from studio.runs.status import RunStatus
from studio.services import Services
from studio.transcription.languages import resolve_language
from studio.ui.memory.tab import OOM, MemoryTab
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET
from studio.ui.shared.i18n import request_locale
from studio.ui.shared.views import model_choices
from studio.ui.shared.visitors import models_for, services_for
from studio.ui.train.run_panel import RunPanel
from studio.ui.transcribe.form import choices
from studio.ui.transcribe.tab import RECORDING, TranscribeTab


@dataclass(frozen=True)
class AfterRun:
    """Wires the buttons at the end of a run to the other tabs."""

    services: Services
    panel: RunPanel
    tabs: gr.Tabs

    def explain(self, memory: MemoryTab) -> None:
        """What ran out of memory is explained with the run's log and options."""

        def explain(run_id: str, request: gr.Request) -> list[Any]:
            """The tab that explains it, filled with the run."""
            ended = ended_run(services_for(self.services, request).jobs, run_id)
            return [gr.Tabs(selected="memory"), gr.Tabs(selected=OOM), *memory.oom.fill_from_run(ended)]

        self._wire(self.panel.explain, explain, [memory.sections, *memory.oom.filled()])

    def transcribe(self, tab: TranscribeTab) -> None:
        """The model is chosen where a recording is transcribed."""

        def open_transcribe(run_id: str, request: gr.Request) -> list[Any]:
            """The tab, its section, and the run's model in the list of models."""
            _, spec = self._made(run_id, request)
            # Whatever else was trained meanwhile is not to be chosen instead.
            _update, known = choices(self.services.registry, spec.id, [], request)
            chosen = choices(self.services.registry, spec.id, known, request)
            chosen[0] = gr.update(**{**chosen[0], "value": spec.id})
            return [gr.Tabs(selected="playground"), gr.Tabs(selected=RECORDING), *chosen]

        self._wire(self.panel.transcribe, open_transcribe, [tab.sections, *tab.model])

    def compare(self, form: Mapping[str, Block]) -> None:
        """Base and model are chosen to be evaluated, on the run's evaluation data (its first list) if any.

        The demo speech, which stands there at first, says nothing of a model that learned something else.
        """

        def open_evaluate(run_id: str, data: str, request: gr.Request) -> list[Any]:
            """The tab, both models, and what they are to be heard on."""
            run, spec = self._made(run_id, request)
            is_off = is_demo(data) and not any(map(is_demo, sources_of(run.config.train_data)))
            listed = model_choices(models_for(self.services.registry, request), request_locale(request))
            return [
                gr.Tabs(selected="evaluate"),
                gr.update(choices=listed, value=[run.config.base_model, spec.id]),
                next(iter(sources_of(run.config.test_data)), "") or ("" if is_off else gr.skip()),
                resolve_language(run.config.language),
            ]

        filled = [form["models"], form["data"], form["language"]]
        self._wire(self.panel.compare, open_evaluate, filled, form["data"])

    def export(self, choice: gr.Dropdown) -> None:
        """The model is chosen where models are exported."""

        def open_models(run_id: str, request: gr.Request) -> list[Any]:
            """The tab, and the run's model in the list of models."""
            _, spec = self._made(run_id, request)
            listed = model_choices(models_for(self.services.registry, request), request_locale(request))
            return [gr.Tabs(selected="models"), gr.update(choices=listed, value=spec.id)]

        self._wire(self.panel.export, open_models, [choice])

    def _made(self, run_id: str, request: gr.Request) -> tuple[RunStatus, ModelSpec]:
        """The run, and the model that it made.

        Raises:
            ModelError: if the model is gone.
        """
        run = services_for(self.services, request).jobs.status(run_id)
        return run, self.services.registry.get(str(run.model_id))

    def _wire(
        self, button: gr.Button, lead: Callable[..., list[Any]], filled: Sequence[Block], *read: Block
    ) -> None:
        led = told_in(self.panel.refused, lead, [self.tabs, *filled])
        button.click(**led, inputs=[self.panel.selected, *read], **QUIET)
