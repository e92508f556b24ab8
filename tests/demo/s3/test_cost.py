"""What requests add up to: counts by operation, bytes, and how many waited for each other."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demos.s3.cost import Cost, Request, operation_of


def spans(*times: tuple[float, float]) -> list[Request]:
    """Requests with these beginnings and ends."""
    return [Request("GET", "/b/k", 1, began, ended) for began, ended in times]


@pytest.mark.parametrize(
    ("times", "in_a_row"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 1), (0, 1), (0, 1)], 1),
        ([(0, 9), (1, 2), (3, 4), (5, 6)], 3),
        ([(5, 6), (0, 1), (0.5, 5.5)], 2),
    ],
)
def test_requests_in_a_row(times: list[tuple[float, float]], in_a_row: int) -> None:
    """One that began before another was answered did not wait for it; the order of the log has no meaning."""
    assert Cost.of(spans(*times)).in_a_row == in_a_row


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), max_size=7))
def test_no_longer_row_exists(drawn: list[tuple[int, int]]) -> None:
    """The largest subset of requests without overlap, found by trying all."""
    times = [(began, began + length) for began, length in drawn]
    largest = max(
        size
        for size in range(len(times) + 1)
        for chosen in combinations(sorted(times), size)
        if all(first[1] <= second[0] for first, second in pairwise(chosen))
    )
    assert Cost.of(spans(*times)).in_a_row == largest


def test_operations_and_bytes_are_summed() -> None:
    """By operation; the number of requests is their sum."""
    requests = [Request(name, "/b/k", 7, 0, 1) for name in ("GET", "PUT", "GET")]
    cost = Cost.of(requests)
    assert cost.operations == {"GET": 2, "PUT": 1}
    assert (cost.requests, cost.bytes) == (3, 21)


@pytest.mark.parametrize(
    ("method", "path", "query", "operation"),
    [
        ("GET", "/bucket", "list-type=2&prefix=a", "LIST"),
        ("GET", "/bucket/", "list-type=2&prefix=a", "LIST"),
        ("GET", "/bucket/key", "", "GET"),
        ("GET", "/bucket/key", "prefix=a", "GET"),
        ("HEAD", "/bucket/key", "", "HEAD"),
        ("HEAD", "/bucket", "", "HEAD"),
        ("PUT", "/bucket", "", "PUT"),
        ("POST", "/bucket", "delete", "POST"),
    ],
)
def test_a_listing_is_an_operation_of_its_own(method: str, path: str, query: str, operation: str) -> None:
    """It is a GET of a bucket, and costs as much as a PUT."""
    assert operation_of(method, path, query) == operation
