"""The page's scripts, as Gradio wrote them but for two places."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.ui import quick_page


def test_gradios_own_scripts_are_sent_with_the_changes() -> None:
    routes = quick_page.quick_page()
    assert len(routes) == len(quick_page.CHANGES), "this version of Gradio is written as expected"
    client = TestClient(Starlette(routes=routes))
    for route, (before, after) in zip(routes, quick_page.CHANGES.values(), strict=True):
        sent = client.get(route.path)
        assert sent.headers["content-type"].startswith("text/javascript")
        original = Path(quick_page.BUILD_PATH_LIB, Path(route.path).name).read_text("utf-8")
        assert before not in sent.text and sent.text.replace(after, before) == original


def test_a_script_that_is_written_in_another_way_is_left_to_gradio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Blocks-other.js").write_text("class Other {}", "utf-8")
    monkeypatch.setattr(quick_page, "BUILD_PATH_LIB", str(tmp_path))
    assert quick_page.quick_page() == []
