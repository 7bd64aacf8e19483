"""What the page's process does beside serving."""

import os
import sys

import numpy as np
import psutil
import pytest

from studio.serving.server import return_freed_memory


@pytest.mark.skipif(sys.platform != "linux", reason="glibc keeps freed memory and gives it back when asked")
def test_memory_that_was_freed_between_pieces_in_use_goes_back_to_the_system() -> None:
    process = psutil.Process(os.getpid())
    pieces = [np.ones(60_000, np.uint8) for _ in range(2000)]
    kept = pieces[::100]
    full = process.memory_info().rss
    del pieces
    return_freed_memory()
    assert full - process.memory_info().rss > 50 * 2**20
    assert all(piece.all() for piece in kept)
