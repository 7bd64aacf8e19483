"""Make the demo model, the demo speech, or the passages: `python -m assets.make_demo WHAT`."""

import argparse
import os
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent


def main() -> None:
    """Read the command line and make what it names."""
    parser = argparse.ArgumentParser(prog="python -m assets.make_demo", description=__doc__)
    parser.add_argument("what", choices=("model", "speech", "passages", "measure"))
    parser.add_argument("--folder", type=Path, help="where to write; default: the folder in assets/")
    parser.add_argument("--scale", type=float, default=1.0, help="share of clips and steps, for a quick try")
    parser.add_argument(
        "--first-stage", type=int, default=1, help="go on with the model in the folder from here"
    )
    parser.add_argument("--clips", type=int, default=120, help="held-out clips of each kind to measure with")
    arguments = parser.parse_args()
    if arguments.what == "speech":
        from .samples import write_samples
        from .speech import write_domain

        folder = arguments.folder or ASSETS / "demo-speech"
        write_domain(folder)
        write_samples(folder / "samples")
        return
    if arguments.what == "passages":
        from .passages import write_passages

        write_passages(arguments.folder or ASSETS / "passages")
        return
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    folder = arguments.folder or ASSETS / "demo-whisper"
    if arguments.what == "model":
        from .stages import STAGES
        from .train import train_model

        stages = [stage.scaled(arguments.scale) for stage in STAGES]
        train_model(folder, stages, first_stage=arguments.first_stage)
    from .report import measure_all

    measure_all(folder, arguments.clips)


if __name__ == "__main__":
    main()
