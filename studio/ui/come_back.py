"""The page as its visitor had it, when it is loaded again, be it in another language.

Texts that stand on the page from the start are put in by the browser as the page is drawn, so another
language takes another page. The browser keeps what the fields hold and which tabs are open
(`assets/come_back.js`); what the server holds for the visitor, such as a transcript, goes over to their new
session. What was at work for them is begun again in another language, and otherwise not: one also loads a
page again to be rid of it.
"""

import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import gradio as gr
from gradio.blocks import Block, BlockContext, Blocks
from gradio.events import Dependency
from gradio.state_holder import SessionState

from studio.ui.shared.following import QUIET

KEEP = "studio-keep"
"""The button that the page's script presses before the page is left, and when it is out of sight."""
SESSION_BEFORE = "() => [window.comeBack.session()]"
"""What the page says of the session that it had before; nothing if it begins anew."""
_SECRET = secrets.token_bytes()
"""Of this process, as are the sessions."""
_FIELDS = (gr.Textbox, gr.Number, gr.Dropdown, gr.Radio, gr.Checkbox, gr.Audio, gr.File)


def come_back(app: Blocks) -> tuple[Callable[..., Dependency], Block]:
    """Lets the visitor come back to what they had; to be called last, while the page is built, but for what
    only programs call.

    Returns the event after which the server holds again what it held for them, and a field for
    `SESSION_BEFORE`.
    """
    groups = [block for block in app.blocks.values() if isinstance(block, gr.Tabs)]
    fields = [block for block in app.blocks.values() if _is_field(block)]
    session = gr.Textbox(visible="hidden")
    before = gr.Textbox(visible="hidden")
    keep = gr.Button(visible="hidden", elem_id=KEEP)
    ids = json.dumps([_name_panels(group) for group in groups])
    keep.click(None, [session, *fields], None, js=f"(...values) => window.comeBack.keep({ids}, ...values)")
    app.load(None, None, groups, js=f"() => window.comeBack.tabs({len(groups)})")
    app.load(None, None, fields, js=f"() => window.comeBack.values({len(fields)})")

    heirs: WeakKeyDictionary[SessionState, SessionState] = WeakKeyDictionary()

    async def take_over(old: str, request: gr.Request) -> str:
        """What the server holds for a session goes over to the one that follows it, which alone forgets it in
        time; asynchronous, as Gradio walks through what sessions hold between two answers.

        Returns the visitor's session, with a proof that they had it: others may know its name, as logs hold
        it. The page learns it only now, so that a page that is left knows a session that holds everything.
        """
        holder, following = app.state_holder, str(request.session_hash)
        own, (session, _, proof) = holder[following], old.rpartition(".")
        is_theirs = hmac.compare_digest(proof.encode(), _proof(session).encode())
        if is_theirs and session in holder:
            before = holder[session]
            while before in heirs:  # who loads the page again while it is being loaded
                before = heirs[before]
            if before is not own:
                for number, value in before.state_data.items():
                    own[number] = value
                before.state_data.clear()
                heirs[before] = own
        return f"{following}.{_proof(following)}"

    # last: what follows waits for the studio's answer
    taken: Dependency = app.load(take_over, before, session, js=SESSION_BEFORE, **QUIET)
    taken.then(None, None, None, js="() => window.comeBack.begin()")
    return taken.then, before


def _proof(session: str) -> str:
    return hmac.digest(_SECRET, session.encode(), "sha256").hex()


def _is_field(block: Block) -> bool:
    """Whether a visitor fills it in: not what the studio writes; and no secret, which no browser is to
    keep."""
    is_filled_in = isinstance(block, _FIELDS) and getattr(block, "interactive", None) is not False
    return is_filled_in and getattr(block, "type", None) != "password"


def _name_panels(group: BlockContext) -> Sequence[str]:
    """Ids of the tabs in a group; their panels on the page are called by them."""
    panels = [tab for tab in group.children if isinstance(tab, gr.Tab)]
    for tab in panels:
        tab.elem_id = f"tab-{tab.id}"
    return [str(tab.id) for tab in panels]
