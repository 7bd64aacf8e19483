"""Two real steps in a process of their own, on whatever this machine has."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from studio.cli.probe import summary
from studio.errors import ConfigError, RunError
from studio.files import write_json
from studio.memory.receipts import read_receipts
from studio.options.training import TrainingConfig
from studio.registry.catalog import find_released
from studio.runs.probe import Prober
from studio.settings import Settings
from studio.training.probe.blank import fill_weights, write_blank_model
from studio.training.probe.question import ProbeQuestion
from studio.training.probe.worker import ANSWER, answer
from studio.translation import said
from studio.ui.memory.probe import receipt_view
from tests.forking import Popen
from tests.studio_process import ROOT, processes_that_name
from tests.unit.whisper_on_meta import DEMO_LIKE

SHORT_WINDOWS = replace(DEMO_LIKE, max_source_positions=100)
QUESTION = ProbeQuestion(
    TrainingConfig(method="full", per_device_train_batch_size=2, gradient_accumulation_steps=2),
    SHORT_WINDOWS,
    label_length=20,
)


def test_a_measurement_leaves_a_receipt_and_nothing_else(settings: Settings, popen: Popen) -> None:
    unloaded: list[bool] = []
    prober = Prober(replace(settings, popen=popen), before_start=lambda: unloaded.append(True))
    receipt, path = prober.measure(QUESTION)
    assert read_receipts(settings.calibration) == (receipt,) and path.parent == settings.calibration
    assert unloaded == [True] and not list(settings.cache.iterdir())
    assert receipt.plan.batch_size == 2 and receipt.plan.label_length == 20
    assert receipt.plan.gradient_accumulation_steps == 2 and receipt.plan.eval_batch_size == 0
    if torch.cuda.is_available():
        assert receipt.driver and (receipt.measured["allocated_bytes"] or 0) > 0
        return
    assert (receipt.card, receipt.driver) == ("cpu", "")
    assert set(receipt.predicted) == {"tensor_bytes"}
    # Weights, gradients and Adam's two moments alone are 16 bytes a parameter.
    assert (receipt.measured["tensor_bytes"] or 0) / receipt.predicted["tensor_bytes"] == pytest.approx(
        1.1, abs=0.15
    )
    for told in (summary(receipt), receipt_view(receipt, "en")):
        assert "Predicted and measured for the processor in fp32" in told


def test_a_stopped_measurement_ends_its_process_and_leaves_nothing(settings: Settings) -> None:
    prober = Prober(settings)
    said: list[str] = []

    def measure() -> None:
        with pytest.raises(RunError, match="was stopped") as caught:
            prober.measure(QUESTION)
        said.append(str(caught.value))

    thread = threading.Thread(target=measure)
    thread.start()
    while not processes_that_name(str(settings.cache)):
        assert thread.is_alive()
    with pytest.raises(RunError, match="Another measurement"):
        prober.measure(QUESTION)
    prober.stop()
    thread.join()
    assert said and not processes_that_name(str(settings.cache)) and not prober.is_busy
    assert not list(settings.cache.iterdir()) and not list(settings.calibration.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipe has a name there")
def test_a_measurement_ends_with_who_has_asked_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "question.json")  # it never comes
    words = [sys.executable, "-m", "studio.training.probe.worker", str(tmp_path), "900"]
    asker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with subprocess.Popen([*words, str(asker.pid)], cwd=ROOT) as worker:
        asker.kill()
        asker.communicate()
        try:
            assert worker.wait(60) == 4
        finally:
            worker.kill()


def test_what_takes_too_long_is_ended(settings: Settings) -> None:
    with pytest.raises(RunError, match="took longer than 0 seconds"):
        Prober(settings).measure(QUESTION, patience_seconds=0.1)
    assert not processes_that_name(str(settings.cache))


def test_why_a_run_cannot_be_measured_is_said_in_the_visitors_language(
    settings: Settings, tmp_path: Path
) -> None:
    config = TrainingConfig(attn_implementation="flash_attention_2")
    write_json(tmp_path / ANSWER, answer(replace(QUESTION, config=config), tmp_path))
    for words, reason in (
        (["cp", str(tmp_path / ANSWER), "."], "Flash attention 需要半精度"),
        (["false"], "它没有任何输出"),
    ):
        worker = replace(settings, popen=lambda _, words=words, **how: subprocess.Popen(words, **how))
        with pytest.raises(RunError) as caught:
            Prober(worker).measure(QUESTION)
        assert reason in said(caught.value, "zh-CN")


def test_nothing_is_measured_beside_a_run(settings: Settings) -> None:
    with pytest.raises(RunError, match="Run mine is at work"):
        Prober(settings, busy=lambda: "mine").measure(QUESTION)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_what_main_memory_cannot_hold_is_refused_in_a_sentence(settings: Settings) -> None:
    large = find_released("large-v3")
    assert large is not None
    config = TrainingConfig(method="full", per_device_train_batch_size=64)
    with pytest.raises(ConfigError, match=r"There is no GPU here, and on the processor .* GiB are free"):
        Prober(settings).measure(ProbeQuestion(config, large.dimensions, 448))


def test_what_a_run_would_read_or_judge_has_no_part_in_its_steps() -> None:
    config = TrainingConfig(
        adapter="mine",
        early_stopping_patience=3,
        noise_dir="/nowhere",
        short_audio="on",
        eval_strategy="steps",
    )
    asked = replace(QUESTION, config=config).run_config()
    assert (asked.adapter, asked.noise_dir, asked.short_audio) == ("", "", "off")
    assert (asked.early_stopping_patience, asked.eval_strategy, asked.max_steps) == (0, "no", 2)


def test_the_question_of_a_measurement_survives_its_way_to_the_process() -> None:
    assert ProbeQuestion.from_json(QUESTION.to_json()) == QUESTION


def test_a_blank_model_is_whole_and_takes_no_room(tmp_path: Path) -> None:
    from transformers import WhisperForConditionalGeneration

    write_blank_model(tmp_path, SHORT_WINDOWS)
    model = WhisperForConditionalGeneration.from_pretrained(tmp_path, use_safetensors=True)
    assert model.config.decoder_layers == 2
    assert not any(parameter.any() for parameter in model.parameters())
    fill_weights(model)
    assert all(parameter.all() for parameter in model.parameters())
    weights = tmp_path / "model.safetensors"
    assert weights.stat().st_size > 10**6
    if hasattr(weights.stat(), "st_blocks"):
        assert 512 * weights.stat().st_blocks < weights.stat().st_size / 10
