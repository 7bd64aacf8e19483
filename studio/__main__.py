"""`python -m studio COMMAND`."""

import sys

from studio.cli.main import main
from studio.leaving import leave

leave(main(sys.argv[1:]))
