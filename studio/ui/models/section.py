"""What each part of the Models tab that does something with the chosen model tells the tab."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradio.blocks import Block
from gradio.events import Dependency


@dataclass(frozen=True)
class Section:
    """A part of the tab."""

    shown: Sequence[Block]
    """What depends on the model: out of sight until one is chosen that fits."""
    told: Sequence[Block]
    """What came of it; with another model, nothing has yet."""
    done: Dependency | None = None
    """After it, there is another model, or more is known of the chosen one."""
