"""The page's scripts, as Gradio wrote them but for a few places."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.ui import quick_page


def test_gradios_own_scripts_are_sent_with_a_few_changes() -> None:
    sent = {}
    for route in quick_page.quick_page():
        answer = TestClient(Starlette(routes=[route])).get(route.path)
        assert answer.headers["content-type"].startswith("text/javascript")
        sent[Path(route.path).name] = answer.text
    assert len(sent) == len(quick_page.CHANGES)
    for name, text in sent.items():
        changes = next(
            changes for pattern, changes in quick_page.CHANGES.items() if Path(name).match(pattern)
        )
        for before, after in changes:
            assert before not in text
            text = text.replace(after, before)
        assert text == Path(quick_page.BUILD_PATH_LIB, name).read_text("utf-8")


def test_a_script_that_is_written_in_another_way_is_left_to_gradio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("core-other.js", "Blocks-other.js"):
        (tmp_path / name).write_text("class Other {}", "utf-8")
    monkeypatch.setattr(quick_page, "BUILD_PATH_LIB", str(tmp_path))
    assert quick_page.quick_page() == []
