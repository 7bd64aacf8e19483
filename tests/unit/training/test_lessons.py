"""What users of other tools suffer from, each as a sentence about ours."""

import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import AdaLoraModel

from studio.dataset.example import Example
from studio.evaluation import capabilities
from studio.methods import METHODS
from studio.options.training import TrainingConfig
from studio.publishing.findings import CHECK_NAMES
from studio.settings import Settings
from studio.training import adapters
from studio.training.after_check import MadeModel, measure_after
from studio.training.attempt import Attempt
from studio.training.callback import RunCallback
from studio.training.data.clips import Clip, TrainingData
from studio.training.data.collator import Collator, FeatureSource
from studio.training.events import EventLog, read_events
from studio.training.outcome import Outcome
from studio.training.schedule import Schedule
from studio.training.stop import StopSignal
from studio.training.trainer import TrainerParts, WhisperTrainer
from studio.training.trainer_arguments import training_arguments
from studio.transcription.loading import loader
from tests.unit.training.attempts import Runs


def loaded(model: Path, **changes: Any) -> Any:
    config = TrainingConfig(base_model=str(model), lora_r=4, **changes)
    base = adapters.load_training_base(model, config, adapters.choose_precision(config, has_gpu=False))
    return adapters.prepare_method(base.decoder.model, config, max_steps=4)


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
def test_quantisation_does_not_switch_checkpointing_on(quantization: str, micro_model: Path) -> None:
    model = loaded(micro_model, quantization=quantization)
    assert not model.base_model.model.is_gradient_checkpointing
    stored = model.base_model.model.config.quantization_config
    assert type(stored).__name__ == "BitsAndBytesConfig"
    assert (stored.load_in_8bit, stored.load_in_4bit) == (quantization == "8bit", quantization == "4bit")


def test_checkpointing_does_not_switch_quantisation_on(micro_model: Path) -> None:
    model = loaded(micro_model, gradient_checkpointing=True)
    assert not hasattr(model.base_model.model.config, "quantization_config")


@pytest.mark.parametrize("method", ["lora", "dora", "adalora"])
def test_adapters_have_no_task_type_which_would_hand_input_ids_to_whisper(
    method: str, micro_model: Path
) -> None:
    assert loaded(micro_model, method=method).peft_config["default"].task_type is None


def test_two_gpus_that_one_process_sees_are_never_shared_out_behind_it(
    micro_model: Path, tmp_path: Path
) -> None:
    config = TrainingConfig(base_model=str(micro_model))
    precision = adapters.Precision("fp32")
    base = adapters.load_training_base(micro_model, config, precision)
    arguments = training_arguments(config, 1e-3, Schedule(1, 1), tmp_path, precision, "wer", "run")
    assert arguments.n_gpu < 2
    arguments._n_gpu = 2  # what transformers would set on a machine with two
    example = Example(tmp_path / "clip.wav", "text", "en", None, None, None, 1.0, (), 1)
    clip = Clip(example, "en", "transcribe", (1, 2))
    callback = RunCallback(EventLog(None), StopSignal(tmp_path / "stop"), list, 1, 1, METHODS["lora"])
    collator = Collator(FeatureSource(base.decoder.extractor, keep=False), 3000, lambda _text: None)
    data = TrainingData((clip,), (clip,), ())
    parts = TrainerParts(base.decoder.model, arguments, config, data, collator, base.decoder, callback)
    trainer = WhisperTrainer(parts)
    assert trainer.args.n_gpu == 1
    assert not isinstance(trainer._wrap_model(base.decoder.model), torch.nn.DataParallel)


def test_adalora_allocates_in_each_optimizer_step_and_counts_in_these(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    totals: set[int] = set()
    real = AdaLoraModel.update_and_allocate

    def noted(self: Any, global_step: int) -> None:
        asked.append(global_step)
        totals.add(self.peft_config["default"].total_step)
        real(self, global_step)

    monkeypatch.setattr(AdaLoraModel, "update_and_allocate", noted)
    runs.finished(method="adalora", per_device_train_batch_size=2, gradient_accumulation_steps=2)
    assert (asked, totals) == ([1, 2, 3, 4, 5, 6], {6}), "of twelve batches"


def test_an_evaluation_keeps_tokens_and_never_logits(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[torch.Tensor] = []
    real = WhisperTrainer.prediction_step

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = real(self, *args, **kwargs)
        kept.extend(found)
        return found

    monkeypatch.setattr(WhisperTrainer, "prediction_step", noted)
    runs.finished(validation_share=0.5)
    assert len(kept) >= 6
    assert max(tensor.numel() for tensor in kept) < 8 * 32, "a row of tokens a clip"


def test_each_run_ends_with_a_check_of_what_its_model_can_still_do(
    settings: Settings, mute_model: Path, tones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "_LONG_SECONDS", 9.0)
    runs = Runs(settings, mute_model, tones)
    named = json.loads(tones.read_text(encoding="utf-8").splitlines()[0])
    other = tones.with_name("other.jsonl")
    other.write_text(json.dumps({**named, "language": "de"}) + "\n", encoding="utf-8")
    run = runs.new(max_steps=1, capability_check=True, other_languages_data=str(other))
    outcome = Outcome()
    work = Attempt(run, runs.settings, StopSignal(run.stop_request), outcome)
    work.carry_out()
    loaded: list[weakref.ref[Any]] = []

    def noted(*place: Any) -> Any:
        base = loader(threads=1)(*place)
        loaded.append(weakref.ref(base))
        return base

    made = MadeModel(
        work.registry, work.config, work.eval_examples, outcome, work.events, work.stop, work.settings
    )
    measure_after(made, threads=1, load=noted)
    (base,) = loaded  # once, for both models and both measures
    assert base() is None, "and gone"
    assert outcome.capabilities is not None and outcome.short_audio is not None
    assert {row["check"] for row in outcome.capabilities["checks"]} == set(CHECK_NAMES)
    card = made.spec.card
    assert (card["capabilities"], card["short_audio"]) == (outcome.capabilities, outcome.short_audio)
    assert "could not be measured" not in str(read_events(run.events)[0])
