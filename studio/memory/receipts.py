"""Receipts of measurements: what was predicted for a plan, and what it took on a card. A file each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.errors import StudioError
from studio.files import read_json, write_json
from studio.memory.plan import TrainingPlan
from studio.registry.spec import ModelDimensions

RECEIPT_VERSION = 1
CPU = "cpu"


@dataclass(frozen=True)
class Receipt:
    """One measurement of two training steps."""

    created: str
    """ISO 8601 in UTC."""
    base_model: str
    plan: TrainingPlan
    dimensions: ModelDimensions
    card: str
    """Name of the GPU; `cpu` without one."""
    driver: str
    """Version of the driver; empty without a GPU."""
    versions: Mapping[str, str]
    """Library → version."""
    predicted: Mapping[str, int]
    """`tensor_bytes`, `allocated_bytes`, `reserved_bytes`, `device_bytes`, `low_bytes`, `high_bytes`."""
    measured: Mapping[str, int | None]
    """On a GPU `allocated_bytes`, `reserved_bytes`, `context_bytes`, `device_bytes`; else `tensor_bytes`.
    None is what could not be measured."""
    is_out_of_memory: bool = False
    seconds: float = 0.0
    """For both steps and the loading."""

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "schema_version": RECEIPT_VERSION,
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "plan": dict(self.plan.__dict__),
            "dimensions": dict(self.dimensions.__dict__),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Receipt":
        """What `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError, StudioError: for anything else.
        """
        if row["schema_version"] != RECEIPT_VERSION:
            raise ValueError("a receipt of another version")
        values = {name: row[name] for name in cls.__dataclass_fields__}
        plan = {**row["plan"], "target_modules": tuple(row["plan"]["target_modules"])}
        values |= {"plan": TrainingPlan(**plan), "dimensions": ModelDimensions(**row["dimensions"])}
        return cls(**values)


def keep_receipt(folder: Path, receipt: Receipt) -> Path:
    """Writes a receipt under its time, and gives back its file.

    Raises:
        StorageError: if the folder cannot be written.
    """
    stem = "".join(c if c.isalnum() else "-" for c in f"{receipt.created[:19]}-{receipt.card}").strip("-")
    numbers = range(1, 10_000)
    names = (folder / (f"{stem}.json" if n == 1 else f"{stem}-{n}.json") for n in numbers)
    path = next(path for path in names if not path.exists())
    write_json(path, receipt.to_json())
    return path


def read_receipts(folder: Path) -> tuple[Receipt, ...]:
    """All receipts, the oldest first; files that are none, or of another version, are passed over."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Receipt.from_json(read_json(path)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StudioError):
            continue
    return tuple(sorted(found, key=lambda receipt: receipt.created))
