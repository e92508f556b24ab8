"""Counts the requests that this process and its tasks send to object stores, and the bytes of content.

Place in the flow: the client of object stores counts (:mod:`metastore.lake.stores.objects.object_store_client`).
Engines add what their tasks have counted in other processes. The daemon counts each run by itself (:func:`counting`)
and writes the numbers into its history.

A request counts once, also if the client sends it again by itself. Requests to HDFS, to catalogs and to credential
services are not counted, nor are those of Arrow's own client and of tasks of a Spark query. Threads that a library
started do not know for which run they work: what they send counts for every run that is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from metastore.errors import MetastoreError

T = TypeVar("T")


class Traffic(NamedTuple):
    """Numbers of requests, and of bytes of content that were received and sent."""

    requests: int = 0
    received: int = 0
    sent: int = 0

    def since(self, before: Traffic) -> Traffic:
        """Returns the difference to an earlier count."""
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


class Counter:
    """The counts of this process or of one run; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = Traffic()

    def add(self, more: Traffic) -> None:
        """Add counts."""
        with self._lock:
            self._counted = Traffic(*(one + other for one, other in zip(self._counted, more, strict=True)))

    def so_far(self) -> Traffic:
        """Returns what was counted since the counter was made."""
        with self._lock:
            return self._counted


_COUNTER: Final = Counter()
_own: Final[ContextVar[Counter | None]] = ContextVar("own", default=None)
_under_way: Final[list[Counter]] = []


def count(requests: int = 0, *, received: int = 0, sent: int = 0) -> None:
    """Count requests and bytes."""
    count_elsewhere(Traffic(requests, received, sent))


def count_elsewhere(counted: Traffic) -> None:
    """Add what a task has counted in another process."""
    own = _own.get()
    for counter in (_COUNTER, *(_under_way if own is None else (own,))):
        counter.add(counted)


@contextmanager
def counting() -> Iterator[Counter]:
    """Within, the counter has what this thread and its tasks count; several threads can count at the same time."""
    counter = Counter()
    token = _own.set(counter)
    _under_way.append(counter)
    try:
        yield counter
    finally:
        _under_way.remove(counter)
        _own.reset(token)


def with_traffic(items: Iterable[T]) -> tuple[list[T], Traffic]:
    """Returns all ``items``, with what this process counted while they were made."""
    before = traffic_so_far()
    return list(items), traffic_so_far().since(before)


def counted_here(outcome: tuple[list[T], Traffic] | MetastoreError) -> list[T]:
    """Adds what another process counted by :func:`with_traffic`; returns the items. Raises the error that it met."""
    if isinstance(outcome, MetastoreError):
        raise outcome
    items, traffic = outcome
    count_elsewhere(traffic)
    return items


def traffic_so_far() -> Traffic:
    """Returns what was counted since this process began."""
    return _COUNTER.so_far()
