"""Whisper Studio: `python app.py` opens the page, as `python -m studio app` does."""

import sys

from studio.cli import main as cli

if __name__ == "__main__":
    sys.exit(cli.main(["app", *sys.argv[1:]]))
