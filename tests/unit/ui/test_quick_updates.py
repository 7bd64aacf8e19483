"""The page's script, as Gradio wrote it but for one place."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from studio.ui import quick_updates


def test_gradios_own_script_is_sent_with_the_change() -> None:
    (route,) = quick_updates.quick_updates()
    sent = TestClient(Starlette(routes=[route])).get(route.path)
    assert sent.headers["content-type"].startswith("text/javascript")
    original = Path(quick_updates.BUILD_PATH_LIB, Path(route.path).name).read_text("utf-8")
    before, changed, after = sent.text.partition("const told=this.told_stati??={};")
    assert changed and original.startswith(before.removesuffix(changed))
    assert original.endswith(after[after.index(".map(") :]) and "update_state_cb" in after


def test_a_script_that_is_written_in_another_way_is_left_to_gradio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Blocks-other.js").write_text("class Other {}", "utf-8")
    monkeypatch.setattr(quick_updates, "BUILD_PATH_LIB", str(tmp_path))
    assert quick_updates.quick_updates() == []
