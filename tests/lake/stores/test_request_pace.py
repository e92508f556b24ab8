"""Fewer requests are in flight after a store asked for it, more again later, and repetitions are spread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from metastore.lake.stores.objects.request_pace import RequestPace

BUSY = "HTTP status server error (503 Service Unavailable) for url http://127.0.0.1/b"


def failing(times: int, text: str = BUSY) -> Callable[[], str]:
    """A request that fails so often before it is answered."""
    left = [text] * times

    def request() -> str:
        if left:
            raise OSError(left.pop())
        return "answer"

    return request


def test_pauses_grow_and_differ() -> None:
    """Each is a random part of twice the limit before."""
    pauses: list[float] = []
    chances = iter([0.5, 1.0, 0.25])
    pace = RequestPace(8, pauses.append, lambda: next(chances))
    assert pace.ask(failing(3)) == "answer"
    assert pauses == [0.05, 0.2, 0.1]


def test_refusals_halve_what_is_in_flight() -> None:
    """Down to one; answers raise it slowly, up to the limit."""
    pace = RequestPace(8, lambda _: None)
    pace.ask(failing(1))
    assert pace.most_at_once == 4
    pace.ask(failing(6))
    assert pace.most_at_once == 2  # one refusal more than there are halves: the answer counts as well
    for _ in range(100):
        pace.ask(failing(0))
    assert pace.most_at_once == 8


def test_no_more_are_in_flight_than_allowed() -> None:
    """Whatever the number of threads."""
    pace = RequestPace(3)
    together = threading.Barrier(3)
    with ThreadPoolExecutor(9) as threads:
        most = []
        lock = threading.Lock()
        running = [0]

        def request() -> None:
            with lock:
                running[0] += 1
                most.append(running[0])
            together.wait(10)
            with lock:
                running[0] -= 1

        for future in [threads.submit(pace.ask, request) for _ in range(9)]:
            future.result()
    assert max(most) == 3


@pytest.mark.parametrize(("text", "sent"), [("no such key", 1), (BUSY, 8)])
def test_what_is_not_answered_is_an_error(text: str, sent: int) -> None:
    """At once, unless the store is too busy; then after the last repetition."""
    asked = []

    def request() -> None:
        asked.append(1)
        raise OSError(text)

    with pytest.raises(OSError, match=text[:10]):
        RequestPace(4, lambda _: None).ask(request)
    assert len(asked) == sent
