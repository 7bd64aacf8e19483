"""`python -m studio COMMAND`."""

import sys

from studio.cli.main import main
from studio.process_exit import leave

leave(main(sys.argv[1:]))
