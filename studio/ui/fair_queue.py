"""Gradio's queue, fair to visitors: whoever asks much at once waits behind everybody else.

Gradio answers in the order of asking. Here a question goes before those of visitors who have more of them
waiting; its place among their own is kept. Who has too many is asked to wait.
"""

import sys
from collections.abc import Sequence
from typing import Any

from gradio.blocks import Blocks

from studio.serving.asgi import locale_of, visitor_of
from studio.serving.waiting import MOST, MOST_OF_A_VISITOR, fairly, full, too_many
from studio.translation import said
from studio.units import MIB

MOST_BYTES = 256 * MIB
"""Of their questions together, each of which waits in memory; those of one visitor may have an eighth."""
_LOOKS_EVERY_SECONDS = 0.01
"""Gradio looks a thousand times a second for questions: a studio that nobody asks would never rest."""
_SUMS_UP_AFTER = sys.maxsize
"""Questions. Gradio sums up the last 10,000 after each, for its page of monitoring, which is closed here."""


def make_fair(app: Blocks) -> None:
    """Changes the queue of `app`, before it is launched."""
    app.queue(api_open=False)  # else who asks without the queue goes before everybody
    queue = app._queue
    queue.sleep_when_free = _LOOKS_EVERY_SECONDS
    queue.ANAYLTICS_CACHE_FREQUENCY = _SUMS_UP_AFTER
    push = queue.push

    async def in_turn(body: Any, request: Any, username: str | None) -> Any:
        """Takes a question unless its visitor has too many, and puts the waiting ones in order."""
        visitor = visitor_of(request, body.session_hash)
        waiting = [event for line in queue.event_queue_per_concurrency_id.values() for event in line.queue]
        own = [event for event in waiting if visitor_of(event.request, event.session_hash) == visitor]
        asks_much = len(own) >= MOST_OF_A_VISITOR or _bytes_of(own) >= MOST_BYTES // 8
        if asks_much or len(waiting) >= MOST or _bytes_of(waiting) >= MOST_BYTES:
            refusal = too_many(len(own)) if asks_much else full(len(waiting))
            return False, said(refusal, locale_of(request.headers)), "queue_full"
        pushed = await push(body, request, username)
        for line in queue.event_queue_per_concurrency_id.values():
            line.queue[:] = fairly(line.queue, lambda event: visitor_of(event.request, event.session_hash))
        return pushed

    queue.push = in_turn  # type: ignore[method-assign]


def _bytes_of(waiting: Sequence[Any]) -> int:
    """What questions said that they have; those that did not came in pieces, as those of no browser do."""
    told = (event.request.headers.get("content-length", "") for event in waiting if event.request)
    return sum(int(length) if length.isdecimal() else MIB for length in told)
