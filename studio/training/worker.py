"""The process of a run: `python -m studio.training.worker RUN_DIR`.

Reads `config.json`, trains, and leaves `result.json` last of all, whatever happened. Output goes to the
run's log; everything the page shows goes to the run's events. The libraries are loaded only when the run
is locked and listens for a stop.
"""

import logging
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from studio.errors import RunError, StudioError
from studio.files import write_json
from studio.settings import Settings
from studio.training.events import EventLog, Phase
from studio.training.outcome import Outcome
from studio.training.run_dir import RunDir
from studio.training.stop import StopRequested, StopSignal

log = logging.getLogger("studio.training")


def main(argv: list[str]) -> int:
    """Runs the worker.

    Exit code 0: finished or stopped, 1: failed, 2: no run folder, 3: another worker has the run.
    """
    if len(argv) != 1 or not RunDir(Path(argv[0])).config.is_file():
        sys.stderr.write("usage: python -m studio.training.worker RUN_DIR (a folder with config.json)\n")
        return 2
    run = RunDir(Path(argv[0]).resolve())
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s", force=True)
    stop = StopSignal(run.stop_request)
    stop.listen()
    try:
        with FileLock(run.lock, timeout=0):
            return _carry_out(run, stop)
    except Timeout:
        log.info("Another worker has this run.")
        return 3


def _carry_out(run: RunDir, stop: StopSignal) -> int:
    outcome = Outcome()
    try:
        EventLog(run.events).write("phase", phase=Phase.STARTING)
        log.info("starting")
        _quieten_libraries()
        from studio.training.attempt import Attempt

        stop.check()
        Attempt(run, Settings.from_env(), stop, outcome).carry_out()
    except StopRequested:
        outcome.state = "stopped"
        log.info("Stopped.")
    except StudioError as error:
        outcome.error = error
        log.info("Failed: %s", error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the record must be closed with a sentence
        outcome.error = _sentence(error)
        log.info("Failed: %s\n%s", outcome.error, traceback.format_exc())
    write_json(run.result, outcome.to_json(_machine()))
    return 0 if outcome.state in ("finished", "stopped") else 1


def _quieten_libraries() -> None:
    """Their bars and notices are not for the reader of a run's log."""
    warnings.simplefilter("ignore", FutureWarning)
    # AdaLoRA may leave a layer without any rank, which PEFT takes for a broken file.
    warnings.filterwarnings("ignore", message=r".*LoRA tensor\(s\) have invalid shape")
    for talkative in ("httpx", "absl", "bitsandbytes"):
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
    import transformers as typed_transformers

    transformers: Any = typed_transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _sentence(error: Exception) -> StudioError:
    from studio.training.adapters import is_out_of_memory

    if is_out_of_memory(error):
        return RunError(
            "Memory ran out: make per_device_train_batch_size smaller, turn gradient_checkpointing on, or "
            "choose a smaller model."
        )
    return RunError(
        "The run failed with {kind}: {message}. Its log has the details.",
        kind=type(error).__name__,
        message=" ".join(str(error).split())[:300] or "no message",
    )


def _machine() -> dict[str, Any]:
    import torch

    from studio.training.callback import memory_bytes

    return {
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "memory_bytes": memory_bytes(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
