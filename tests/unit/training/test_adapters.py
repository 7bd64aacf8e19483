"""Every method moves exactly the weights it should, and what is saved loads as what was in memory."""

from pathlib import Path
from typing import Any

import pytest
import torch

from studio.errors import ModelBrokenError
from studio.options.choices import ALL_LINEAR
from studio.options.training import TrainingConfig
from studio.training import adapters
from studio.transcription.decoding import write
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.loaded_base import load_base
from studio.transcription.window_model import Search
from studio.whisper.audio_context import FRAMES_PER_POSITION, audio_context

STEPS = 4
POSITIONS = 96
"""Two seconds: which weights move, and what of them is saved, takes no window of 30."""
CASES = [
    ("lora", "none", False),
    ("lora", "none", True),
    ("lora", "8bit", False),
    ("lora", "8bit", True),
    ("lora", "4bit", False),
    ("lora", "4bit", True),
    ("dora", "none", False),
    ("dora", "8bit", True),
    ("dora", "4bit", True),
    ("adalora", "none", False),
    ("adalora", "none", True),
    ("adalora", "8bit", True),
    ("adalora", "4bit", True),
    ("full", "none", False),
    ("full", "none", True),
    ("frozen_encoder", "none", False),
    ("frozen_encoder", "none", True),
]


def prepared(model: Path, **changes: Any) -> tuple[TrainingConfig, adapters.Base, Any]:
    config = TrainingConfig(**{"base_model": str(model), "lora_r": 4, "lora_dropout": 0.0, **changes})
    base = adapters.load_training_base(model, config, adapters.choose_precision(config, has_gpu=False))
    wrapped = adapters.prepare_method(base.decoder.model, config, STEPS)
    if config.gradient_checkpointing:
        wrapped.gradient_checkpointing_enable({"use_reentrant": config.is_reentrant})
    return config, base, wrapped


def batch(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 200, (2, 7), generator=generator)
    labels[1, 5:] = -100
    features = torch.randn(2, 80, POSITIONS * FRAMES_PER_POSITION, generator=generator)
    return {"input_features": features.to(dtype), "labels": labels}


def train(model: Any, allocates: bool = True, steps: int = STEPS) -> None:
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(steps):
        with audio_context(model.get_encoder(), POSITIONS):
            model(**batch(model.dtype)).loss.backward()
        optimizer.step()
        if allocates and hasattr(getattr(model, "base_model", None), "update_and_allocate"):
            model.base_model.update_and_allocate(step + 1)
        optimizer.zero_grad()
    model.eval()


def is_intended(name: str, method: str) -> bool:
    if method == "full":
        return "encoder.embed_positions" not in name  # sinusoids, never trained
    if method == "frozen_encoder":
        return ".encoder." not in name
    return "lora_" in name


def loss_of(model: Any) -> float:
    with torch.no_grad(), audio_context(model.get_encoder(), POSITIONS):
        return float(model(**batch(model.dtype)).loss)


@pytest.mark.parametrize(("method", "quantization", "checkpointing"), CASES)
def test_exactly_the_intended_weights_move(
    method: str, quantization: str, checkpointing: bool, micro_model: Path
) -> None:
    assert_only_intended_move(
        micro_model, method=method, quantization=quantization, gradient_checkpointing=checkpointing
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"base_dtype": "bf16"},
        {"base_dtype": "bf16", "gradient_checkpointing": True},
        {"base_dtype": "bf16", "method": "dora"},
        {"base_dtype": "bf16", "method": "adalora"},
        {"precision": "pure_bf16"},
        {"precision": "pure_bf16", "method": "full"},
        {"precision": "pure_bf16", "method": "frozen_encoder", "gradient_checkpointing": True},
        {"target_modules": ("q_proj", "fc2")},
        {"quantization": "8bit", "gradient_checkpointing": True, "use_reentrant": "false"},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_exactly_the_intended_weights_move_in_other_types(changes: dict[str, Any], micro_model: Path) -> None:
    assert_only_intended_move(micro_model, **{"method": "lora", **changes})


def assert_only_intended_move(model_folder: Path, *, method: str, **changes: Any) -> None:
    _, _, model = prepared(model_folder, method=method, **changes)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    train(model, allocates=False, steps=2)  # AdaLoRA would set the ranks that it cuts back to zero
    moved = {name for name, p in model.named_parameters() if not torch.equal(p.detach(), before[name])}
    unmovable = {name for name in before if "ranknum" in name}
    assert moved == {name for name in before if is_intended(name, method)} - unmovable


@pytest.mark.parametrize(("quantization", "precision"), [("8bit", "int8"), ("4bit", "int4")])
def test_a_base_is_packed_alike_where_it_is_trained_beside_and_where_it_is_heard(
    quantization: str, precision: str, micro_model: Path
) -> None:
    config = TrainingConfig(quantization=quantization)
    trained = adapters.load_model(micro_model, config, adapters.Precision("fp32"))
    heard = load_base(micro_model, device="cpu", precision=precision)
    with heard.using(None) as decoder:
        others = dict(decoder.model.named_parameters())
    packed = [(name, weight) for name, weight in trained.named_parameters() if not weight.is_floating_point()]
    assert packed
    for name, weight in packed:
        assert torch.equal(weight, others[name])
        one, other = getattr(weight, "quant_state", None), getattr(others[name], "quant_state", None)
        if one is not None:
            assert one.nested and torch.equal(one.absmax, other.absmax)


def transcribed(decoder: TransformersModel) -> list[list[int]]:
    """What the model hears in the batch, word by word."""
    with torch.no_grad(), audio_context(decoder.model.get_encoder(), POSITIONS):
        features = batch(decoder.model.dtype)["input_features"]
        encoded = decoder.model.get_encoder()(features).last_hidden_state
        prompt = [decoder.tokens.start, decoder.tokens.no_timestamps]
        return [one.tokens for one in write(decoder, encoded, [prompt, prompt], Search(1, 0.0, 12))]


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "lora"},
        {"method": "lora", "quantization": "8bit"},
        {"method": "lora", "quantization": "4bit"},
        {"method": "lora", "base_dtype": "bf16"},
        {"method": "dora"},
        {"method": "adalora"},
        {"method": "full"},
        {"method": "full", "precision": "pure_bf16"},
        {"method": "frozen_encoder"},
    ],
    ids=lambda changes: " ".join(changes.values()),
)
def test_what_is_saved_is_and_hears_what_was_in_memory(
    changes: dict[str, Any], micro_model: Path, tmp_path: Path
) -> None:
    config, base, model = prepared(micro_model, **changes)
    before, untrained = transcribed(base.decoder), loss_of(base.decoder.model)
    train(model, steps=8)
    heard, loss = transcribed(base.decoder), loss_of(base.decoder.model)
    folder = tmp_path / "saved"
    model.save_pretrained(folder)
    if config.is_adapter:
        from peft import PeftModel

        again = prepared_base(micro_model, config)
        PeftModel.from_pretrained(again.model, folder).eval()
    else:
        for file in micro_model.glob("*.json"):
            if not (folder / file.name).exists():
                (folder / file.name).write_bytes(file.read_bytes())
        again = prepared_base(folder, config)
    again.model.eval()
    assert transcribed(again) == heard != before
    assert abs(loss - untrained) > 1e-3
    if config.quantization == "none":  # in 4 bits, the sixth digit is another one
        assert loss_of(again.model) == pytest.approx(loss, abs=1e-6)


def prepared_base(folder: Path, config: TrainingConfig) -> TransformersModel:
    return adapters.load_training_base(
        folder, config, adapters.choose_precision(config, has_gpu=False)
    ).decoder


def test_target_modules_choose_the_layers(micro_model: Path) -> None:
    _, _, model = prepared(micro_model, target_modules=("q_proj", "fc2"))
    names = {
        name.split(".lora_")[0].rsplit(".", 1)[-1] for name, p in model.named_parameters() if p.requires_grad
    }
    assert names == {"q_proj", "fc2"}
    _, _, model = prepared(micro_model)
    names = {
        name.split(".lora_")[0].rsplit(".", 1)[-1] for name, p in model.named_parameters() if p.requires_grad
    }
    assert names == set(ALL_LINEAR)


def test_adalora_ends_with_the_rank_that_was_asked_for(micro_model: Path) -> None:
    _, _, model = prepared(micro_model, method="adalora")
    train(model)
    pattern = model.peft_config["default"].rank_pattern
    kept = [sum(ranks) for ranks in pattern.values()]
    assert sum(kept) == 4 * len(pattern), "the budget"
    assert len(set(kept)) > 1, "layers that matter more have got more of it"


def test_half_precision_files_are_trained_in_float32(micro_model: Path, tmp_path: Path) -> None:
    from transformers import WhisperForConditionalGeneration

    half = tmp_path / "half"
    WhisperForConditionalGeneration.from_pretrained(micro_model, dtype=torch.float16).save_pretrained(half)
    for file in micro_model.glob("*.json"):
        if not (half / file.name).exists():
            (half / file.name).write_bytes(file.read_bytes())
    _, _, model = prepared(half)
    if not torch.cuda.is_available():
        assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_the_same_seed_makes_the_same_adapter(micro_model: Path) -> None:
    first, second = (dict(prepared(micro_model, seed=7)[2].named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_parameters_are_counted(micro_model: Path) -> None:
    _, _, whole = prepared(micro_model, method="full")
    trainable, total = adapters.count_parameters(whole)
    assert total - trainable == 1500 * 64, "all but the encoder's sinusoids"
    for quantization in ("8bit", "4bit"):
        _, _, wrapped = prepared(micro_model, quantization=quantization)
        adapter, with_base = adapters.count_parameters(wrapped)
        assert with_base - adapter == total, quantization


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelBrokenError, match="cannot be loaded"):
        adapters.load_training_base(tmp_path, TrainingConfig(), adapters.Precision("fp32"))
