"""What a model folder holds, and whether it can be used: read from configs and headers, nothing is loaded."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.errors import AdapterMismatchError, ModelBrokenError
from studio.registry.parameters import linear_layers
from studio.registry.spec import CARD_FILE, ModelDimensions, ModelKind
from studio.registry.tensors import cut_short, read_all_shapes, read_json_object, read_shapes
from studio.whisper.audio_context import POSITIONS, SECONDS_PER_POSITION
from studio.whisper.constants import ENGLISH_VOCABULARY

_READ_ON_LOADING = (
    *("tokenizer.json", "vocab.json", "vocabulary.json", "tokenizer_config.json", "added_tokens.json"),
    *("special_tokens_map.json", "normalizer.json", "generation_config.json", "preprocessor_config.json"),
    "merges.txt",
)
"""What libraries read besides, if it is there; cut off, each stops a model from being loaded."""
_PICKLES = ("pytorch_model*.bin", "adapter_model.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_ADAPTER_TENSOR = re.compile(
    r"\.(?P<part>encoder|decoder)\.layers\.(?P<layer>\d+)\.(?:\w+\.)*?"
    r"(?P<name>q_proj|k_proj|v_proj|out_proj|fc1|fc2)\.lora_(?P<side>[AB])(?:\.\w+)*$"
)


@dataclass(frozen=True)
class FolderContent:
    """What was found in a whole model folder."""

    kind: ModelKind
    dimensions: ModelDimensions | None = None
    """None for an adapter and for an export: they have those of their base."""
    base_name: str = ""
    """What an adapter or export says about its base; empty if nothing."""
    is_multilingual: bool = True
    card: Mapping[str, Any] = field(default_factory=dict)


def read_card(folder: Path) -> dict[str, Any]:
    """The content of `model.json`, empty if there is none.

    Raises:
        ModelBrokenError: if it is there and cannot be read.
    """
    return read_json_object(folder / CARD_FILE) if (folder / CARD_FILE).is_file() else {}


def guess_kind(folder: Path, names: Collection[str]) -> ModelKind:
    """The kind of a broken folder: what its card says, or else from the names of its files."""
    with suppress(ModelBrokenError, OSError, ValueError):
        return ModelKind(str(read_card(folder).get("kind")))
    if any(name.startswith(("adapter_config.", "adapter_model.")) for name in names):
        return ModelKind.ADAPTER
    return ModelKind.EXPORT if "model.bin" in names else ModelKind.BASE


def inspect_folder(folder: Path) -> FolderContent:
    """Reads configs and weight headers of an adapter, a Whisper or an export.

    Raises:
        ModelBrokenError: with a sentence that says what is wrong.
    """
    card = read_card(folder)
    sizes = card.get("sizes")
    for name, size in sizes_of(folder).items():
        if name.endswith(".json"):
            _check_ends(folder / name)
        expected = sizes.get(name) if isinstance(sizes, dict) else None
        if isinstance(expected, int) and size < expected:  # larger: somebody has added a key
            raise cut_short(folder / name, size, expected)
    if (folder / "adapter_config.json").is_file():
        return _inspect_adapter(folder, card)
    if card.get("kind") == ModelKind.FOREIGN:
        return _inspect_foreign(folder, card)
    if (folder / "model.bin").is_file():
        return _inspect_export(folder, card)
    if (folder / "config.json").is_file():
        return _inspect_whisper(folder, card)
    _refuse_pickles(folder)
    raise ModelBrokenError(
        "{folder} holds neither config.json nor adapter_config.json: it is no model, or only half of one.",
        folder=folder.name,
    )


def sizes_of(folder: Path) -> dict[str, int]:
    """Bytes of the files that libraries read besides: what is cut off may end as if it were whole."""
    return {name: (folder / name).stat().st_size for name in _READ_ON_LOADING if (folder / name).is_file()}


def check_window(model: object, dimensions: ModelDimensions | None) -> None:
    """Refuses a model that does not see 30 seconds: clips are cut, filled up and timed by them.

    Raises:
        ModelBrokenError: says what it sees.
    """
    if dimensions is not None and dimensions.max_source_positions != POSITIONS:
        raise ModelBrokenError(
            "{model} sees windows of {seconds:g} s (max_source_positions {positions}), and the studio gives "
            "it 30 s: choose a Whisper with max_source_positions {wanted}.",
            name="base_model",
            model=model,
            seconds=dimensions.max_source_positions * SECONDS_PER_POSITION,
            positions=dimensions.max_source_positions,
            wanted=POSITIONS,
        )


def check_adapter(folder: Path, base_dimensions: ModelDimensions) -> None:
    """Checks that an adapter's matrices fit the layers of a base.

    Raises:
        AdapterMismatchError: if it was made for a model of other dimensions.
        ModelBrokenError: if its weights cannot be read.
    """
    sizes: dict[tuple[str, str], tuple[int, int]] = {
        (linear.half, linear.name): (linear.in_features, linear.out_features)
        for linear in linear_layers(base_dimensions)
    }
    layers = {"encoder": base_dimensions.encoder_layers, "decoder": base_dimensions.decoder_layers}
    for name, shape in read_shapes(folder / "adapter_model.safetensors").items():
        found = _ADAPTER_TENSOR.search(name)
        if not found or len(shape) != 2:
            continue
        features = shape[1] if found["side"] == "A" else shape[0]
        wanted = sizes[found["part"], found["name"]][0 if found["side"] == "A" else 1]
        if features != wanted or int(found["layer"]) >= layers[found["part"]]:
            raise AdapterMismatchError(
                "The adapter {adapter} belongs to another base model: its {module} in {part} layer {layer} "
                "is {features} wide, and this base has {layers} such layers, {wanted} wide. Choose the base "
                "it was trained on.",
                adapter=folder.name,
                module=found["name"],
                part=found["part"],
                layer=int(found["layer"]),
                features=features,
                layers=layers[found["part"]],
                wanted=wanted,
            )


def _inspect_adapter(folder: Path, card: dict[str, Any]) -> FolderContent:
    config = read_json_object(folder / "adapter_config.json")
    weights = folder / "adapter_model.safetensors"
    if not weights.is_file():
        _refuse_pickles(folder)
        raise ModelBrokenError("adapter_model.safetensors is missing: copy the adapter again.")
    if not any(".lora_" in name for name in read_shapes(weights)):
        raise ModelBrokenError(
            "adapter_model.safetensors holds no LoRA matrices: "
            "only LoRA, DoRA and AdaLoRA adapters are known."
        )
    _check_expression(config.get("target_modules"))
    base = card.get("base_model") or config.get("base_model_name_or_path") or ""
    return FolderContent(kind=ModelKind.ADAPTER, base_name=str(base), card=card)


_UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")
_MOST_UNBOUNDED = 3


def _check_expression(targets: Any) -> None:
    """An adapter may name its layers by a regular expression, and one of a stranger may take for ever."""
    if not isinstance(targets, str):
        return
    if len(_UNBOUNDED.findall(targets)) > _MOST_UNBOUNDED or _REPEATED_GROUP.search(targets):
        raise ModelBrokenError(
            "adapter_config.json names layers by an expression that could take for ever ({start}): list "
            "their names in target_modules.",
            start=targets[:60],
        )


def _inspect_whisper(folder: Path, card: dict[str, Any]) -> FolderContent:
    config = read_json_object(folder / "config.json")
    if config.get("model_type") != "whisper":
        raise ModelBrokenError(
            "config.json is of a model of type {model_type!r}: only Whisper models are accepted.",
            model_type=str(config.get("model_type")),
        )
    dimensions = ModelDimensions.from_config(config)
    _check_weights(folder, dimensions)
    _check_companions(folder)
    kind = ModelKind.MERGED if card.get("kind") == ModelKind.MERGED else ModelKind.BASE
    return FolderContent(
        kind=kind,
        dimensions=dimensions,
        base_name=str(card.get("base_model") or ""),
        is_multilingual=_is_multilingual(folder, dimensions),
        card=card,
    )


def _check_weights(folder: Path, dimensions: ModelDimensions) -> None:
    index = folder / "model.safetensors.index.json"
    if not (folder / "model.safetensors").is_file() and not index.is_file():
        _refuse_pickles(folder)
        raise ModelBrokenError("model.safetensors is missing: copy or download the model again.")
    shapes = read_all_shapes(folder, "model")
    d = dimensions
    wanted: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (d.d_model, d.num_mel_bins, 3),
        "encoder.embed_positions.weight": (d.max_source_positions, d.d_model),
        "decoder.embed_tokens.weight": (d.vocab_size, d.d_model),
        "decoder.embed_positions.weight": (d.max_target_positions, d.d_model),
        f"encoder.layers.{d.encoder_layers - 1}.fc1.weight": (d.encoder_ffn_dim, d.d_model),
        f"decoder.layers.{d.decoder_layers - 1}.fc1.weight": (d.decoder_ffn_dim, d.d_model),
    }
    for name, shape in wanted.items():
        found = shapes.get(f"model.{name}", shapes.get(name))
        if found != shape:
            raise ModelBrokenError(
                "The weights do not belong to config.json ({tensor} is {found}, and {shape} is wanted): "
                "copy both from the same model.",
                tensor=name,
                found="missing" if found is None else list(found),
                shape=list(shape),
            )


def _check_companions(folder: Path) -> None:
    """A Whisper also needs its tokenizer and the settings of its features."""
    has_tokenizer = (folder / "tokenizer.json").is_file() or (
        (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()
    )
    has_features = any(
        (folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")
    )
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (folder / name).is_file():
            _check_features(folder / name)
    for present, name in ((has_tokenizer, "tokenizer.json"), (has_features, "preprocessor_config.json")):
        if not present:
            raise _missing(name)


_END_BYTES = 256


def _check_ends(path: Path) -> None:
    """Refuses a value that was cut off. To read all of a tokenizer takes a tenth of a second, and many
    commands list the models."""
    with path.open("rb") as file:
        begin = file.read(_END_BYTES).lstrip()
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        end = file.read().rstrip()
    if (begin[:1], end[-1:]) not in ((b"{", b"}"), (b"[", b"]")):
        raise ModelBrokenError("{file} cannot be read as JSON: copy the model again.", file=path.name)


_FEATURES = {"n_fft": 400, "hop_length": 160, "sampling_rate": 16000}
"""As every Whisper has them; the filters of other values may take more memory than there is."""
_MOST_MELS = 512


def _check_features(path: Path) -> None:
    told = read_json_object(path)
    values = told.get("feature_extractor", told)
    values = values if isinstance(values, dict) else {}
    mels = values.get("feature_size", 80)
    if not isinstance(mels, int) or not 0 < mels <= _MOST_MELS:
        raise _odd(path, "feature_size", mels, "80 or 128")
    for name, usual in _FEATURES.items():
        if (value := values.get(name, usual)) != usual:
            raise _odd(path, name, value, usual)


def _odd(path: Path, name: str, value: object, usual: object) -> ModelBrokenError:
    return ModelBrokenError(
        "{file} has {name} {value}, and every Whisper has {usual}: copy it from the model that this one was "
        "trained from.",
        file=path.name,
        name=name,
        value=str(value)[:40],
        usual=usual,
    )


def _missing(name: str) -> ModelBrokenError:
    return ModelBrokenError(
        "{file} is missing: copy it from the model that this one was trained from.", file=name
    )


def _is_multilingual(folder: Path, dimensions: ModelDimensions) -> bool:
    path = folder / "generation_config.json"
    said = read_json_object(path).get("is_multilingual") if path.is_file() else None
    return said if isinstance(said, bool) else dimensions.vocab_size != ENGLISH_VOCABULARY


def _inspect_export(folder: Path, card: dict[str, Any]) -> FolderContent:
    if not any(folder.glob("vocabulary.*")):
        raise ModelBrokenError(
            "model.bin has no vocabulary beside it, so it is no CTranslate2 export; pickled weights are "
            "refused because loading them can run any program."
        )
    if not (folder / "tokenizer.json").is_file():  # faster-whisper would take that of another model
        raise _missing("tokenizer.json")
    about = folder / "config.json"  # heads and suppressed tokens; without it CTranslate2 has its own
    if about.is_file():
        read_json_object(about)
    _require_whole(folder / "model.bin", card)
    return FolderContent(kind=ModelKind.EXPORT, base_name=str(card.get("base_model") or ""), card=card)


def _inspect_foreign(folder: Path, card: dict[str, Any]) -> FolderContent:
    """Its files are for another program to read; the card says which has the weights, and its size."""
    name = str(card.get("weights") or "")
    if name != Path(name).name or not (folder / name).is_file():
        raise ModelBrokenError("The file with its weights is missing: export the model again.")
    _require_whole(folder / name, card)
    return FolderContent(kind=ModelKind.FOREIGN, base_name=str(card.get("base_model") or ""), card=card)


def _require_whole(weights: Path, card: dict[str, Any]) -> None:
    size, expected = weights.stat().st_size, card.get("weights_bytes")
    if isinstance(expected, int) and size != expected:
        raise cut_short(weights, size, expected)


def _refuse_pickles(folder: Path) -> None:
    found = next((path for pattern in _PICKLES for path in sorted(folder.glob(pattern))), None)
    if found is not None:
        raise ModelBrokenError(
            "{file} is a pickle, and loading a pickle can run any program: save the model as safetensors "
            "(save_pretrained does) and copy it again.",
            file=found.name,
        )
