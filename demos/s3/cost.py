"""Requests to an S3 server: what each one was, and what many of them add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Request:
    """One answered request. ``bytes`` are those of the answer's body; times are monotonic seconds of the server."""

    operation: str
    path: str
    bytes: int
    began: float
    ended: float


@dataclass(frozen=True)
class Cost:
    """The requests of one question.

    ``in_a_row`` is the largest number of requests of which each began after the one before had been answered. Where
    latency dominates, a question takes about that many times the latency.
    """

    operations: Mapping[str, int]
    in_a_row: int
    bytes: int

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(self.operations.values())

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Cost:
        """Add up ``requests``, in any order."""
        in_a_row, last = 0, float("-inf")
        # Taking the request that ends first, again and again, gives the longest row.
        for request in sorted(requests, key=lambda each: each.ended):
            if request.began >= last:
                in_a_row, last = in_a_row + 1, request.ended
        operations = Counter(request.operation for request in requests)
        return cls(dict(operations), in_a_row, sum(request.bytes for request in requests))


def operation_of(method: str, path: str, query: str) -> str:
    """Return the method, or ``LIST`` for a read of a bucket (``/bucket?list-type=2``), which has a price of its own."""
    is_bucket = "/" not in path.strip("/")
    return "LIST" if is_bucket and method in _READS and "prefix=" in query else method
