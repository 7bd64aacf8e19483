import threading
import time

import pytest

from studio.patience import within


def test_an_answer_is_given_back_and_an_error_is_raised() -> None:
    assert within(60, lambda: "here") == "here"
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_nobody_waits_for_an_answer_longer_than_said() -> None:
    is_over = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no whole answer in 0\.2 s"):
        within(0.2, lambda: is_over.wait(600))
    assert time.monotonic() - begun < 60
    is_over.set()
