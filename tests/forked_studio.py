"""`python -m tests.forked_studio SOCKET`: `python app.py` with workers that are forked, see `forking.py`.

Processes that the server spawns read this file again: as `app.py`, it imports nothing for them.
"""

import sys

if __name__ == "__main__":
    from dataclasses import replace
    from functools import partial

    from studio.settings import Settings
    from studio.ui.serve import serve
    from tests.forking import ForkedProcess

    sys.exit(serve(replace(Settings.from_env(), popen=partial(ForkedProcess, sys.argv[1]))))
