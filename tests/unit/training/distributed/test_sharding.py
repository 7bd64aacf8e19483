"""FSDP in two processes on a CPU: an evaluation sees whole weights, and training goes on afterwards."""

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from studio.options.training import TrainingConfig
from studio.training.distributed.sharding import sharding_arguments, whole_weights


def test_one_process_and_ddp_divide_nothing() -> None:
    assert sharding_arguments(TrainingConfig(sharding="fsdp")) == {}
    assert sharding_arguments(TrainingConfig(num_processes=2)) == {}
    assert sharding_arguments(TrainingConfig(num_processes=2, sharding="fsdp"))["fsdp"] is True
    zero = sharding_arguments(TrainingConfig(num_processes=2, sharding="zero2"))["deepspeed"]
    assert zero["zero_optimization"] == {"stage": 2}


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_an_evaluation_sees_whole_weights_and_waits_for_nobody(micro_model: Path, tmp_path: Path) -> None:
    children = []
    for rank in range(2):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _evaluate_divided(micro_model, tmp_path / "meeting", rank)
                code = 0
            except Exception:  # noqa: BLE001 - a child tells, and its exit code says the rest
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0]


def _evaluate_divided(path: Path, meeting: Path, rank: int) -> None:
    import transformers as typed_transformers
    from torch.distributed.fsdp import fully_shard

    transformers: Any = typed_transformers
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(path, dtype=torch.float32)
    inputs = {"input_features": torch.randn(1, 80, 3000), "decoder_input_ids": torch.tensor([[1, 2, 3]])}
    with torch.no_grad():
        expected = model(**inputs).logits
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    for layer in (*model.get_encoder().layers, *model.get_decoder().layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    with whole_weights(model), torch.no_grad():
        for _ in range(1 + 2 * rank):  # as many steps as the text of each process takes
            encoded = model.get_encoder()(inputs["input_features"]).last_hidden_state
            found = model(encoder_outputs=(encoded,), decoder_input_ids=inputs["decoder_input_ids"]).logits
            assert torch.allclose(found, expected, atol=1e-5)
    model(**inputs).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)
    dist.destroy_process_group()
