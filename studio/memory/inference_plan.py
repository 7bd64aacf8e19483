"""Transcribing as the calculator sees it."""

from dataclasses import dataclass

from studio.errors import ConfigError
from studio.options.checks import check_between, check_choice
from studio.options.choices import ALL_LINEAR, DTYPES, ENGINES, FASTER_WHISPER, QUANTIZATIONS, TRANSFORMERS
from studio.whisper.constants import TEXT_POSITIONS

WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 2, "int8_float32": 4, "int8_float16": 2}
"""Bytes of a number in activations and caches; int8 is of weights only."""


@dataclass(frozen=True)
class InferencePlan:
    """Everything about transcribing that decides its memory. Checked when made."""

    engine: str = TRANSFORMERS
    precision: str = "fp16"
    batch_size: int = 1
    """Windows of 30 seconds at once."""
    num_beams: int = 1
    adapter_rank: int = 0
    """Rank of an adapter beside the base; 0: none."""
    adapter_modules: tuple[str, ...] = ALL_LINEAR
    max_length: int = TEXT_POSITIONS
    """Longest text of a window, in tokens."""
    quantization: str = "none"
    """Bits of the linear layers, by bitsandbytes; of transformers alone."""
    shares_sound: bool = True
    """Whether beams share what they hear, as in the studio; transformers alone gives each a copy."""

    def __post_init__(self) -> None:
        """Refuses what cannot be computed.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        check_choice("engine", self.engine, ENGINES)
        check_choice("precision", self.precision, WIDTHS)
        check_choice("quantization", self.quantization, QUANTIZATIONS)
        for name, high in (("batch_size", 1024), ("num_beams", 32), ("max_length", TEXT_POSITIONS)):
            check_between(name, getattr(self, name), 1, high)
        for name in self.adapter_modules:
            check_choice("adapter_modules", name, ALL_LINEAR)
        if self.engine == TRANSFORMERS and self.precision not in DTYPES:
            raise ConfigError(
                "{precision} is of faster-whisper: choose that engine, or fp32, fp16 or bf16.",
                name="precision",
                precision=self.precision,
            )
        if self.engine == FASTER_WHISPER and self.quantization != "none":
            raise ConfigError(
                "faster-whisper has no {quantization} weights of bitsandbytes: give precision int8_float16.",
                name="quantization",
                quantization=self.quantization,
            )
