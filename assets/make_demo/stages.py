"""The stages that the demo model is trained in, one row each."""

import math
from dataclasses import dataclass, replace

from .dataset import Recipe


@dataclass(frozen=True)
class Stage:
    """Some steps on one mixture of batches."""

    steps: int
    rate: float
    """Highest learning rate."""
    mixture: dict[str, float]
    """Shares of batches by pool: `short`, `joined` and `long` clips, `full` for any padded to 30 seconds."""
    clips: Recipe | None = None
    """New clips and a new optimizer; None goes on with those of the stage before."""
    warmup_steps: int = 100
    falls_over: int | None = None
    """Steps of the half cosine from the highest rate to 1 % of it; None stays at the highest."""
    budgets: tuple[int, int] = (12_000, 24_000)
    """Feature frames a batch, padding included: of `short` and `joined`, of `long` and `full`."""

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        if step < self.warmup_steps:
            return self.rate * (step + 1) / self.warmup_steps
        if self.falls_over is None:
            return self.rate
        return self.rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / self.falls_over)))

    def scaled(self, share: float) -> "Stage":
        """The same stage, shorter and on fewer clips."""
        return replace(
            self,
            steps=max(1, round(self.steps * share)),
            falls_over=self.falls_over and max(1, round(self.falls_over * share)),
            clips=self.clips and self.clips.scaled(share),
        )


STAGES = (
    # What is said is learned fastest from short clips. Without some that are padded to 30 seconds the model
    # fails on every clip that is.
    Stage(
        500, 1.5e-3, {"short": 0.93, "full": 0.07}, Recipe(9000, 2400, 900, 800),
        falls_over=3000, budgets=(10_000, 10_000),
    ),
    Stage(1300, 1.5e-3, {"short": 0.9, "full": 0.1}, Recipe(9000, 2400, 900, 800)),
    Stage(
        500, 1.5e-3, {"short": 0.45, "joined": 0.25, "long": 0.14, "full": 0.16},
        warmup_steps=0, falls_over=800,
    ),
    Stage(
        1200, 1e-3, {"short": 0.62, "joined": 0.14, "long": 0.1, "full": 0.14},
        Recipe(8000, 1500, 600, 600, first=200_000), falls_over=1200,
    ),
    # Going on after a pause, in windows of many sentences, is learned last.
    Stage(
        1800, 1.2e-3, {"short": 0.3, "joined": 0.38, "long": 0.18, "full": 0.14},
        Recipe(5000, 3500, 1000, 400, first=400_000), falls_over=1800,
    ),
    Stage(
        2400, 1.2e-3, {"short": 0.36, "joined": 0.34, "long": 0.16, "full": 0.14},
        Recipe(7000, 4500, 1200, 400, first=600_000), falls_over=2400,
    ),
)  # fmt: skip
