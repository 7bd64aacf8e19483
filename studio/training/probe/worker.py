"""`python -m studio.training.probe.worker FOLDER SECONDS PID`: answers `question.json` in `answer.json`.

Everything is the training worker's own: the loading of the model, the adapters, the trainer, its callback.
Only the weights are blank, and the batches are all as long as the longest.
"""

import logging
import os
import sys
import threading
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import psutil

from studio.errors import StudioError
from studio.files import read_json, write_json
from studio.lazy_imports import transformers_library
from studio.memory.gpus import present_architecture
from studio.memory.measure import PeakMeter
from studio.memory.overhead import on_card, step_figures
from studio.messages import message_to_plain
from studio.options.training import TrainingConfig
from studio.process_exit import leave
from studio.training.probe.question import STEPS, ProbeQuestion

QUESTION, ANSWER = "question.json", "answer.json"
_LOOK_SECONDS = 1.0


def main(argv: list[str]) -> int:
    """Measures and leaves the answer; a watchdog ends the process if nobody waits for it any more."""
    folder, patience_seconds, asker = Path(argv[0]), float(argv[1]), int(argv[2])
    threading.Thread(target=_watch, args=(asker, patience_seconds), daemon=True).start()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    write_json(folder / ANSWER, answer(ProbeQuestion.from_json(read_json(folder / QUESTION)), folder))
    return 0


def _watch(asker: int, patience_seconds: float) -> None:
    """Ends this process, which may hold much memory, once who has asked is gone or has no patience left."""
    deadline = time.monotonic() + patience_seconds
    while psutil.pid_exists(asker) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    os._exit(4)


def answer(question: ProbeQuestion, folder: Path) -> dict[str, Any]:
    """Predicted and measured bytes, or `error`, as `message_to_plain` writes it."""
    import torch

    from studio.training.adapters import choose_precision
    from studio.transcription.devices import is_out_of_memory

    has_gpu = torch.cuda.is_available()
    try:
        precision = choose_precision(question.config, has_gpu)
        estimate = question.estimate(has_gpu=has_gpu, precision=precision.name)
        row: dict[str, Any] = {
            "plan": asdict(question.plan(has_gpu=has_gpu, precision=precision.name)),
            "predicted": step_figures(on_card(estimate, present_architecture())),
            "is_out_of_memory": False,
        }
    except StudioError as error:
        return {"error": message_to_plain(error)}
    meter = PeakMeter()
    started = time.monotonic()
    try:
        tensors = _measure(question, folder, precision)
    except StudioError as error:
        return {"error": message_to_plain(error)}
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        tensors, row["is_out_of_memory"] = None, True
    measured = {**asdict(meter.read()), "tensor_bytes": tensors}
    if has_gpu:
        measured["context_bytes"] = meter.context_bytes()
    return {**row, "measured": measured, "seconds": time.monotonic() - started}


def _measure(question: ProbeQuestion, folder: Path, precision: Any) -> int | None:
    """Makes the steps; without a GPU, the most bytes that the allocator had out."""
    import torch

    from studio.training.adapters import load_model, prepare_method
    from studio.training.probe.blank import fill_weights, write_blank_model
    from studio.whisper.loss import use_chunked_loss

    config = question.run_config()
    write_blank_model(folder / "model", question.dimensions)
    model = load_model(folder / "model", config, precision)
    if config.training_method.reads_base_weights:
        fill_weights(model)
    if config.loss_chunk_size:
        use_chunked_loss(model, config.loss_chunk_size, config.label_smoothing_factor)
    model = prepare_method(model, config, STEPS)
    trainer = _trainer(model, question, config, folder, precision)
    if torch.cuda.is_available():
        trainer.train()
        return None
    with TensorMeter(model) as tensors:
        trainer.train()
    return tensors.peak_bytes


class TensorMeter:
    """Within it, every allocation of torch on the CPU is noted, by the events of its allocator; `peak_bytes`
    counts what was there before.
    """

    def __init__(self, model: Any) -> None:
        from torch.profiler import ProfilerActivity, profile

        kept = [*model.parameters(), *model.buffers()]
        self._there = sum(
            {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}.values()
        )
        self._profile: Any = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.peak_bytes = 0

    def __enter__(self) -> "TensorMeter":
        self._profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Adds up what was noted, in the order of time."""
        self._profile.__exit__(kind, error, trace)
        events = [e for e in self._profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        now = self.peak_bytes = self._there
        for event in sorted(events, key=lambda event: event.start_ns()):
            now += event.nbytes()
            self.peak_bytes = max(self.peak_bytes, now)


def _trainer(
    model: Any, question: ProbeQuestion, config: TrainingConfig, folder: Path, precision: Any
) -> Any:
    from studio.training.callback import RunCallback
    from studio.training.data.clips import TrainingData
    from studio.training.data.collator import Collator
    from studio.training.events import EventLog
    from studio.training.learning_rate import learning_rate_for
    from studio.training.probe.clips import Silence, worst_clips
    from studio.training.schedule import Schedule
    from studio.training.stop import StopSignal
    from studio.training.trainer import TrainerParts, WhisperTrainer
    from studio.training.trainer_arguments import training_arguments

    transformers = transformers_library()
    d = question.dimensions
    rate = learning_rate_for(config, d.d_model)
    schedule = Schedule(STEPS, STEPS)
    arguments: Any = training_arguments(
        config, rate, schedule, folder / "checkpoints", precision, "wer", "probe"
    )
    arguments.save_strategy = "no"
    events, stop = EventLog(folder / "events.jsonl"), StopSignal(folder / "stop")
    callback = RunCallback(events, stop, list, 1, 0, config.training_method)
    # Of a decoder, the trainer asks for more only when it evaluates.
    decoder: Any = SimpleNamespace(
        extractor=transformers.WhisperFeatureExtractor(feature_size=d.num_mel_bins),
        model=model,
        tokens=SimpleNamespace(first_time=d.vocab_size),
    )
    clips = worst_clips(question.label_length, STEPS * config.clips_per_step)
    data = TrainingData(train=clips, evaluation=(), problems=())
    silence = Silence(decoder.extractor, d.num_mel_bins, 2 * d.max_source_positions)
    collator = Collator(silence, 2 * d.max_source_positions, lambda _problem: None)
    return WhisperTrainer(TrainerParts(model, arguments, config, data, collator, decoder, callback))


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
