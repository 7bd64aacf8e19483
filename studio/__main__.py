# PYTHON_ARGCOMPLETE_OK
"""`python -m studio COMMAND`, and `whisper-studio COMMAND` where the package is installed."""

import sys

from studio.process_exit import leave, needs_packages

with needs_packages():
    from studio.cli import main as cli
    from studio.lazy_imports import collect_seldom
    from studio.settings import Settings, shell_asks


def main() -> None:
    """Runs the command and ends the process with its exit code."""
    if shell_asks():
        from studio.cli.completion import answer

        answer(Settings.from_env())
    collect_seldom()
    leave(cli.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
