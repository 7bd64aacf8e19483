"""The page's script tells a component how its event stands only when that has changed.

Gradio tells every component that any event has ever filled, at each message of any event; for each it looks
through the tree of all components, and asks it for what it holds. With hundreds of components that is more
than everything else that the page does: a tenth of a second for each message.
"""

from pathlib import Path

from gradio.route_utils import BUILD_PATH_LIB
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_SCRIPTS = "Blocks-*.js"
_TELLS_ALL = (
    "async update_loading_stati_state(){await Promise.all(Object.entries(this.loading_stati.current).map("
)
_TELLS_CHANGED = (
    "async update_loading_stati_state(){const told=this.told_stati??={};"
    "await Promise.all(Object.entries(this.loading_stati.current).filter(([id,now])=>{"
    "const before=told[id];told[id]=now;"
    "return!before||Object.keys({...before,...now}).some((key)=>before[key]!==now[key])}).map("
)


def quick_updates() -> list[Route]:
    """What answers in place of Gradio's file; nothing if there is none that is written as expected."""
    scripts = {path.name: path.read_text("utf-8") for path in Path(BUILD_PATH_LIB).glob(_SCRIPTS)}
    return [_script(name, text) for name, text in scripts.items() if text.count(_TELLS_ALL) == 1]


def _script(name: str, text: str) -> Route:
    body = text.replace(_TELLS_ALL, _TELLS_CHANGED)

    async def answer(_request: Request) -> Response:
        return Response(body, media_type="text/javascript")

    return Route(f"/assets/{name}", answer, methods=["GET"])
