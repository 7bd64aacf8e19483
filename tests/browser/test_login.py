"""A studio that asks for a login: on the page, for programs, and for assistants."""

import base64
import json
import re
from collections.abc import Callable

import httpx
import pytest
from gradio_client import Client
from playwright.sync_api import Browser, expect

from tests.app.test_mcp import talk
from tests.browser.conftest import show_tab
from tests.conftest import RunStudio
from tests.event_loop import run_in_loop
from tests.studio_process import StudioProcess

NAME, PASSWORD = "ada", "difference engine"


def test_a_page_a_program_and_an_assistant_log_in(
    start_studio: Callable[..., StudioProcess], browser: Browser
) -> None:
    studio = start_studio(extra={"STUDIO_AUTH": f"{NAME}:{PASSWORD}", "STUDIO_MCP": "1"})
    assert httpx.get(f"{studio.url}/config", timeout=60).status_code == 401

    page = browser.new_context(locale="zh-CN", viewport={"width": 390, "height": 700}).new_page()
    page.goto(f"{studio.url}/?__theme=dark")
    expect(page).to_have_url(re.compile("/login.__theme=dark$"))
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.get_by_label("名称").fill(NAME)
    page.get_by_label("密码").fill("analytical engine")
    page.get_by_role("button", name="登录").click()
    expect(page.get_by_role("alert")).to_have_text("名称或密码不对。")
    expect(page.get_by_label("名称")).to_have_value(NAME)
    expect(page.get_by_label("密码")).to_be_focused()
    page.get_by_label("密码").fill(PASSWORD)
    page.get_by_label("密码").press("Enter")
    expect(page.locator("#memory-parts table")).to_be_visible(timeout=90_000)
    show_tab(page, "models")
    expect(page.locator("#models-table, table").get_by_text("demo").first).to_be_visible()

    with pytest.raises(Exception, match="Please login"):
        Client(studio.url, verbose=False)
    program = Client(studio.url, auth=(NAME, PASSWORD), verbose=False)
    assert program.predict(base_model="small", gpu="T4", api_name="/estimate")["verdict"]

    basic = {"authorization": "Basic " + base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()}
    question = [("estimate", {"base_model": "small", "gpu": "T4"})]
    _tools, (answer,) = run_in_loop(talk(studio.url, question, basic))
    assert json.loads(answer.content[0].text)["verdict"]

    page.get_by_role("button", name="退出登录").or_(page.get_by_role("link", name="退出登录")).first.click()
    expect(page).to_have_url(re.compile("/login$"))
    assert PASSWORD not in studio.log()


def test_who_would_open_the_studio_to_all_by_accident_is_told_how_to_mean_it(run_studio: RunStudio) -> None:
    done = run_studio("app", "--host", "0.0.0.0")
    assert done.returncode == 2 and "STUDIO_PUBLIC=1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
