"""Work behind a request (`serving/work.py`); its reports are tested with the page's tasks."""

import threading

import pytest

from studio.serving.work import in_own_thread


def test_work_has_a_thread_that_ends_with_it() -> None:
    worked = in_own_thread(threading.current_thread)
    assert worked is not threading.current_thread()
    assert not worked.is_alive()


def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_own_thread(lambda: 1 // 0)
