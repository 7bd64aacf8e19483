"""Whisper Studio: `python app.py` opens the page."""

import sys

from studio.ui.serve import main

if __name__ == "__main__":
    sys.exit(main())
