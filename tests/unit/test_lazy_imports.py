"""Two threads that need transformers at the same moment."""

import subprocess
import sys

from tests.studio_process import ROOT

TWO_THREADS = """
import importlib, sys, threading
first = threading.Thread(target=lambda: importlib.import_module("transformers"))
first.start()
while "transformers" not in sys.modules:
    pass
assert first.is_alive(), "its import is under way"
from studio.lazy_imports import transformers_library
print(transformers_library().WhisperTokenizer.__name__)
"""


def test_a_thread_that_comes_while_transformers_is_imported_gets_the_whole_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_THREADS], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.stdout.strip() == "WhisperTokenizer", done.stderr
