"""How much of what was learned a finished model keeps: a little less than all forgets far less.

Between the base and a tuned model lie models that know nearly as much of the new and more of the old
(Wortsman et al. 2022, Robust fine-tuning of zero-shot models). An adapter is such a line by itself: it is
scaled. A model without one is mixed with its base, weight by weight.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from studio.files import storage_errors
from studio.lazy_imports import transformers_library
from studio.options.training import TrainingConfig
from studio.training.distributed.sharding import sharding_arguments

_USUAL = 0.85
"""After 300 English clips whisper-tiny has 24 % of the words wrong and has lost 3.1 points of Mandarin; with
this it is 23 % and 1.1 points (`tests/benchmarks/reports/recipe_tried.md`)."""
GENTLER = 0.7
"""300 Mandarin clips teach whisper-tiny as much with it, and cost 1.5 points of English instead of 5.1; a
model that has everything to learn, as the demo of its accent, needs more (`recipe_tried.md`)."""
_FEWEST_CLIPS = 8
"""On fewer, as many errors are chance."""
_LITTLE = 0.1
"""Of what the training gained: it may be lost. Evaluation clips are mostly of the voices that were learned:
they gain more by a strong adapter than other clips do."""

_MAGNITUDES, _WRAPPED = ".lora_magnitude_vector", "base_model.model."
"""How PEFT's file calls what it adds to a layer, and the model around it."""


def is_chosen(config: TrainingConfig, evaluation_clips: int) -> bool:
    """Whether the strength is chosen when the training is over, by the errors on that many clips.

    Not where the processes share out the weights: a checkpoint cannot be loaded again there.
    """
    is_automatic = config.adapter_strength is None and final_strength(config) != 1
    return is_automatic and evaluation_clips >= _FEWEST_CLIPS and not sharding_arguments(config)


def is_as_good(usual: float, gentler: float, base: float | None) -> bool:
    """Whether the error rate of a gentler model is as low as the usual one's, but for a tenth of what that
    has gained; `base` is the base's, None if it was not read.
    """
    gain = base - usual if base is not None else 0.0
    return gentler <= usual + _LITTLE * max(0.0, gain)


def final_strength(config: TrainingConfig) -> float:
    """Share of what was learned that the finished model keeps, unless a smaller one is chosen.

    One that goes on from an adapter, and one that learns from the base, keep all unless told; and so does one
    without an adapter whose weights the processes share out: what comes of it could not be evaluated.
    """
    if config.adapter_strength is not None:
        return config.adapter_strength
    is_shared_out = not config.is_adapter and bool(sharding_arguments(config))
    return 1.0 if config.adapter or config.distill or is_shared_out else _USUAL


def strength_of(config: TrainingConfig) -> float:
    """Share of what was learned that counts while the run trains: 1 is all of it. A model without an adapter
    trains whole; it is mixed with its base when it is finished.
    """
    return final_strength(config) if config.is_adapter else 1.0


@contextmanager
def at_strength(model: Any, strength: float) -> Iterator[None]:
    """The model as it will be made, for an evaluation."""
    import torch
    from peft.tuners.lora import LoraLayer
    from peft.utils.integrations import dequantize_module_weight

    layers = [module for module in model.modules() if isinstance(module, LoraLayer)] if strength != 1 else []
    before = [dict(layer.scaling) for layer in layers]
    whole = [
        (part.weight, part.weight.data) for layer in layers for part in layer.lora_magnitude_vector.values()
    ]
    for layer in layers:
        layer.scale_layer(strength)
        for part in layer.lora_magnitude_vector.values():
            with torch.no_grad():
                weight = dequantize_module_weight(layer.get_base_layer())
                part.weight.data = _at_strength(part.weight.data, weight, strength)
    try:
        yield
    finally:
        for layer, scaling in zip(layers, before, strict=True):
            layer.scaling.update(scaling)
        for parameter, magnitudes in whole:
            parameter.data = magnitudes


def _at_strength(magnitudes: Any, weight: Any, strength: float) -> Any:
    """DoRA's, between those that the base's weight has itself and what they have become."""
    import torch

    return torch.linalg.norm(weight.float(), dim=1).to(magnitudes).lerp(magnitudes, strength)


def mix(model: Any, base: Path, strength: float) -> None:
    """Puts a whole model on the line between the one in the folder `base` and itself, for good."""
    before = _weights(base)
    for name, weight in model.named_parameters():
        weight.data.lerp_(before[name].to(weight), 1 - strength)


def mix_files(folder: Path, base: Path, strength: float) -> None:
    """The same with the files of a model.

    Raises:
        StorageError: if there is no room for it.
    """
    if strength == 1:
        return
    from safetensors.torch import load_file, save_file

    before = _weights(base)
    for file in sorted(folder.glob("model*.safetensors")):
        tensors = load_file(file)
        mixed = {name: tensor.lerp(before[name].to(tensor), 1 - strength) for name, tensor in tensors.items()}
        with storage_errors(file):
            save_file(mixed, file, {"format": "pt"})


def _weights(folder: Path) -> dict[str, Any]:
    """Those of a model, by name, float32 on the CPU: what is trained without an adapter is float32."""
    import torch

    model = transformers_library().WhisperForConditionalGeneration.from_pretrained(
        folder, use_safetensors=True, local_files_only=True, dtype=torch.float32
    )
    return {name: weight.data for name, weight in model.named_parameters()}


def weaken(weights: Path, base: Path, strength: float) -> None:
    """Scales what is added to the base, in the folder `base`, in the file of an adapter: LoRA's B, AdaLoRA's
    singular values, how far DoRA's magnitudes are from the base's.

    Raises:
        StorageError: if there is no room for it.
    """
    if strength == 1:
        return
    from safetensors.torch import load_file, save_file

    tensors = load_file(weights)
    part = "lora_E" if any("lora_E" in name for name in tensors) else "lora_B"
    scaled = {name: tensor * strength if part in name else tensor for name, tensor in tensors.items()}
    magnitudes = [name for name in tensors if _MAGNITUDES in name]
    before = _weights(base) if magnitudes else {}
    for name in magnitudes:
        weight = before[name.partition(_MAGNITUDES)[0].removeprefix(_WRAPPED) + ".weight"]
        scaled[name] = _at_strength(tensors[name], weight, strength)
    with storage_errors(weights):
        save_file(scaled, weights, {"format": "pt"})
