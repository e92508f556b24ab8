"""The requests of :mod:`metastore.lake.stores.objects.parallel_listing` for one prefix of a bucket, sent by obstore.

The first attempt of a request runs without the client's own retries, so that the first refusal of a busy store is
noticed. After any other error, the client sends the request again with its retries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final, TypeVar

import obstore

from metastore.ground.digests import number_of
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.key_ranges import Objects
from metastore.lake.stores.objects.object_store_client import PAGE, Bucket, Store, plain_tag
from metastore.lake.stores.objects.request_pace import asks_to_slow_down

if TYPE_CHECKING:
    from obstore import ObjectMeta  # a type that exists only in the stubs

Answer = TypeVar("Answer")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NS_IN_MS: Final = 1_000_000


class BucketPrefix:
    """The objects below ``place``; ``page`` is the number of objects in a full page.

    S3 and GCS list in key order, starting after any key; S3's directory buckets do not. Azure cannot start at a key.
    """

    def __init__(self, bucket: Bucket, place: StoreLocation, page: int = PAGE) -> None:
        self._bucket = bucket
        self.key = place.key.strip("/")
        self.page = page
        self.in_order = place.kind != "azure" and not place.bucket.endswith("--x-s3")

    def page_after(self, key: str) -> Objects:
        """Return one page of the objects after ``key``, by one request."""

        def page(store: Store) -> Objects:
            pages = obstore.list(store, self.key or None, offset=key or None, chunk_size=self.page)
            return _objects(next(pages, ()))

        return self._answer(page)

    def level(self) -> tuple[Objects, Sequence[str]]:
        """Return the objects directly below the prefix, and the paths of the directories there."""
        found = self._answer(lambda store: obstore.list_with_delimiter(store, self.key or None))
        self._bucket.count_pages(len(found["objects"]) + len(found["common_prefixes"]))
        return _objects(found["objects"]), found["common_prefixes"]

    def all_pages(self, path: str | None = None) -> Iterator[Objects]:
        """Return all pages of the prefix, or of the directory ``path`` below it, requested in sequence."""
        with self._bucket.plain_errors():
            listed = 0
            for page in obstore.list(self._bucket.store, path or self.key or None):
                listed += len(page)
                yield _objects(page)
            self._bucket.count_pages(listed)

    def _answer(self, request: Callable[[Store], Answer]) -> Answer:
        try:
            with self._bucket.plain_errors():
                return request(self._bucket.once)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if asks_to_slow_down(error):
                raise
        with self._bucket.plain_errors():
            return request(self._bucket.store)


def _objects(listed: Iterable[ObjectMeta]) -> Objects:
    return [(entry["path"], entry["size"], time_and_state(entry)) for entry in listed]


def time_and_state(entry: ObjectMeta) -> int:
    """Return an object's time in epoch ns, in whole milliseconds; the digits below tell its states apart.

    Stores keep times in whole seconds or milliseconds. An object that is replaced within that time by one of the same
    size has another ETag, so the digits are made from it.
    """
    time_ms = (entry["last_modified"] - _EPOCH) // timedelta(milliseconds=1)
    tag = plain_tag(entry["e_tag"]) or ""
    return time_ms * _NS_IN_MS + number_of(tag, 8) % _NS_IN_MS
