"""What runs take on the disk."""

import subprocess
import sys
from pathlib import Path

from studio.runs.disk import checkpoints_bytes
from studio.training.run_dir import RunDir

COME_AND_GO = """
import shutil, sys
from pathlib import Path
folders = [Path(sys.argv[1], f"checkpoint-{number}") for number in range(2, 40)]
print("begun", flush=True)
while True:
    for folder in folders:
        (folder / "inner").mkdir(parents=True)
    for folder in folders:
        shutil.rmtree(folder)
"""


def test_checkpoints_are_counted_while_a_worker_removes_some(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    kept = run.checkpoints / "checkpoint-1" / "weights.bin"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(bytes(1000))
    command = [sys.executable, "-c", COME_AND_GO, str(run.checkpoints)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
        assert worker.stdout and worker.stdout.readline() == b"begun\n"
        try:
            sizes = {checkpoints_bytes(run) for _ in range(5000)}
        finally:
            worker.kill()
    assert sizes == {1000}
