"""Gradio's page, built in fewer steps.

Each component goes through the targets of all events to find its own: hundreds of components, hundreds of
events, in one profile 0.9 of the 3.3 seconds that scripts took while the page opened. Now the events of all
are gathered once. What is not written as expected stays as Gradio wrote it.
`tests/benchmarks/page.py` compares both.
"""

from pathlib import Path

from gradio.route_utils import BUILD_PATH_LIB
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SCRIPTS = "core-*.js"
BEFORE = (
    "find_attached_events(e,t){let n=t.filter(t=>t.targets.find(([t])=>t===e.id)).map(t=>{"
    "let n=t.targets.find(([t])=>t===e.id);return n?n[1]:null}).filter(Boolean);"
)
AFTER = (
    "find_attached_events(e,t){if(this.gathered_from!==t){"
    "this.gathered_from=t;this.gathered=new Map();"
    "for(const event of t){const seen=new Set();for(const[id,name]of event.targets)"
    "if(!seen.has(id)){seen.add(id);if(name)"
    "this.gathered.set(id,[...(this.gathered.get(id)??[]),name])}}}"
    "let n=this.gathered.get(e.id)??[];"
)


def quick_page() -> list[Route]:
    """What answers in place of Gradio's file; nothing if there is none that is written as expected."""
    scripts = {path.name: path.read_text(encoding="utf-8") for path in Path(BUILD_PATH_LIB).glob(SCRIPTS)}
    return [
        _script(name, text.replace(BEFORE, AFTER))
        for name, text in scripts.items()
        if text.count(BEFORE) == 1
    ]


def _script(name: str, body: str) -> Route:
    async def answer(_request: Request) -> Response:
        return Response(body, media_type="text/javascript")

    return Route(f"/assets/{name}", answer, methods=["GET"])
