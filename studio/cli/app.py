"""`app`: opens the page, as `python app.py` does."""

import runpy
import sys
from collections.abc import Sequence

from studio.cli.parsing import Parser
from studio.settings import PROJECT_ROOT, Settings


def parser() -> Parser:
    """No options of its own: the page is steered by STUDIO_* and Gradio's GRADIO_* variables."""
    return Parser(
        "app",
        "Open the page. GRADIO_SERVER_NAME, GRADIO_SERVER_PORT and Gradio's other variables are honoured.",
    )


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Runs `app.py` of this checkout in this process; it reads the same settings again."""
    parser().read(arguments)
    sys.argv = [str(PROJECT_ROOT / "app.py")]
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0
