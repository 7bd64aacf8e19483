"""A run as a Slurm job: a script that starts the same command on each machine of the job."""

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from studio.options.arguments import command_line
from studio.options.training import TrainingConfig
from studio.settings import PROJECT_ROOT

_SCRIPT = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={machines}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={processes}
#SBATCH --cpus-per-task={cores}
#SBATCH --time=24:00:00
#SBATCH --signal=INT@120
#SBATCH --output={name}-%j.log

# Submit this file with sbatch; add what your cluster asks for (partition, account, modules) above or here.
# Two minutes before its time is over the job saves a checkpoint: submit it again, and the run goes on.
set -euo pipefail
export PYTHONPATH={root}"${{PYTHONPATH:+:$PYTHONPATH}}"
export STUDIO_HOME="${{STUDIO_HOME:-{home}}}"
export STUDIO_WORKING_DIR="${{STUDIO_WORKING_DIR:-{working_dir}}}"
main_process_ip=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
main_process_port=$((20000 + SLURM_JOB_ID % 20000))

# Machine 0 keeps the run and the model; the others have a folder each for their part of the record.
srun --kill-on-bad-exit=0 bash -c '
  if [ "$SLURM_NODEID" != 0 ]; then export STUDIO_HOME="$STUDIO_HOME/machines/$SLURM_NODEID"; fi
  exec "$@" --machine_rank "$SLURM_NODEID"
' studio {command} \\
  --resume --main_process_ip "$main_process_ip" --main_process_port "$main_process_port"
"""


def slurm_script(config: TrainingConfig, home: Path, working_dir: Path) -> str:
    """The script of a job with `num_machines` nodes and a process a GPU on each.

    `config` has absolute paths; `home` is the studio's folder, on a disk that all nodes see, as is
    `working_dir`, where sounds are looked for that are not beside their list.
    """
    name = job_name(config)
    # Several machines demand an address; the job gives the real one.
    neutral = replace(config, run_name=name, machine_rank=0, main_process_ip="0", main_process_port=29500)
    words = shlex.split(command_line(neutral))
    at = words.index("--main_process_ip")
    command = [sys.executable, *words[1:at], *words[at + 2 :]]
    return _SCRIPT.format(
        name=name,
        machines=config.num_machines,
        processes=config.processes_per_machine,
        cores=config.processes_per_machine * (2 + config.dataloader_num_workers),
        root=shlex.quote(str(PROJECT_ROOT)),
        home=_in_quotes(home),
        working_dir=_in_quotes(working_dir.absolute()),
        command=shlex.join(command),
    )


def _in_quotes(path: Path) -> str:
    """For bash, within double quotes and the braces of a variable."""
    return re.sub(r'([\\"$`}])', r"\\\1", str(path))


def job_name(config: TrainingConfig) -> str:
    """The run's name, by which the next job finds it again, in letters that Slurm takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", config.usual_name).strip("-.")[:60] or "whisper"
