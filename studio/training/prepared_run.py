"""What an attempt has loaded and checked before training begins."""

from dataclasses import dataclass
from pathlib import Path

from studio.registry.spec import ModelSpec
from studio.training.adapters import Base, Precision
from studio.training.data.clips import TrainingData
from studio.training.data.collator import FeatureSource
from studio.training.data.replay import Windows
from studio.training.data.sources import SourceData
from studio.training.memory_watch import MemoryWatch
from studio.training.short_audio.teacher_states import TeacherStates


@dataclass(frozen=True)
class PreparedRun:
    """What training needs, loaded and checked."""

    spec: ModelSpec
    base_path: Path
    base: Base
    source: SourceData
    data: TrainingData
    features: FeatureSource
    precision: Precision
    memory: MemoryWatch
    teacher: TeacherStates | None = None
    """What the base makes of the clips, where the run is to learn that."""
    windows: Windows | None = None
    """What is rehearsed."""

    @property
    def fingerprint(self) -> str:
        """Of the clips, so that processes can compare theirs."""
        return f"{self.source.data_hash[:16]} ({len(self.data.train)} + {len(self.data.evaluation)} clips)"
