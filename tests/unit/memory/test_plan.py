"""Plans refuse what cannot be computed; an estimate speaks JSON."""

import json
from typing import Any

import pytest

from studio.errors import ConfigError
from studio.memory.plan import Part, TrainingPlan
from studio.memory.training import estimate_training
from tests.unit.whisper_on_meta import TINY


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"method": "prefix"}, "method must be one of lora, dora"),
        ({"precision": "fp8"}, "precision must be one of"),
        ({"batch_size": 0}, "batch_size must be between 1 and 1024, got 0"),
        ({"lora_r": 0}, "lora_r must be between 1 and .*, got 0"),
        ({"target_modules": ("q_prj",)}, "target_modules must be one of .* got 'q_prj'"),
        ({"target_modules": ()}, "at least one of target_modules"),
        ({"method": "full", "quantization": "8bit"}, "8bit weights cannot be trained themselves"),
        ({"precision": "fp16", "base_dtype": "bf16"}, "promoted to fp32 everywhere"),
        ({"precision": "pure_bf16", "base_dtype": "fp16"}, "promoted to fp32 everywhere"),
        ({"precision": "fp32", "base_dtype": "bf16"}, "cannot be fed with fp32"),
        ({"method": "full", "base_dtype": "fp16", "precision": "fp16"}, "gradients cannot be scaled"),
        ({"precision": "fp32", "attention": "flash_attention_2"}, "needs half precision"),
        ({"precision": "pure_bf16", "quantization": "4bit"}, "Beside 4bit weights everything is raised"),
        ({"batch_size": 10**6}, "batch_size must be between 1 and 1024, got 1000000"),
        ({"label_length": 449}, "label_length must be between 1 and 448, got 449"),
        ({"lora_dropout": float("nan")}, "lora_dropout must be between 0 and 0.9, got nan"),
        ({"sharding": "zero4"}, "sharding must be one of ddp, zero1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        TrainingPlan(**values)


def test_the_rank_of_no_adapter_does_not_matter() -> None:
    assert TrainingPlan(method="full", lora_r=0).method == "full"


def test_an_estimate_is_json_with_each_part_in_bytes() -> None:
    estimate = estimate_training(TrainingPlan(eval_batch_size=8), TINY)
    row = json.loads(json.dumps(estimate.to_json()))
    assert row["schema_version"] == 1
    assert sum(row[f"{part}_bytes"] for part in Part) == row["device_bytes"]
    assert row["allocated_bytes"] < row["reserved_bytes"] < row["device_bytes"]
    assert row["peak_phase"] in {"forward", "backward", "optimizer_step", "evaluation"}
