import io
import json
from pathlib import Path

import pytest

from studio.cli.output import ProgressLine, require_place, say, show, show_json, table
from studio.errors import StorageError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_has_columns_of_one_width_and_numbers_to_the_right() -> None:
    shown = table(("MODEL", "WER"), [("tiny", "7.1 %"), ("large-v3", "12.0 %")])
    assert shown == "MODEL        WER\ntiny       7.1 %\nlarge-v3  12.0 %"


def test_a_terminal_sees_one_line_that_changes() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    line.update("step 10 of 20")
    line.update("step 9")
    line.end()
    assert terminal.getvalue() == "\rstep 10 of 20\rstep 9       \n"


def test_a_log_is_not_flooded() -> None:
    log = io.StringIO()
    line = ProgressLine(log)
    for step in range(1000):
        line.update(f"step {step}")
    line.end()
    assert log.getvalue().splitlines() == ["step 0", "step 999"]
    line.end()
    assert len(log.getvalue().splitlines()) == 2


def test_no_text_of_others_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = "a\0b\x1b]0;mine\x07\r\x9b2J\tc\nd \u202bעברית 🙂"
    for tell in (show, say, show_json):
        tell(said)
    terminal = Terminal()
    ProgressLine(terminal).update(said)
    told = capsys.readouterr()
    assert told.err == "a\ufffdb\ufffd]0;mine\ufffd\ufffd\ufffd2J\tc\nd \u202bעברית 🙂\n"
    assert told.out.startswith(told.err) and terminal.getvalue() == f"\r{told.err[:-1]}"
    assert json.loads(told.out[len(told.err) :]) == said, "machines read what was said"
    assert "\x9b" not in told.out


def test_a_place_for_a_result_is_made_or_refused(tmp_path: Path) -> None:
    assert require_place(tmp_path / "new" / "a.json").parent.is_dir()
    with pytest.raises(StorageError, match="is a folder"):
        require_place(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        require_place(tmp_path / "file" / "a.json")
