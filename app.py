"""Whisper Studio: `python app.py` opens the page, as `python -m studio app` does."""

import sys

from studio.process_exit import leave, needs_packages

with needs_packages():
    from studio.cli import main as cli
    from studio.lazy_imports import collect_seldom

if __name__ == "__main__":
    collect_seldom()
    leave(cli.main(["app", *sys.argv[1:]]))
