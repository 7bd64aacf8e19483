"""Gradio's queue, fair to visitors: whoever asks much at once waits behind everybody else.

Gradio answers in the order of asking. Here a question goes before those of visitors who have more of them
waiting; its place among their own is kept. Who has too many is asked to wait.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gradio.blocks import Blocks

from studio.messages import Message
from studio.translation import said
from studio.ui.shared.i18n import locale_of

MOST_OF_A_VISITOR = 60
"""A page asks for a dozen things when it is opened."""
MOST = 600


def make_fair(app: Blocks) -> None:
    """Changes the queue of `app`, before it is launched."""
    app.queue(max_size=MOST)
    queue = app._queue
    push = queue.push

    async def in_turn(body: Any, request: Any, username: str | None) -> Any:
        """Takes a question unless its visitor has too many, and puts the waiting ones in order."""
        visitor = visitor_of(request, body.session_hash)
        waiting = [event for line in queue.event_queue_per_concurrency_id.values() for event in line.queue]
        asked = sum(visitor_of(event.request, event.session_hash) == visitor for event in waiting)
        if asked >= MOST_OF_A_VISITOR:
            return False, said(_too_many(asked), locale_of(request.headers)), "queue_full"
        pushed = await push(body, request, username)
        for line in queue.event_queue_per_concurrency_id.values():
            line.queue[:] = fairly(line.queue)
        return pushed

    queue.push = in_turn  # type: ignore[method-assign]


def fairly(events: Sequence[Any]) -> list[Any]:
    """First the first question of each visitor, then the second of each, in the order of asking."""
    seen: Counter[str] = Counter()
    ranked = []
    for event in events:
        visitor = visitor_of(event.request, event.session_hash)
        ranked.append((seen[visitor], event))
        seen[visitor] += 1
    return [event for _rank, event in sorted(ranked, key=lambda pair: pair[0])]


def visitor_of(request: Any, session: str | None) -> str:
    """Who asks: the address that a proxy names, or that of the connection; on this machine, the page."""
    forwarded = request.headers.get("x-forwarded-for", "").split(",")[0].strip() if request else ""
    address = forwarded or (request.client.host if request and request.client else "")
    return str(session) if address in ("", "127.0.0.1", "::1") else address


def _too_many(count: int) -> Message:
    return Message("You have {count} requests waiting: let some of them finish first.", count=count)
