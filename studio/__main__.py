"""`python -m studio COMMAND`."""

import sys

from studio.cli.main import main

sys.exit(main(sys.argv[1:]))
