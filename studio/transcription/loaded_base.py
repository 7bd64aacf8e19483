"""A base model of transformers in memory, and its adapters, switched without loading the base again."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from studio.errors import ModelBrokenError, RunError, first_line
from studio.lazy_imports import peft_library, transformers_library
from studio.messages import Message
from studio.options.choices import BITS, TRANSFORMERS
from studio.registry.spec import ModelDimensions
from studio.registry.tensors import read_json_object
from studio.registry.validate import check_adapter, check_window
from studio.transcription.devices import memory_for_a_model, torch_device, usual_dtype
from studio.transcription.engines.transformers import TransformersModel


class LoadedBase:
    """A base model in memory with the adapters that were used on it. Only one of them is active at a time."""

    engine = TRANSFORMERS
    notes: tuple[Message, ...] = ()
    """What goes with whatever is heard."""

    def __init__(self, model: TransformersModel, dimensions: ModelDimensions) -> None:
        """Made by `load_base`."""
        self.model = model
        self._dimensions = dimensions
        self._adapters: dict[str, tuple[Path, int]] = {}
        self._peft: Any = None
        self._active: str | None = None
        """Adapter whose layers take part now; None: the base alone."""
        self._lock = threading.RLock()
        self.is_spoiled = False
        """An adapter broke off half loaded: the model must not be used any more."""

    def add_adapter(self, adapter_id: str, folder: Path) -> None:
        """Loads a LoRA, DoRA or AdaLoRA adapter beside the base, once, and again if its file changed.

        Raises:
            AdapterMismatchError: if it was made for a base of other dimensions.
            ModelBrokenError: if its files cannot be read.
            RunError: if memory does not hold it.
        """
        weights = folder / "adapter_model.safetensors"
        if not weights.is_file():
            raise ModelBrokenError(
                "The adapter {adapter} has no adapter_model.safetensors: copy it again.", adapter=adapter_id
            )
        state = (folder, weights.stat().st_mtime_ns)
        with self._lock:
            if self._adapters.get(adapter_id) == state:
                return
            check_adapter(folder, self._dimensions)
            read_json_object(folder / "adapter_config.json")
            if adapter_id in self._adapters:
                self._activate(None)
                del self._adapters[adapter_id]
                self._peft.delete_adapter(_module_name(adapter_id))
            self._load_adapter(adapter_id, folder)
            self._adapters[adapter_id] = state

    def _load_adapter(self, adapter_id: str, folder: Path) -> None:
        peft = peft_library()
        from safetensors import SafetensorError

        name = _module_name(adapter_id)
        try:
            with memory_for_a_model(), warnings.catch_warnings():
                # What peft calls is deprecated in transformers: nothing that a visitor could do about it.
                warnings.simplefilter("ignore", FutureWarning)
                if self._peft is None:
                    self._peft = peft.PeftModel.from_pretrained(self.model.model, folder, adapter_name=name)
                else:
                    self._peft.load_adapter(folder, adapter_name=name)
        except RunError:
            self.is_spoiled = True
            raise
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
            self.is_spoiled = True
            raise ModelBrokenError(
                "The adapter {adapter} cannot be loaded ({reason}): train or copy it again.",
                adapter=adapter_id,
                reason=first_line(error),
            ) from error
        self._peft.eval()
        self._peft.base_model.disable_adapter_layers()
        self._active = None

    def merge(self, adapter_id: str) -> None:
        """Folds an adapter's matrices into the weights, for good; no adapter is left beside them."""
        with self._lock:
            self._activate(adapter_id)
            self.model.model = self._peft.merge_and_unload(adapter_names=[_module_name(adapter_id)])
            self._peft = None
            self._active = None
            self._adapters.clear()

    @contextmanager
    def using(self, adapter_id: str | None) -> Iterator[TransformersModel]:
        """The model with one adapter active, or none, until the block ends; others wait for it."""
        import torch

        with self._lock, torch.inference_mode():
            self._activate(adapter_id)
            yield self.model

    def _activate(self, adapter_id: str | None) -> None:
        """Switches only if need be: it takes milliseconds, and a recording asks for each window."""
        if adapter_id == self._active:
            return
        if adapter_id is None:
            self._peft.base_model.disable_adapter_layers()
        else:
            self._peft.base_model.enable_adapter_layers()
            self._peft.set_adapter(_module_name(adapter_id))
        self._active = adapter_id


def load_base(folder: Path, *, device: str = "auto", precision: str = "auto", threads: int = 0) -> LoadedBase:
    """Loads a Whisper from a folder: float32 on a CPU; on a GPU bfloat16 where it has that, else float16.

    `precision` may be float32, float16, bfloat16, or int8 and int4 of bitsandbytes. `threads` above 0 sets
    torch's threads of this process.

    Raises:
        ConfigError: if the device is not there.
        ModelBrokenError: if the folder cannot be loaded.
    """
    import torch
    from safetensors import SafetensorError

    transformers = transformers_library()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = torch_device(device)
    if threads > 0:
        torch.set_num_threads(threads)
    dimensions = ModelDimensions.from_config(read_json_object(folder / "config.json"))
    check_window(folder, dimensions)
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            folder, use_safetensors=True, local_files_only=True, **_weights(precision, place)
        )
        whole = TransformersModel.of(model.eval(), folder)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelBrokenError(
            "The model in {folder} cannot be loaded ({reason}): copy or download it again.",
            folder=folder,
            reason=first_line(error),
        ) from error
    if precision not in BITS:
        model.to(place)
    return LoadedBase(whole, dimensions)


def _weights(precision: str, place: str) -> dict[str, Any]:
    """What `from_pretrained` calls the precision."""
    import torch

    if bits := BITS.get(precision):
        peft_library()
        dtype = usual_dtype(place)
        return {"quantization_config": quantized(bits, dtype), "device_map": {"": place}, "dtype": dtype}
    return {"dtype": usual_dtype(place) if precision == "auto" else getattr(torch, precision)}


def quantized(bits: str, dtype: Any) -> Any:
    """How bitsandbytes holds a base in `8bit` or `4bit` that computes in a `dtype` of torch: alike where an
    adapter is trained beside it and where it is heard.
    """
    make = transformers_library().BitsAndBytesConfig
    if bits == "8bit":
        return make(load_in_8bit=True)
    return make(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=True,
    )


def _module_name(adapter_id: str) -> str:
    """Adapters are modules inside the model, and the name of a module has no dot."""
    return adapter_id.replace(".", "·")
