"""What the page's process does beside serving."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from studio.messages import Message
from studio.serving.ports import why_taken
from studio.serving.server import return_freed_memory
from studio.translation import said
from tests.studio_process import ROOT


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


def test_a_port_that_is_taken_is_refused_before_gradio_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from studio.cli.main import main; words = sys.argv[1:]; "
        "print(main(words), 'gradio' in sys.modules, 'torch' in sys.modules)"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = ("app", "--host", "127.0.0.1", "--port", str(server.getsockname()[1]))
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=ROOT,
            env={**os.environ, "STUDIO_HOME": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
        )
    assert done.stdout.split() == ["2", "False", "False"] and "set GRADIO_SERVER_PORT" in done.stderr


def test_why_a_port_is_none_is_said_in_the_visitors_language() -> None:
    reason = why_taken("127.0.0.1", 70_000)
    assert isinstance(reason, Message) and said(reason, "zh-TW") == "連接埠為 1 到 65535"
