"""Safetensors files judged by their headers: names, shapes and whether the file is whole.

Nothing is loaded; a model of 3 GB is judged by reading a few hundred kilobytes.
"""

import math
import struct
from pathlib import Path
from typing import Any

from studio.errors import ModelBrokenError
from studio.files import parse_json, read_json

_MAX_HEADER_BYTES = 100_000_000
_DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2,
    "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Tensor name → shape of one safetensors file, checked against the file's size.

    Raises:
        ModelBrokenError: if the file is cut short, too long or not a safetensors file.
    """
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        header_bytes = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= header_bytes <= _MAX_HEADER_BYTES:
            raise _not_safetensors(path)
        if 8 + header_bytes > size_bytes:
            raise cut_short(path, size_bytes, 8 + header_bytes)
        raw = file.read(header_bytes)
    try:
        header = parse_json(raw)
        header.pop("__metadata__", None)
        shapes = {name: tuple(int(side) for side in entry["shape"]) for name, entry in header.items()}
        end = max((_end_of_tensor(entry) for entry in header.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _not_safetensors(path) from error
    expected_bytes = 8 + header_bytes + end
    if size_bytes < expected_bytes:
        raise cut_short(path, size_bytes, expected_bytes)
    if size_bytes > expected_bytes:
        raise ModelBrokenError(
            "{file} has {size} bytes where its header tells of {expected}: copy or download it again.",
            file=path.name,
            size=size_bytes,
            expected=expected_bytes,
        )
    return shapes


def read_all_shapes(folder: Path, name: str) -> dict[str, tuple[int, ...]]:
    """Shapes of `name.safetensors`, or of all shards that `name.safetensors.index.json` lists.

    Raises:
        ModelBrokenError: if a file is missing or broken.
    """
    single = folder / f"{name}.safetensors"
    if single.is_file():
        return read_shapes(single)
    index = folder / f"{name}.safetensors.index.json"
    shards = read_json_object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelBrokenError("{file} lists no weights: copy the model again.", file=index.name)
    shapes: dict[str, tuple[int, ...]] = {}
    for shard in sorted({Path(str(value)).name for value in shards.values()}):
        if not (folder / shard).is_file():
            raise ModelBrokenError(
                "{file} is missing, although {index} lists it: copy the model again.",
                file=shard,
                index=index.name,
            )
        shapes |= read_shapes(folder / shard)
    return shapes


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises:
        ModelBrokenError: if the file is missing, unreadable, or holds something else.
    """
    try:
        value = read_json(path)
    except FileNotFoundError as error:
        raise ModelBrokenError("{file} is missing: copy the model again.", file=path.name) from error
    except (OSError, ValueError) as error:
        raise ModelBrokenError(
            "{file} cannot be read as JSON: copy the model again.", file=path.name
        ) from error
    if not isinstance(value, dict):
        raise ModelBrokenError("{file} holds no JSON object: copy the model again.", file=path.name)
    return value


def _end_of_tensor(entry: dict[str, Any]) -> int:
    begin, end = (int(offset) for offset in entry["data_offsets"])
    width = _DTYPE_BYTES.get(entry["dtype"])
    if begin < 0 or (width is not None and end - begin != width * math.prod(entry["shape"])):
        raise ValueError("offsets do not match the shape")
    return end


def _not_safetensors(path: Path) -> ModelBrokenError:
    return ModelBrokenError("{file} is not a safetensors file: copy or download it again.", file=path.name)


def cut_short(path: Path, size_bytes: int, expected_bytes: int) -> ModelBrokenError:
    """What is said of a file that should be longer."""
    return ModelBrokenError(
        "{file} is cut short ({size} of {expected} bytes): copy or download it again.",
        file=path.name,
        size=size_bytes,
        expected=expected_bytes,
    )
