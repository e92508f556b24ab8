"""Lists all objects below a prefix with concurrent requests; the result equals that of a listing page by page.

Place in the flow: :mod:`metastore.lake.stores.objects.object_store_arrow` lists tables through this module. A prefix of
at most one page costs one request. For more objects, :mod:`metastore.lake.stores.objects.key_ranges` chooses the ranges
to request, and :mod:`metastore.lake.stores.objects.request_pace` limits the concurrent requests. If a store does not
list in key order, its first-level directories are listed concurrently if they hold many objects each, else page by
page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final, Protocol

from metastore.ground.interrupts import result_of
from metastore.ground.threads import Threads
from metastore.lake.stores.objects.key_ranges import KeyRanges, ListedObject, ListingRange, Objects, OutOfOrderError
from metastore.lake.stores.objects.request_pace import RequestPace

AT_ONCE: Final = 96
"""Maximum concurrent requests for one listing. S3 serves 5,500 a second below one prefix; at 30 ms these are 3,200."""

_MANY: Final = 50
"""Minimum average number of objects in a directory that pays for a request to list the directories."""

_NOTICED_AFTER_S: Final = 0.1


class ListedPrefix(Protocol):
    """The requests of a listing about one prefix; each raises OSError."""

    key: str
    """The prefix without slashes at its ends; empty for a whole bucket."""

    in_order: bool
    """Whether listings are ordered by key and can start after a key."""

    page: int
    """Number of objects in a full page."""

    def page_after(self, key: str) -> Objects:
        """Return one page of the objects after ``key``; the last page is not full."""

    def level(self) -> tuple[Objects, Sequence[str]]:
        """Return the objects directly below the prefix, and the paths of its directories."""

    def all_pages(self, path: str | None = None) -> Iterable[Objects]:
        """Return all pages of the prefix, or of the directory ``path`` below it, requested in sequence."""


def list_in_parallel(prefix: ListedPrefix, pace: RequestPace) -> list[ListedObject]:
    """Return all objects of ``prefix`` sorted by path, each path once.

    Some servers list an object twice, and the keys ``a`` and ``a/`` have one path: that of ``a``, which is first.
    """
    first = pace.ask(lambda: prefix.page_after(""))
    if len(first) < prefix.page:
        return _sort_objects([first])
    with Threads(AT_ONCE, "metastore-listing") as threads:
        try:
            if prefix.in_order:
                return _sort_objects(_by_ranges(prefix, pace, threads, first))
        except OutOfOrderError:
            pass
        if _holds_few_directories(prefix, first):
            return _sort_objects(_by_directories(prefix, pace, threads))
    return _sort_objects(prefix.all_pages())


def _by_ranges(prefix: ListedPrefix, pace: RequestPace, threads: Threads, first: Objects) -> list[Objects]:
    """All pages in key order, ``first`` included; ranges split further while pages come in."""
    ranges = KeyRanges(AT_ONCE, prefix.page)
    pages = [("", ranges.begin(first))]
    running: dict[Future[Objects], ListingRange] = {}
    level = threads.submit(pace.ask, prefix.level) if _holds_few_directories(prefix, first) else None
    try:
        while True:
            if level is not None and level.done():
                ranges.know_directories(level.result()[1])
                level = None
            while (next_range := ranges.take()) is not None:
                running[threads.submit(_page_of, prefix, pace, next_range)] = next_range
            if not running:
                return [page for _, page in sorted(pages, key=itemgetter(0))]
            answered = wait(running, _NOTICED_AFTER_S, FIRST_COMPLETED).done
            for future, range_ in [(future, running.pop(future)) for future in answered]:
                pages.append((range_.after, ranges.answer(range_, future.result())))
    finally:
        for future in running:
            future.cancel()


def _page_of(prefix: ListedPrefix, pace: RequestPace, range_: ListingRange) -> Objects:
    return pace.ask(lambda: prefix.page_after(range_.after))


def _by_directories(prefix: ListedPrefix, pace: RequestPace, threads: Threads) -> list[Objects]:
    objects, directories = pace.ask(prefix.level)
    running = [threads.submit(pace.ask, lambda path=path: list(prefix.all_pages(path))) for path in directories]
    try:
        return [objects, *chain.from_iterable(map(result_of, running))]
    finally:
        for future in running:
            future.cancel()


def _holds_few_directories(prefix: ListedPrefix, page: Objects) -> bool:
    """Return whether the first-level directories in ``page`` hold many objects each."""
    begin = len(prefix.key) + 1 if prefix.key else 0
    below = (path[begin:].partition("/") for path, _, _ in page)
    return len({name for name, slash, _ in below if slash}) * _MANY <= len(page)


def _sort_objects(pages: Iterable[Objects]) -> list[ListedObject]:
    """Return the objects of ``pages``, which are in key order, by path; each path once, as reads resolve it."""
    found = sorted(chain.from_iterable(pages), key=itemgetter(0))
    return [entry for before, entry in pairwise([("", 0, 0), *found]) if entry[0] != before[0]]
