"""Questions that may never be answered: waited for as long as the limit allows, put once, and left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from metastore.daemon.inquiry import Inquiries
from metastore.errors import StorageError


class OddError(Exception):
    """What no library of ours knows."""


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set when the test ends, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


def test_parts_come_in_order_and_who_is_waited_for_is_told() -> None:
    """Also parts that are None or look like it; and after the last one nobody is waited for."""
    waiting: list[str | None] = []
    inquiries = Inquiries(30, waiting.append)
    assert list(inquiries.ask("catalog a", lambda: iter([0, None, "", 3]))) == [0, None, "", 3]
    assert list(inquiries.ask("catalog b", list)) == []
    assert waiting == ["catalog a", None, "catalog b", None]
    assert inquiries.hanging() == {}


def test_an_error_comes_as_itself_after_the_parts_before_it() -> None:
    """The question can be put again."""

    def question() -> Iterator[int]:
        yield 1
        raise OddError("%d")

    inquiries = Inquiries(30)
    for _ in range(2):
        found: list[int] = []
        with pytest.raises(OddError, match="%d"):
            found.extend(inquiries.ask("catalog a", question))
    assert inquiries.hanging() == {}


def test_what_does_not_answer_is_left_behind(released: threading.Event) -> None:
    """After the limit, with the key that sets it. Until its thread ends it is not asked again, and others are."""
    asked = []

    def question() -> Iterator[int]:
        asked.append(1)
        yield 1
        released.wait(60)

    inquiries = Inquiries(0.05)
    found: list[int] = []
    with pytest.raises(StorageError, match=r"catalog a has not answered within 0\.05 s .*daemon\.answer_timeout"):
        found.extend(inquiries.ask("catalog a", question))
    with pytest.raises(StorageError, match="gets no new request before that one ends"):
        list(inquiries.ask("catalog a", question))
    assert list(inquiries.hanging()) == ["catalog a"]
    assert list(inquiries.ask("catalog b", lambda: [2])) == [2]
    assert asked == [1]
    [thread] = [each for each in threading.enumerate() if each.name == "inquiry catalog a"]
    assert thread.daemon  # It keeps no process from its end.
    released.set()
    thread.join(60)
    assert list(inquiries.ask("catalog a", lambda: [3])) == [3]


def test_who_is_to_stop_waits_no_longer(released: threading.Event) -> None:
    """However long the limit is."""
    inquiries = Inquiries(3600, stopping=lambda: True)
    with pytest.raises(StorageError, match="before the daemon had to stop"):
        list(inquiries.ask("catalog a", lambda: [released.wait(60)]))
