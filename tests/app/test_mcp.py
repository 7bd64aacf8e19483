"""The studio as tools of the Model Context Protocol, asked by a client of that protocol."""

import base64
import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from studio.settings import DEMO_SPEECH
from tests.conftest import RunStudio
from tests.event_loop import run_in_loop
from tests.studio_process import StudioProcess

HAS_MCP = find_spec("mcp") is not None
TOOLS = {"estimate", "fit", "explain_oom", "doctor", "transcribe", "probe", "trace", "models", "runs"}


async def talk(
    url: str, calls: list[tuple[str, dict[str, Any]]], headers: dict[str, str] | None = None
) -> tuple[dict[str, Any], list[Any]]:
    """Tools by name, and the answers to some calls, as a client sees them."""
    mcp: Any = pytest.importorskip("mcp")
    client: Any = pytest.importorskip("mcp.client.streamable_http")
    async with (
        httpx.AsyncClient(headers=headers, timeout=300) as caller,
        client.streamable_http_client(f"{url}/gradio_api/mcp/", http_client=caller) as (reading, writing, _),
        mcp.ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        return tools, [await session.call_tool(name, values) for name, values in calls]


@pytest.mark.skipif(not HAS_MCP, reason='the package mcp is not installed: pip install "gradio[mcp]"')
def test_an_assistant_finds_every_tool_explained_and_gets_answers_in_json(
    start_studio: Callable[..., StudioProcess],
) -> None:
    studio = start_studio(extra={"STUDIO_MCP": "1"})
    speech = DEMO_SPEECH / "samples" / "kitchen-light.flac"
    sound = base64.b64encode(speech.read_bytes()).decode()
    calls = [
        ("estimate", {"base_model": "small", "gpu": "RTX 4090"}),
        ("explain_oom", {"text": "CUDA out of memory. Tried to allocate 2.00 GiB"}),
        ("fit", {"gpu": "Voodoo 2"}),
        ("runs", {"limits": 3}),
        ("transcribe", {"audio": f"data:audio/flac;base64,{sound}", "model": "demo"}),
        ("transcribe", {"audio": "http://nowhere.invalid/a.flac"}),
    ]
    tools, (estimate, explained, refused, misspelt, heard, unreachable) = run_in_loop(talk(studio.url, calls))
    assert tools.keys() >= TOOLS
    unexplained = [
        f"{tool.name}({name})"
        for tool in tools.values()
        for name, schema in tool.inputSchema["properties"].items()
        if not schema.get("description")
    ]
    assert unexplained == [] and all(tool.description for tool in tools.values())
    sized = json.loads(estimate.content[0].text)
    assert sized["gpu"].endswith("RTX 4090") and sized["verdict"] == "fits"
    assert json.loads(explained.content[0].text)["asked_bytes"] == 2 * 2**30
    assert refused.isError and "There is no GPU 'Voodoo 2'" in refused.content[0].text
    assert misspelt.isError and "runs has no argument 'limits': it takes limit." in misspelt.content[0].text
    assert not heard.isError, studio.log()
    assert json.loads(heard.content[0].text)["text"]
    assert "http://nowhere.invalid/a.flac cannot be fetched: give" in unreachable.content[0].text


@pytest.mark.skipif(HAS_MCP, reason="the package mcp is installed")
def test_without_its_package_the_variable_is_answered_with_what_to_install(run_process: RunStudio) -> None:
    done = run_process("app", extra={"STUDIO_MCP": "1"})
    assert done.returncode == 2 and 'pip install "gradio[mcp]"' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
