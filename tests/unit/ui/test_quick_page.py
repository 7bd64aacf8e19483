"""The page's script, as Gradio wrote it but for one place."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.ui import quick_page


def test_gradios_own_script_is_sent_with_the_change() -> None:
    (route,) = quick_page.quick_page()
    sent = TestClient(Starlette(routes=[route])).get(route.path)
    assert sent.headers["content-type"].startswith("text/javascript")
    original = Path(quick_page.BUILD_PATH_LIB, Path(route.path).name).read_text("utf-8")
    assert quick_page.BEFORE not in sent.text
    assert sent.text.replace(quick_page.AFTER, quick_page.BEFORE) == original


def test_a_script_that_is_written_in_another_way_is_left_to_gradio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-other.js").write_text("class Other {}", "utf-8")
    monkeypatch.setattr(quick_page, "BUILD_PATH_LIB", str(tmp_path))
    assert quick_page.quick_page() == []
