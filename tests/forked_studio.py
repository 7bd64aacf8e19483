"""`python -m tests.forked_studio SOCKET [COMMAND …]`: `python app.py`, or a command, with forked workers:
see `forking.py`.

Processes that the server spawns read this file again: as `app.py`, it imports nothing for them.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

SECONDS_OF_THE_UNHURRIED = 2


def is_unhurried(model: Any, home: Path) -> None:
    """While `home/unhurried` is there, each look at sounds takes two seconds more: what has to be at work for
    as long as a test looks at it needs no long recording, and no processor."""
    encode = model.encode

    def looked_at(*given: Any, **named: Any) -> Any:
        if (home / "unhurried").exists():
            time.sleep(SECONDS_OF_THE_UNHURRIED)
        return encode(*given, **named)

    model.encode = looked_at


if __name__ == "__main__":
    from dataclasses import replace
    from functools import partial

    from studio.cli.main import main
    from studio.process_exit import leave
    from studio.settings import Settings
    from studio.transcription.engines.transformers import TransformersModel
    from studio.ui.serve import serve
    from tests.forking import ForkedProcess

    address, *words = sys.argv[1:]

    def settings() -> Settings:
        return replace(Settings.from_env(), popen=partial(ForkedProcess, address))

    # Those that were there before the fork know what else their files were.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    is_unhurried(TransformersModel, settings().home)
    leave(main(words, settings) if words else serve(settings()))
