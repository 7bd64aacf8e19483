"""`python -m studio COMMAND`, and `whisper-studio COMMAND` where the package is installed."""

import sys

from studio.cli import main as cli
from studio.process_exit import leave


def main() -> None:
    """Runs the command and ends the process with its exit code."""
    leave(cli.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
