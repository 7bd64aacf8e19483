"""What the page's process does beside serving."""

import os
import sys

import numpy as np
import psutil
import pytest

from studio.messages import Message
from studio.serving.server import return_freed_memory, why_taken
from studio.translation import said


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


def test_why_a_port_is_none_is_said_in_the_visitors_language() -> None:
    reason = why_taken("127.0.0.1", 70_000)
    assert isinstance(reason, Message) and said(reason, "zh-TW") == "連接埠為 1 到 65535"
