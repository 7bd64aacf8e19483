"""What makes a plan smaller, and in which precisions a transcription is sized."""

import json
import shlex
from dataclasses import replace

import pytest

from studio.actions.estimate import (
    Question,
    answer,
    estimate_command,
    inference_plan,
    precisions,
    remedies,
    shape_of,
    training_plan_of,
    transcription_sizes,
)
from studio.cli import estimate
from studio.errors import AdapterMismatchError, ConfigError
from studio.memory.fit import cards_for
from studio.options.choices import ENGINES, SHARDINGS
from studio.options.training import TrainingConfig
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.settings import Settings
from studio.transcription.engine import EngineChoice
from studio.transcription.options import check_engine

BASE = "openai/whisper-large-v3"
LARGER = "a smaller model, a larger GPU"


@pytest.mark.parametrize(
    ("run", "steps"),
    [
        (
            TrainingConfig(base_model=BASE, method="full"),
            "gradient checkpointing, a smaller batch, LoRA instead of all weights, " + LARGER,
        ),
        (
            TrainingConfig(base_model=BASE, method="lora"),
            "gradient checkpointing, a smaller batch, 4 bits for the base, " + LARGER,
        ),
        (
            TrainingConfig(
                base_model=BASE,
                quantization="4bit",
                gradient_checkpointing=True,
                per_device_train_batch_size=1,
            ),
            LARGER,
        ),
    ],
)
def test_what_is_done_already_is_not_advised(run: TrainingConfig, steps: str) -> None:
    assert str(remedies(run.per_device_train_batch_size, run)) == f"What helps, in this order: {steps}."


def test_a_model_given_for_an_adapter_is_called_none(settings: Settings) -> None:
    with pytest.raises(AdapterMismatchError, match="demo is no adapter"):
        inference_plan("small", Services.open(settings).registry, adapter=DEMO_ID)


PRECISIONS = [(engine, name) for engine, names in ENGINES.items() for name in ("auto", *names)]


@pytest.mark.parametrize(("engine", "precision"), PRECISIONS)
def test_a_transcription_is_sized_in_each_precision_that_it_can_have(
    engine: str, precision: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    check_engine(EngineChoice(engine, precision))
    registry = Services.open(settings).registry
    plan = inference_plan("tiny", registry, engine=engine, precision=precision)
    half = inference_plan("tiny", registry, engine=engine, precision="float16")
    sizes = [transcription_sizes(row, shape_of("tiny", registry), None) for row in (plan, half)]
    size, usual = (row.estimate.allocated_bytes for row in sizes)
    assert (size > usual) == (precision in ("float32", "int8_float32"))
    assert (size < usual) == (precision in ("int8", "int4", "int8_float16"))
    words = ["--inference", "--base_model", "tiny", "--engine", engine, "--precision", precision, "--json"]
    assert estimate.run(words, settings) == 0
    assert json.loads(capsys.readouterr().out)["allocated_bytes"] == size


def test_integers_of_transformers_are_its_quantization(settings: Settings) -> None:
    registry = Services.open(settings).registry
    for precision, bits in (("int8", "8bit"), ("int4", "4bit")):
        plan = inference_plan("tiny", registry, precision=precision)
        assert plan == inference_plan("tiny", registry, quantization=bits)
        assert plan == inference_plan("tiny", registry, precision=precision, quantization=bits)
    with pytest.raises(ConfigError, match="quantization can be one of 4bit, 8bit"):
        inference_plan("tiny", registry, precision="int8", quantization="4bit")
    for engine in ("transformers", "faster-whisper"):
        shown = precisions("transcribe", engine)
        assert "int8" in shown or engine == "transformers"
        assert all(inference_plan("tiny", registry, engine=engine, precision=name) for name in shown)


def test_a_transcription_is_made_smaller_by_its_batch() -> None:
    assert "a smaller batch" in str(remedies(8))
    assert str(remedies(1)) == f"What helps, in this order: {LARGER}."


@pytest.mark.parametrize(("gpu", "precision"), [("T4", "fp16"), ("A10", "bf16")])
def test_a_run_is_sized_as_its_gpu_computes(gpu: str, precision: str) -> None:
    plan = training_plan_of(Question("small", gpu=gpu))
    assert (plan.precision, plan.base_dtype) == (precision, precision)


@pytest.mark.parametrize("question", [Question("base", gpu="A30", per_device_train_batch_size=31)])
def test_every_card_of_the_list_is_judged_as_if_it_alone_were_asked_about(
    question: Question, settings: Settings
) -> None:
    registry = Services.open(settings).registry
    for gpu, said in cards_for(answer(question, registry).elsewhere):
        assert answer(replace(question, gpu=gpu.name), registry).verdict == said, gpu.name


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_several_gpus_are_sized_as_the_command_line_does(
    sharding: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    question = Question("base", gpu="A30", per_device_train_batch_size=1, num_gpus=8, sharding=sharding)
    assert estimate.run([*shlex.split(estimate_command(question))[4:], "--json"], settings) == 0
    shown = json.loads(capsys.readouterr().out)
    found = answer(question, Services.open(settings).registry)
    assert {name: shown[name] for name in found.estimate.to_json()} == found.estimate.to_json()


def test_no_gpu_at_all_is_refused_as_on_the_command_line() -> None:
    with pytest.raises(ConfigError, match=r"must be between 1 and .*, got 0"):
        training_plan_of(Question("small", num_gpus=0))
