"""Logs as shells write them, in a file or on standard input."""

import codecs
import io
import sys
from pathlib import Path

import pytest

from studio.cli.explain_oom import run
from studio.memory.oom_text import LONGEST_TEXT
from studio.settings import Settings

MESSAGE = (
    "第 1 轮\r\nRuntimeError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 1; 10.76 GiB total "
    "capacity; 9.58 GiB already allocated; 15.56 MiB free; 64.00 MiB cached)\r\n"
)
LOGS = {
    "utf-8": MESSAGE.encode(),
    "utf-8 with a mark": codecs.BOM_UTF8 + MESSAGE.encode(),
    "powershell": codecs.BOM_UTF16_LE + MESSAGE.encode("utf-16-le"),
    "big endian": codecs.BOM_UTF16_BE + MESSAGE.encode("utf-16-be"),
    "no mark": MESSAGE.encode("utf-16-le"),
    "cut within a character": codecs.BOM_UTF16_LE + MESSAGE.encode("utf-16-le") + b"x",
    "emptied while it was written": bytes(50_001) + MESSAGE.encode(),
    "long": codecs.BOM_UTF16_LE + ("步" * 3 * LONGEST_TEXT + MESSAGE).encode("utf-16-le"),
    "long, of odd length": codecs.BOM_UTF16_LE
    + ("步" * 3 * LONGEST_TEXT + MESSAGE).encode("utf-16-le")
    + b"x",
}


@pytest.mark.parametrize("data", LOGS.values(), ids=LOGS)
def test_a_log_is_read_in_whatever_encoding_the_shell_wrote_it(
    data: bytes,
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    for file in (str(log), "-"):
        assert run([file], settings) == 0
        assert capsys.readouterr().out.startswith("50.0 MiB were asked for on GPU 1")


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xfe", b"\x00\xd8", bytes(9)])
def test_a_log_of_nothing_says_nothing_of_memory(data: bytes, settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(data)
    assert run([str(log)], settings) == 1


def test_the_command_of_a_run_that_fits_trains_on_a_list_of_ones_own(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(MESSAGE, encoding="utf-8")
    run([str(log), "--base_model", "small"], settings)
    assert "--train_data my.jsonl" in capsys.readouterr().out
    run([str(log), "--base_model", "small", "--train_data", "mine.csv"], settings)
    assert "--train_data mine.csv" in capsys.readouterr().out
