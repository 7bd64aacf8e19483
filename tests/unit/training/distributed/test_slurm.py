"""The Slurm script: bash reads it, and each machine starts the run that was meant."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from studio.options.arguments import parse_training_arguments
from studio.options.training import TrainingConfig
from studio.training.distributed.slurm import job_name, slurm_script

STAND_INS = {
    "scontrol": '#!/bin/sh\nprintf "node-a\\nnode-b\\n"\n',
    "srun": '#!/bin/sh\nshift\nSLURM_NODEID=1 exec "$@"\n',
    "python-on-node": '#!/bin/sh\nprintf "%s\\n" "$STUDIO_HOME" "$STUDIO_WORKING_DIR" "$@"\n',
}


def run_on_node(script: str, folder: Path) -> list[str]:
    """Runs the script with stand-ins for Slurm, as node 1 of two would; what it starts, in words."""
    for name, content in STAND_INS.items():
        (folder / name).write_text(content, encoding="utf-8")
        (folder / name).chmod(0o755)
    path = folder / "job.slurm"
    path.write_text(script, encoding="utf-8")
    assert subprocess.run(["bash", "-n", path], capture_output=True).returncode == 0
    job = {"SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_ID": "31", "PATH": f"{folder}:{os.defpath}"}
    done = subprocess.run(["bash", path], env=job, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_machine_starts_the_run_with_its_own_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python-on-node"))
    config = TrainingConfig(
        base_model="small",
        train_data="/data/it's $HOME.jsonl",
        num_processes=8,
        num_machines=2,
        main_process_ip="10.0.0.1",
        sharding="fsdp",
        run_name="my run",
    )
    script = slurm_script(config, Path("/shared/$studio"), Path("/shared/`lists`"))
    home, working_dir, *words = run_on_node(script, tmp_path)
    assert (home, working_dir) == ("/shared/$studio/machines/1", "/shared/`lists`")
    assert words[:3] == ["-m", "studio", "train"] and "--resume" in words
    words.remove("--resume")
    started, notes = parse_training_arguments(words[3:])
    assert notes == []
    assert started == TrainingConfig(
        **{
            **vars(config),
            "machine_rank": 1,
            "main_process_ip": "node-a",
            "main_process_port": 20031,
            "run_name": "my-run",
        }
    )


def test_the_job_asks_for_a_gpu_a_process() -> None:
    config = TrainingConfig(num_processes=8, num_machines=2, main_process_ip="x")
    script = slurm_script(config, Path("/shared"), Path("/shared"))
    asked = dict(
        line.removeprefix("#SBATCH --").split("=", 1)
        for line in script.splitlines()
        if line.startswith("#SBATCH")
    )
    assert (asked["nodes"], asked["gpus-per-node"], asked["ntasks-per-node"]) == ("2", "4", "1")
    assert asked["job-name"] == job_name(TrainingConfig()) == "demo-lora"
    assert shlex.split(asked["output"]) == ["demo-lora-%j.log"]
