"""What makes a plan smaller."""

import pytest

from studio.actions.estimate import Question, inference_plan, remedies, training_plan_of
from studio.errors import AdapterMismatchError
from studio.options.training import TrainingConfig
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.settings import Settings

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


def test_a_transcription_is_made_smaller_by_its_batch() -> None:
    assert "a smaller batch" in str(remedies(8))
    assert str(remedies(1)) == f"What helps, in this order: {LARGER}."


@pytest.mark.parametrize(("gpu", "precision"), [("T4", "fp16"), ("A10", "bf16")])
def test_a_run_is_sized_as_its_gpu_computes(gpu: str, precision: str) -> None:
    plan = training_plan_of(Question("small", gpu=gpu))
    assert (plan.precision, plan.base_dtype) == (precision, precision)
