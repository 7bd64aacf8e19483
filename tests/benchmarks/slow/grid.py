"""Every tab as axe-core sees it: light and dark, in each language, at a desk and on a telephone."""

from collections.abc import Callable

import pytest

from studio.translation import LOCALES
from tests.browser.conftest import TABS, OpenPage, browser, left, look, open_page, playwright, show_tab
from tests.browser.test_accessibility import AT_ONCE, ENGLISH_NAMES, faults, fill, finished_run

__all__ = ["browser", "finished_run", "left", "open_page", "playwright"]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("locale", LOCALES)
def test_axe_finds_nothing_in(
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    locale: str,
    theme: str,
) -> None:
    opened: OpenPage = request.getfixturevalue("open_page")
    found, looked = [], 0
    for tab in TABS:
        page = opened(theme=theme, locale=locale)
        page.add_style_tag(content=AT_ONCE)
        show_tab(page, tab)
        fill(page, tab)
        for width in (1366, 390):
            page.set_viewport_size({"width": width, "height": 900})
            look(page, f"{tab}-{locale}-{theme}-{width}", request)
            found += [f"{tab}, {width}: {fault}" for fault in faults(page)]
            looked += 1
        if locale.startswith("zh"):
            found += [f"{tab}: {name} is English" for name in page.evaluate(ENGLISH_NAMES)]
        page.context.close()
    record_property("views", looked)
    record_property("faults", len(found))
    assert found == []
