"""`python -m studio.memory.trace.worker`: a plan and dimensions as JSON on stdin, the trace on stdout."""

import contextlib
import gc
import json
import logging
import os
import sys
import warnings
from typing import Any, TextIO

from studio.memory.plan import TrainingPlan
from studio.process_exit import leave
from studio.registry.spec import ModelDimensions


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The trace as JSON, or `error` with the reason why there is none."""
    values = question["plan"]
    plan = TrainingPlan(**{**values, "target_modules": tuple(values["target_modules"])})
    _hide_what_is_not_called(plan)
    import torch

    from studio.memory.trace.step import trace_step

    torch.set_num_threads(1)
    try:
        return trace_step(plan, ModelDimensions(**question["dimensions"])).to_json()
    except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}


def _hide_what_is_not_called(plan: TrainingPlan) -> None:
    """PEFT imports at length whatever it finds; half a second of it serves nothing here."""
    is_called = plan.quantization != "none" or "bnb" in plan.optimizer
    if not is_called and "bitsandbytes" not in sys.modules:
        sys.modules["bitsandbytes"] = None  # type: ignore[assignment]


@contextlib.contextmanager
def _stdout_for_the_answer() -> Any:
    """What libraries print goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        os.dup2(2, 1)
        yield stream


def main() -> None:
    """Reads one question, writes one answer."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    gc.disable()  # a short life, in which collecting takes half a second and frees next to nothing
    question = json.load(sys.stdin)
    stream: TextIO
    with _stdout_for_the_answer() as stream:
        json.dump(answer(question), stream)


if __name__ == "__main__":
    main()
    leave()
