"""Whisper Studio: `python app.py` opens the page, as `python -m studio app` does."""

import sys

from studio.cli import main as cli
from studio.lazy_imports import collect_seldom
from studio.process_exit import leave

if __name__ == "__main__":
    collect_seldom()
    leave(cli.main(["app", *sys.argv[1:]]))
