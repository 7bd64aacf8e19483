"""Two threads that need transformers at the same moment; PEFT without what nobody calls; no packages."""

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

WITHOUT_COMPILER = """
import gc, sys
read = []
sys.addaudithook(lambda event, given: read.append(given[0]) if event == "open" else None)
from studio.lazy_imports import _compiled_when_called, peft_library
usual = gc.get_threshold()
print(peft_library().LoraConfig.__name__, "bitsandbytes" in sys.modules)
import torch
print([name for name in ("scipy", "torch._inductor.compile_fx") if name in sys.modules])
print(sum(str(path).endswith("modeling_zoedepth.py") for path in read))
own = torch.compile
with _compiled_when_called():
    double = torch.compile(dynamic=False, backend="eager")(lambda numbers: 2 * numbers)
print(gc.get_threshold() == usual, gc.get_freeze_count() > 200_000)
print(torch.compile is own, double(torch.ones(2)).tolist(), double(torch.ones(2)).tolist())
"""


def answer(code: str) -> list[str]:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_a_thread_that_comes_while_transformers_is_imported_gets_the_whole_of_it() -> None:
    assert answer(TWO_THREADS) == ["WhisperTokenizer", ""]


def test_peft_is_imported_without_what_nobody_calls_and_the_compiler_is_there_when_it_is_called() -> None:
    assert answer(WITHOUT_COMPILER) == [
        *("LoraConfig True", "[]", "1", "True True"),
        *("True [2.0, 2.0] [2.0, 2.0]", ""),
    ]


def test_a_python_without_the_packages_is_told_so_without_a_traceback() -> None:
    for begun in (["app.py"], ["-m", "studio", "train"]):
        done = subprocess.run([sys.executable, "-S", *begun], cwd=ROOT, capture_output=True, encoding="utf-8")
        assert done.returncode == 1 and done.stderr.startswith("Error: platformdirs is not installed for")
        assert done.stderr.count("\n") == 1 and "pip install -r requirements.txt" in done.stderr
