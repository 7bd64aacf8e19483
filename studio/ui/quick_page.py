"""Gradio's page, built and kept up to date in fewer steps.

With each message of any event, every component that any event has ever filled is told how its event stands:
it is looked for in the tree of all components, and asked for what it holds. Now only those are told for which
that has changed. And when the page is built, each component goes through the targets of all events to find
its own: hundreds of components, hundreds of events; now the events of all are gathered once. Whoever gives a
component something new looks for it through the whole tree; now the way to it is remembered, and gone again
where it still leads there. The seconds that an event takes are counted ten times a second, and no longer once
what shows them is gone; Gradio counts on with every frame for as long as the page is open, which keeps the
processor awake beside a training. And a link that is followed is not lost: the
browser ends the page's connections as soon as one leaves, and while the server is still to answer, Gradio
would load the page again. What is not written as expected stays as Gradio wrote it.
`tests/benchmarks/page.py` measures it.
"""

from pathlib import Path

from gradio.route_utils import BUILD_PATH_LIB
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

CHANGES = {
    "Blocks-*.js": [
        (
            "async update_loading_stati_state(){await Promise.all("
            "Object.entries(this.loading_stati.current).map(",
            "async update_loading_stati_state(){const told=this.told_stati??={};"
            "await Promise.all(Object.entries(this.loading_stati.current).filter(([id,now])=>{"
            "const before=told[id];told[id]=now;"
            "return!before||Object.keys({...before,...now}).some((key)=>before[key]!==now[key])}).map(",
        ),
        (
            "(e===`connected`||e===`changed`)&&(clearInterval(E),E=null,window.location.reload())",
            "(e===`connected`||e===`changed`)&&!(performance.now()<window.leavesUntil)"
            "&&(clearInterval(E),E=null,window.location.reload())",
        ),
    ],
    "core-*.js": [
        (
            "find_attached_events(e,t){let n=t.filter(t=>t.targets.find(([t])=>t===e.id)).map(t=>{"
            "let n=t.targets.find(([t])=>t===e.id);return n?n[1]:null}).filter(Boolean);",
            "find_attached_events(e,t){if(this.gathered_from!==t){"
            "this.gathered_from=t;this.gathered=new Map();"
            "for(const event of t){const seen=new Set();for(const[id,name]of event.targets)"
            "if(!seen.has(id)){seen.add(id);if(name)"
            "this.gathered.set(id,[...(this.gathered.get(id)??[]),name])}}}"
            "let n=this.gathered.get(e.id)??[];",
        ),
        (
            "function Z(e,t){if(e.id===t)return e;"
            "if(e.children)for(let n of e.children){let e=Z(n,t);if(e)return e}return null}",
            "function Z(root,wanted){const ways=Z.ways??=new Map();"
            "const go=()=>{const way=ways.get(wanted);if(!way)return null;"
            "let node=root;for(const at of way)node=node?.children?.[at];"
            "return node?.id===wanted?node:null};"
            "const note=(node,way)=>{ways.set(node.id,way);"
            "const{children}=node;if(children)children.forEach((child,at)=>note(child,[...way,at]))};"
            "const known=go();if(known)return known;note(root,[]);return go()}",
        ),
    ],
    "statustracker-*.js": [
        (
            "function ze(){me(()=>{F(Pe,(performance.now()-w(de))/1e3),W&&ze()})}",
            "function ze(){setTimeout(()=>{F(Pe,(performance.now()-w(de))/1e3),"
            "W&&U?.isConnected&&ze()},100)}",
        )
    ],
}
"""Files of Gradio's front end: for each change what stands there, and what takes its place."""


def quick_page() -> list[Route]:
    """What answers in place of Gradio's files."""
    routes = []
    for name, changes in CHANGES.items():
        for path in Path(BUILD_PATH_LIB).glob(name):
            written = text = path.read_text(encoding="utf-8")
            for before, after in changes:
                text = text.replace(before, after) if written.count(before) == 1 else text
            if text != written:
                routes.append(_script(path.name, text))
    return routes


def _script(name: str, body: str) -> Route:
    async def answer(_request: Request) -> Response:
        """The script."""
        return Response(body, media_type="text/javascript")

    return Route(f"/assets/{name}", answer, methods=["GET"])
