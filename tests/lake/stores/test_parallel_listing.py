"""A listing by many requests at once is that of one listing page by page, in fewer round trips."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import S3Store
from services.counting import counting
from services.s3 import S3Server

from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.bucket_prefix import BucketPrefix
from metastore.lake.stores.objects.key_ranges import KeyRanges, Objects
from metastore.lake.stores.objects.object_store_client import Buckets
from metastore.lake.stores.objects.parallel_listing import AT_ONCE, list_in_parallel
from metastore.lake.stores.objects.request_pace import RequestPace

NAME = st.text("ab01-/=.é\U0001f600", min_size=1, max_size=5)
KEYS = st.dictionaries(
    st.lists(NAME, min_size=1, max_size=4).map("".join).map(lambda key: f"t/{key}"), st.booleans(), max_size=80
)
"""Keys below ``t/`` that share prefixes, and whether they have content; one that ends in a slash is a marker."""


class SimulatedPrefix:
    """The prefix ``t`` of a store in memory, which shows keys as obstore does: without a slash at the end."""

    key = "t"

    def __init__(self, keys: dict[str, bool], page: int, order: Callable[[str], Any] = str, answers: int = -1) -> None:
        self.in_order = True
        self.page = page
        self._keys = sorted(keys, key=order)
        self._order = order
        self._objects = [(key.rstrip("/"), int(keys[key]), 0) for key in self._keys]
        self._answers = answers

    def page_after(self, key: str) -> Objects:
        """One page; 503 for every request once, if ``answers`` says so."""
        if self._answers >= 0:
            self._answers -= 1
            if self._answers % 2:
                raise OSError("HTTP status server error (503 Service Unavailable)")
        begin = bisect_right(self._keys, self._order(key), key=self._order) if key else 0
        return self._objects[begin : begin + self.page]

    def level(self) -> tuple[Objects, Sequence[str]]:
        """The objects and directories at the top."""
        below = [(entry, entry[0][2:].partition("/")) for entry in self._objects]
        folders = {name for _, (name, slash, _) in below if slash}
        return [entry for entry, (_, slash, _) in below if not slash], [f"t/{name}" for name in sorted(folders)]

    def all_pages(self, path: str | None = None) -> Iterable[Objects]:
        """Everything."""
        yield [entry for entry in self._objects if path is None or entry[0].startswith(f"{path}/")]


def each_once(pages: Iterable[Objects]) -> list[tuple[str, int]]:
    """Paths and sizes; of objects with one path, such as ``a`` and ``a/``, the first."""
    found: dict[str, int] = {}
    for page in pages:
        for path, size, _ in page:
            found.setdefault(path, size)
    return sorted(found.items())


@given(keys=KEYS, page=st.integers(6, 12), in_order=st.booleans(), answers=st.sampled_from([-1, 20]))
def test_it_is_the_sequential_listing(keys: dict[str, bool], page: int, in_order: bool, answers: int) -> None:
    """Whatever the keys are, whether or not a listing can begin at a key, and if every second request is refused."""
    valid = {key: has or not key.endswith("/") for key, has in keys.items() if "//" not in key}
    prefix = SimulatedPrefix(valid, page, answers=answers)
    prefix.in_order = in_order
    pace = RequestPace(AT_ONCE, pause=lambda _: None)
    assert each_once([list_in_parallel(prefix, pace)]) == each_once(prefix.all_pages())


def test_an_object_that_is_listed_twice_is_one() -> None:
    """As some servers list what lies in a directory with a marker."""

    class Doubling(SimulatedPrefix):
        """Lists each object twice."""

        def page_after(self, key: str) -> Objects:
            """Less than a page of them."""
            return [entry for entry in super().page_after(key)[:2] for _ in range(2)]

    found = list_in_parallel(Doubling({f"t/{number}": True for number in range(3)}, 7), RequestPace(AT_ONCE))
    assert [path for path, _, _ in found] == ["t/0", "t/1"]


@given(seed=st.integers(), number=st.integers(0, 100))
@settings(max_examples=20)
def test_a_store_that_lists_in_another_order(seed: int, number: int) -> None:
    """As one that encrypts names: it is noticed, and listed page by page."""
    keys = {f"t/k={each % 3}/{each}": True for each in range(number)}
    prefix = SimulatedPrefix(keys, 20, lambda key: sha256(f"{seed}{key}".encode()).digest())
    assert each_once([list_in_parallel(prefix, RequestPace(AT_ONCE))]) == each_once(prefix.all_pages())


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> S3Store:
    """A new empty bucket."""
    return s3_server.create(f"listing-{uuid.uuid4()}")


def prefix_at(server: S3Server, endpoint: str, bucket: S3Store, key: str, page: int) -> BucketPrefix:
    """The prefix ``key`` through ``endpoint``."""
    place = StoreLocation.parse(f"s3://{bucket.config['bucket']}/{key}")
    return BucketPrefix(Buckets(file_io_properties(place.root, server.hadoop(endpoint))).of(place), place, page)


@given(keys=KEYS, page=st.integers(6, 9))
@settings(max_examples=15)
def test_it_is_that_of_a_server(keys: dict[str, bool], page: int, s3_server: S3Server, bucket: S3Store) -> None:
    """The same objects or the same error: a doubled slash is no name that a location can express."""
    folder = str(uuid.uuid4())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: put(s3_server, bucket, f"{folder}/{key}", keys[key]), keys))
    prefix = prefix_at(s3_server, s3_server.endpoint, bucket, f"{folder}/t", page)
    try:
        expected = each_once(prefix.all_pages())
    except OSError:
        with pytest.raises(OSError, match="empty path segment|illegal character"):
            list_in_parallel(prefix, RequestPace(AT_ONCE))
    else:
        assert each_once([list_in_parallel(prefix, RequestPace(AT_ONCE))]) == expected


def put(server: S3Server, bucket: S3Store, key: str, has_content: bool) -> None:
    """An object of any name: obstore itself writes none that ends in a slash or doubles it."""
    body = b"data" if has_content else b""
    where = f"{server.endpoint}/{bucket.config['bucket']}/{quote(key)}"
    with urlopen(Request(where, data=body, method="PUT")):  # noqa: S310 - loopback
        pass


def test_depth_at_a_server(s3_server: S3Server, bucket: S3Store) -> None:
    """Forty pages, in at most half as many round trips; one page, in one request."""
    for number in range(400):
        obstore.put(bucket, f"deep/part-{number:05}", b"data")
    with counting(s3_server.endpoint, hold_s=0.5) as seen:
        prefix = prefix_at(s3_server, seen.endpoint, bucket, "deep", 10)
        assert len(list_in_parallel(prefix, RequestPace(AT_ONCE))) == 400
        assert seen.depth <= 20, [len(wave) for wave in seen.waves]
        seen.clear()
        one_page = prefix_at(s3_server, seen.endpoint, bucket, "deep", 401)
        assert len(list_in_parallel(one_page, RequestPace(AT_ONCE))) == 400
        assert len(seen.requests) == 1


def waves(keys: Sequence[str], directories: Sequence[str]) -> tuple[int, int]:
    """Requests and round trips of a listing where all requests of a round are answered together."""
    prefix = SimulatedPrefix(dict.fromkeys(keys, True), 1000)
    ranges = KeyRanges(AT_ONCE, 1000)
    found = len(ranges.begin(prefix.page_after("")))
    requests, depth = 1, 1
    if directories:
        ranges.know_directories(directories)
        requests, depth = 2, 2
    while wave := list(islice(iter(ranges.take, None), AT_ONCE)):
        requests, depth = requests + len(wave), depth + 1
        found += sum(len(ranges.answer(each, prefix.page_after(each.after))) for each in wave)
    assert found == len(keys)
    return requests, depth


def test_a_million_objects() -> None:
    """1,000 pages in a row take less than a thirtieth of the round trips; 200 pages of directories, a tenth."""
    requests, depth = waves([f"t/part-{number:07}.parquet" for number in range(1_000_000)], [])
    assert depth <= 33
    assert requests <= 2_000
    days = [f"t/day=2026-{month:02}-{day:02}" for month in range(1, 11) for day in range(1, 26)]
    requests, depth = waves([f"{day}/part-{number:05}.parquet" for day in days for number in range(800)], days)
    assert depth <= 20
    assert requests <= 400
