"""How much of what was learned a model keeps: that is what is evaluated; the training knows nothing of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import WhisperForConditionalGeneration

from studio.files import read_json, write_json
from studio.options.arguments import read_config
from studio.options.training import FIELDS, TrainingConfig
from studio.training.outcome import no_better
from studio.training.strength import at_strength, final_strength, is_as_good, is_chosen, strength_of
from studio.ui.shared.forms import field_component
from studio.ui.shared.i18n import page_translations
from tests.unit.training.attempts import Runs, StopWhen, attempt, told


@pytest.mark.parametrize("method", ["lora", "dora", "adalora"])
def test_of_what_the_checkpoint_has_learned_the_model_is_made_of_a_share(
    runs: Runs, micro_model: Path, method: str
) -> None:
    run = runs.finished(method=method, adapter_strength=0.5, num_train_epochs=1.0)
    part = "lora_E" if method == "adalora" else "lora_B"
    learned = load_file(run.checkpoints / "checkpoint-3" / "adapter_model.safetensors")
    kept = load_file(runs.registry.models / "run" / "adapter_model.safetensors")
    assert learned.keys() == kept.keys()
    assert any(part in name and tensor.any() for name, tensor in learned.items())
    base = load_file(micro_model / "model.safetensors")
    for name, tensor in learned.items():
        if "magnitude" in name:
            weight = base[
                name.removeprefix("base_model.model.").removesuffix("lora_magnitude_vector") + "weight"
            ]
            torch.testing.assert_close(kept[name], (weight.float().norm(dim=1) + tensor) / 2)
        else:
            assert torch.equal(kept[name], tensor * 0.5 if part in name else tensor), name


def test_at_a_strength_a_model_with_magnitudes_is_as_it_will_be_made(runs: Runs, micro_model: Path) -> None:
    run = runs.finished(method="dora", adapter_strength=0.05, num_train_epochs=1.0)
    features, labels = torch.randn(1, 80, 3000), torch.tensor([[5, 6, 7]])

    def model(folder: Path) -> Any:
        base = WhisperForConditionalGeneration.from_pretrained(micro_model)
        return PeftModel.from_pretrained(base, folder).eval()

    def answer(model: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(input_features=features, labels=labels).logits

    whole = model(run.checkpoints / "checkpoint-3")
    before = answer(whole)
    with at_strength(whole, 0.05):
        torch.testing.assert_close(answer(whole), answer(model(runs.registry.models / "run")))
    assert torch.equal(answer(whole), before)
    with at_strength(whole, 0.0), whole.disable_adapter():
        base = answer(whole)
    with at_strength(whole, 0.0):
        torch.testing.assert_close(answer(whole), base)


def test_the_run_is_evaluated_as_its_model_is_and_trained_as_if_it_were_whole(runs: Runs) -> None:
    found = {}
    for name, strength in (("whole", 1.0), ("half", 0.5)):
        run = runs.new(name, adapter_strength=strength)
        loss = runs.carry_out(run).metrics["final"]["loss"]
        found[loss] = load_file(run.checkpoints / "checkpoint-6" / "adapter_model.safetensors")
    (whole, half) = found.values()
    assert all(torch.equal(tensor, half[name]) for name, tensor in whole.items())


@pytest.mark.parametrize("method", ["full", "frozen_encoder"])
def test_all_weights_are_mixed_with_those_of_the_base(runs: Runs, micro_model: Path, method: str) -> None:
    found = {}
    for name, strength in (("whole", 1.0), ("half", 0.5)):
        run = runs.new(name, method=method, adapter_strength=strength, num_train_epochs=1.0)
        found[name] = runs.carry_out(run).metrics["final"]["loss"]
    base = load_file(micro_model / "model.safetensors")
    whole, half = (load_file(runs.registry.models / name / "model.safetensors") for name in found)
    assert found["whole"] != found["half"] and whole.keys() == half.keys()
    learned = load_file(runs.settings.runs / "half" / "checkpoints" / "checkpoint-3" / "model.safetensors")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in learned.items())
    assert any((tensor != base[name]).any() for name, tensor in whole.items())
    for name, tensor in half.items():
        torch.testing.assert_close(tensor, (base[name].float() + whole[name]) / 2)
    cards = [runs.registry.get(name).card for name in found]
    assert [card.get("adapter_strength") for card in cards] == [None, 0.5]


def test_a_model_without_an_adapter_keeps_a_share_of_it_by_itself(
    runs: Runs, tones: Path, micro_model: Path
) -> None:
    run = runs.new(method="full", test_data=str(tones), num_train_epochs=1.0)
    final = runs.carry_out(run).metrics["final"]
    (whole,) = told(run, "eval")[-1:]
    kept = runs.registry.get("run").card["adapter_strength"]
    assert kept in (0.85, 0.7) and final["loss"] != whole["loss"]
    base = load_file(micro_model / "model.safetensors")
    learned = load_file(run.checkpoints / "checkpoint-3" / "model.safetensors")
    for name, tensor in load_file(runs.registry.models / "run" / "model.safetensors").items():
        torch.testing.assert_close(tensor, kept * learned[name] + (1 - kept) * base[name].float())


def is_choosing(events: list[Mapping[str, Any]]) -> bool:
    """The last step has been evaluated and saved, and is evaluated once more."""
    is_saved = any(event["kind"] == "checkpoint" for event in events)
    return is_saved and events[-1]["kind"] == "eval_progress" and events[-1]["done"] > 0


@pytest.mark.parametrize("gentler", [0.7, 0.0])
def test_less_of_an_adapter_is_kept_where_the_evaluation_clips_hardly_lose_by_it(
    runs: Runs, tones: Path, monkeypatch: pytest.MonkeyPatch, gentler: float
) -> None:
    monkeypatch.setattr("studio.training.attempt.GENTLER", gentler)
    run = runs.new(test_data=str(tones), metric_for_best_model="cer", learning_rate=0.02, eval_on_start=True)
    outcome = attempt(runs.settings, run, StopWhen(run, is_choosing))
    assert outcome.state == "stopped" and outcome.step == outcome.max_steps
    assert not (runs.registry.models / "run").exists()
    metrics = runs.carry_out(run).metrics
    final = metrics["final"]
    (usual,) = told(run, "eval")[-1:]
    is_gentler = final["loss"] != usual["loss"]
    kept = gentler if is_gentler else strength_of(TrainingConfig())
    assert final["cer"] <= usual["cer"] and not (is_gentler and final["cer"] == 0)
    learned = load_file(run.checkpoints / "checkpoint-6" / "adapter_model.safetensors")
    model = runs.registry.get("run")
    assert model.path is not None and model.card["adapter_strength"] == kept
    for name, tensor in load_file(model.path / "adapter_model.safetensors").items():
        assert torch.equal(tensor, learned[name] * kept if "lora_B" in name else learned[name]), name
    notes = [event["text"].split(":")[0] for event in told(run, "warning")]
    is_no_better = metrics["base"]["cer"] <= final["cer"]
    assert (f"Fine-tuning strength {gentler}" in notes) == is_gentler
    assert ("No better than the base on the evaluation clips" in notes) == is_no_better


@pytest.mark.parametrize(
    ("metric", "before", "after", "said"),
    [
        ({"metric": "cer"}, 0.2, 0.3, "CER 20.0 % before, 30.0 % after"),
        ({"metric": "cer"}, 0.3, 0.2, None),
        ({}, 0.2, 0.3, "WER 10.0 % before, 10.0 % after"),
        ({"metric": "loss"}, 0.2, 0.3, "WER 10.0 % before, 10.0 % after"),
        ({"metric": "cer"}, float("nan"), 0.3, None),
    ],
)
def test_a_model_that_is_no_better_says_so_whatever_the_record_lacks(
    metric: dict[str, str], before: float, after: float, said: str | None
) -> None:
    base, final = ({"wer": 0.1, "cer": rate, "loss": 1.0} for rate in (before, after))
    found = no_better({**metric, "base": base, "final": final})
    assert (found is None) if said is None else (said in str(found))


def test_a_gentler_model_may_lose_a_tenth_of_what_was_gained() -> None:
    assert is_as_good(usual=0.20, gentler=0.219, base=0.40)
    assert not is_as_good(usual=0.20, gentler=0.221, base=0.40)
    for base in (None, 0.2, 0.1):  # not known; nothing gained; lost
        assert is_as_good(usual=0.20, gentler=0.20, base=base)
        assert not is_as_good(usual=0.20, gentler=0.201, base=base)


def test_an_adapter_is_weaker_only_while_it_is_evaluated(micro_model: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import WhisperForConditionalGeneration

    base: Any = WhisperForConditionalGeneration.from_pretrained(micro_model)
    model = get_peft_model(base, LoraConfig(r=3, lora_alpha=7, target_modules=["q_proj"]))
    layers = [module for module in model.modules() if hasattr(module, "lora_B")]
    scalings = [dict(layer.scaling) for layer in layers]
    with pytest.raises(ZeroDivisionError), at_strength(model, 0.85):
        assert all(layer.scaling["default"] == pytest.approx(0.85 * 7 / 3) for layer in layers)
        raise ZeroDivisionError
    assert scalings == [layer.scaling for layer in layers] and layers


def test_only_a_new_adapter_is_weaker_unless_it_is_told() -> None:
    new = TrainingConfig()
    assert 0.5 < strength_of(new) < 1 and final_strength(TrainingConfig(method="full")) == strength_of(new)
    assert final_strength(TrainingConfig(method="full", num_processes=2, sharding="fsdp")) == 1
    for config in (TrainingConfig(method="full"), replace(new, adapter="mine"), replace(new, distill=True)):
        assert strength_of(config) == 1
    assert strength_of(replace(new, adapter="mine", adapter_strength=0.7)) == 0.7
    for config in (new, TrainingConfig(method="full")):
        assert is_chosen(config, 8) and not is_chosen(config, 7)
    for config in (
        replace(new, adapter="mine"),
        replace(new, distill=True),
        replace(new, adapter_strength=0.85),
        replace(new, num_processes=2, sharding="fsdp"),
    ):
        assert not is_chosen(config, 100)


def test_the_form_and_the_help_name_the_strength_that_is_used() -> None:
    usual = str(strength_of(TrainingConfig()))
    info = field_component("adapter_strength").info.key
    told = (FIELDS["adapter_strength"].metadata["help"], page_translations().translations["en"][info])
    assert all(f" {usual}, or 0.7 where" in text for text in told)


def test_a_run_of_an_earlier_version_keeps_all_that_it_learns(runs: Runs) -> None:
    run = runs.new()
    values = read_json(run.config)
    write_json(run.config, {**values, "schema_version": 2, "adapter_strength": None})
    assert strength_of(read_config(run.config)) == 1
    for version, is_varied in ((4, False), (5, True)):
        known = {name: value for name, value in values.items() if name != "replay_augmentation"}
        write_json(run.config, {**known, "schema_version": version})
        assert read_config(run.config).replay_augmentation == is_varied
    whole = {"method": "frozen_encoder"}
    for version, changes, strength in (
        (3, {}, 0.85),
        (3, {"adapter": "mine"}, 1),
        (3, {"method": "full"}, 1),
        (3, whole, 1),
        (5, whole, 1),
    ):
        write_json(run.config, {**values, **changes, "schema_version": version, "adapter_strength": None})
        config = read_config(run.config)
        assert strength_of(config) == strength and not is_chosen(config, 100)
