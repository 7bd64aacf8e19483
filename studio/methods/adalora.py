"""AdaLoRA: an adapter whose ranks move to the layers that need them (Zhang et al. 2023, arXiv 2303.10512)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studio.files import read_json, write_json
from studio.methods.lora import matrices
from studio.methods.method import AdapterSettings, Method, Operators

_IMPORTANCES = ("ipt", "exp_avg_ipt", "exp_avg_unc")
"""Importance, its mean and its uncertainty of each number, as PEFT's `RankAllocator` keeps them."""
_EXTRA_RANK = 1.5
_STATE = "adalora.safetensors"
_RANKS = "adalora.json"


class AdaLora(Method):
    """In PEFT 0.21, without the term of the loss that draws its matrices towards orthogonal ones: PEFT leaves
    it out where no task type is given (see `AdapterSettings.shared`), and with it the demo model learns no
    better (words that are wrong after eight epochs, two seeds: 63 and 60 %, without it 55 and 60 %).
    """

    key = "adalora"
    label = "AdaLoRA (adapter with moving ranks)"
    switches = ("use_adalora",)
    learning_rates = ((0, 2e-3), (384, 1e-3))
    """It begins with more ranks and prunes as it goes: it learns more slowly."""
    fixed_numbers = 1
    """The rank of the layer."""
    state_bytes = 4 * len(_IMPORTANCES)

    def initial_rank(self, lora_r: int) -> int:
        """It begins higher, and ends with `lora_r` on average."""
        return max(lora_r + 1, round(_EXTRA_RANK * lora_r))

    def peft_config(self, settings: AdapterSettings) -> Any:
        """Ranks are cut at every step, so that a checkpoint is exactly what was evaluated. In the last one
        nothing is measured that they could be cut by: of a single step PEFT thinks as the first of two.
        """
        from peft import AdaLoraConfig

        steps = max(2, settings.total_steps)
        return AdaLoraConfig(
            init_r=settings.rank,
            target_r=settings.final_rank,
            total_step=steps,
            tinit=steps // 10,
            tfinal=steps * 3 // 10,
            deltaT=1,
            **settings.shared,
        )

    def keep_fixed(self, model: Any) -> None:
        """PEFT freezes the ranks, and makes them trainable again where it moves or casts them with the base:
        on a GPU, or beside half precision. They would be learned, lost when the adapter is saved, and each
        layer would keep its output for their gradient.
        """
        for name, parameter in model.named_parameters():
            if "ranknum" in name:
                parameter.requires_grad_(False)

    def added_tensors(self, rank: int, inputs: int, outputs: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Down, singular values, and up."""
        return (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank)), ("lora_E", (rank, 1)))

    def play_beside(
        self, operators: Operators, x: Any, result: Any, rows: int, inputs: int, outputs: int
    ) -> Any:
        """Singular values scale the first matrix; the rank is a float32 tensor; added in place."""
        tape, plan = operators.tape, operators.plan
        dropped = operators.dropout(x)
        down, up = matrices(operators, inputs, outputs)
        scaled_down = tape.record(tape.new(down.numbers, 4), (), ((down, 4),))
        middle = operators.product(dropped, scaled_down, float(rows * plan.lora_r))
        tape.drop(scaled_down)
        out = operators.product(middle, up, float(rows * outputs))
        tape.drop(dropped, middle)
        scaled = operators.scaled(out)
        tape.drop(out)
        divided = operators.scaled(scaled, width=4)
        tape.drop(scaled)
        if plan.quantization == "8bit":
            total = operators.add(result, divided)
        else:
            total = tape.record_in_place(result, divided, is_view=plan.quantization == "none")
        tape.drop(divided)
        return total

    def traced_states(self, model: Any) -> Iterator[Any]:
        """The importances of each number of the adapter."""
        import torch

        allocator = model.base_model.rankallocator
        for name, p in model.base_model.model.named_parameters():
            if "lora_" in name and allocator.adapter_name in name:
                for kind in _IMPORTANCES:
                    kept = getattr(allocator, kind)
                    kept[name] = torch.zeros_like(p)
                    yield kept[name]

    def end_traced_step(self, model: Any) -> None:
        """Importances are brought up to date."""
        model.base_model.rankallocator.update_ipt(model.base_model.model)

    def after_optimizer_step(self, model: Any, step: int) -> None:
        """Ranks move between layers."""
        model.base_model.update_and_allocate(step)

    def save_beside(self, model: Any, folder: Path) -> None:
        """The weights at full rank, the importance of each, and the ranks.

        PEFT's own checkpoint has the weights cut to the ranks of the moment, which the optimizer's do not
        fit.
        """
        from safetensors.torch import save_file

        allocator, inner = model.base_model.rankallocator, model.base_model.model
        tensors = {f"weight.{name}": p.detach() for name, p in inner.named_parameters() if "lora_" in name}
        for kind in _IMPORTANCES:
            tensors |= {f"{kind}.{name}": tensor for name, tensor in getattr(allocator, kind).items()}
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / _STATE)
        write_json(folder / _RANKS, model.peft_config["default"].rank_pattern)

    def load_instead(self, model: Any, folder: Path) -> bool:
        """Everything that was saved beside."""
        import torch
        from safetensors.torch import load_file

        allocator = model.base_model.rankallocator
        parameters = dict(model.base_model.model.named_parameters())
        allocator.reset_ipt()
        for full_name, tensor in load_file(folder / _STATE).items():
            kind, _, name = full_name.partition(".")
            parameter = parameters[name]
            if kind == "weight":
                with torch.no_grad():
                    parameter.copy_(tensor)
            else:
                getattr(allocator, kind)[name] = tensor.to(parameter.device)
        model.peft_config["default"].rank_pattern = read_json(folder / _RANKS)
        return True
