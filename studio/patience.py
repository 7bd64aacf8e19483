"""Answers of other machines: some never end, and some are not those of whoever was asked."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from studio.errors import HubUnreachableError

ANSWERS_IN = 4
"""Times the limit for a first byte: so long may a whole answer take, of whatever size its pieces are."""


def within(seconds: float, ask: Callable[[], Any]) -> Any:
    """The answer, if it is there after so many seconds: a library's own limit begins anew with each byte.

    Raises:
        TimeoutError: if it is not; then nobody waits for it any more.
    """
    answers: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def work() -> None:
        """Downloads, and keeps what goes wrong."""
        try:
            answers.put((ask(), None))
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for it
            answers.put((None, error))

    Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no whole answer in {seconds:g} s") from None
    if error is not None:
        raise error
    return answer


def not_the_hub(name: str) -> HubUnreachableError:
    """What to say of an answer that is none of the hub's; `name` was asked for."""
    return HubUnreachableError(
        "Something else answered in place of the model hub: if your network asks for a login, "
        "log in, then try {model} again.",
        model=name,
    )
