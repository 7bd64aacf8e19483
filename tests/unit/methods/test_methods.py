"""Methods: what each says of itself is what PEFT builds and what other scripts mean."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from studio.methods import METHODS
from studio.methods.method import AdapterSettings
from studio.options.arguments import config_from_dict
from studio.options.training import TrainingConfig
from studio.training.learning_rate import learning_rate_for

ADAPTERS = [key for key, method in METHODS.items() if method.is_adapter]
SETTINGS = AdapterSettings(
    rank=6, final_rank=4, alpha=8, dropout=0.0, target_modules=("q_proj", "fc1"), total_steps=100
)


class Layers(torch.nn.Module):
    """Two linear layers, of which the adapter shall find both."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = torch.nn.Linear(16, 24, bias=False)
        self.fc1 = torch.nn.Linear(24, 40, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc1(self.q_proj(x))  # type: ignore[no-any-return]


def with_adapter(key: str) -> Any:
    import peft as typed_peft

    peft: Any = typed_peft
    return peft.get_peft_model(Layers(), METHODS[key].peft_config(SETTINGS))


@pytest.mark.parametrize("key", ADAPTERS)
def test_an_adapter_adds_the_tensors_that_it_names(key: str) -> None:
    made = with_adapter(key)
    trained = sorted(tuple(p.shape) for p in made.parameters() if p.requires_grad)
    named = [
        shape
        for inputs, outputs in ((16, 24), (24, 40))
        for _name, shape in METHODS[key].added_tensors(SETTINGS.rank, inputs, outputs)
    ]
    assert trained == sorted(named)


@pytest.mark.parametrize("key", ADAPTERS)
def test_an_adapter_that_was_saved_is_known_by_its_configuration(key: str, tmp_path: Path) -> None:
    with_adapter(key).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    found = [other for other in ADAPTERS if METHODS[other].goes_on_from(saved)]
    assert found == ([key] if METHODS[key].can_go_on else [])


@pytest.mark.parametrize("key", METHODS)
def test_flags_of_other_scripts_mean_the_method(key: str) -> None:
    for switch in METHODS[key].switches:
        assert config_from_dict({switch: True, "train_data": "demo"}).method == key


@pytest.mark.parametrize("key", METHODS)
def test_wider_models_learn_more_slowly_and_every_width_has_a_rate(key: str) -> None:
    config = TrainingConfig(method=key)
    rates = [learning_rate_for(config, width) for width in (64, 384, 512, 768, 1024, 1280)]
    assert rates == sorted(rates, reverse=True) and rates[0] > rates[-1] > 0


def test_what_a_run_falls_back_to_is_a_method_that_says_what_it_costs() -> None:
    for method in METHODS.values():
        for smaller in method.smaller:
            assert METHODS[smaller].instead is not None
