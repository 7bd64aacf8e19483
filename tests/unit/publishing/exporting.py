"""`python -m tests.unit.publishing.exporting MODELS DEMO MINE OTHER`: an export beside another one."""

import sys
import time
from pathlib import Path

from studio.messages import Message
from studio.publishing.export import Exporter, ExportRequest
from studio.publishing.formats import USUAL_FORMAT
from studio.registry.store import ModelRegistry


def export(models: Path, demo: Path, mine: Path, other: Path, form: str = USUAL_FORMAT) -> None:
    """Tells with the file `mine` that it is at work, and writes only when there is the file `other`."""

    def tell(step: Message, share: float) -> None:
        if share or "Waiting" in str(step):
            mine.touch()
        while share > 0.4 and not other.exists():
            time.sleep(0.02)

    Exporter(ModelRegistry(models, demo=demo, hf_cache=None)).export(ExportRequest("accent", form), tell)


if __name__ == "__main__":
    export(*map(Path, sys.argv[1:]))
