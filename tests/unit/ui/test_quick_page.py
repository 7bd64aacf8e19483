"""The page's scripts, as Gradio wrote them but for three places."""

import shutil
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.ui import quick_page


def test_gradios_own_scripts_are_sent_with_the_changes() -> None:
    routes = quick_page.quick_page()
    assert len(routes) == len(quick_page.CHANGES), "this version of Gradio is written as expected"
    client = TestClient(Starlette(routes=routes))
    for route, changes in zip(routes, quick_page.CHANGES.values(), strict=True):
        sent = client.get(route.path)
        assert sent.headers["content-type"].startswith("text/javascript")
        text, original = sent.text, Path(quick_page.BUILD_PATH_LIB, Path(route.path).name).read_text("utf-8")
        for before, after in changes:
            assert before not in text and text.count(after) == 1
            text = text.replace(after, before)
        assert text == original


def test_if_one_script_is_written_in_another_way_all_are_left_to_gradio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in Path(quick_page.BUILD_PATH_LIB).glob("core-*.js"):
        shutil.copy(path, tmp_path)
    (tmp_path / "Blocks-other.js").write_text("class Other {}", "utf-8")
    monkeypatch.setattr(quick_page, "BUILD_PATH_LIB", str(tmp_path))
    assert quick_page.quick_page() == []
