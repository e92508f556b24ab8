"""Pointers on an object store: S3, GCS or Azure. The commit is a put that the store refuses when the name is taken.

How its answers are read: :mod:`metastore.stores.conditional_put`.

Before the first commit of a process a probe shows that the store does refuse a second put; one that does not would let
two writers win, and is not used.
"""

from __future__ import annotations

import errno
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import obstore
from obstore.exceptions import BaseError, NotSupportedError

from metastore.errors import StorageError
from metastore.stores.conditional_put import RefusedError, answer_despite_conflicts, create_object
from metastore.stores.locations import StoreLocation
from metastore.stores.object_store_client import Bucket, Buckets
from metastore.stores.pointer_store import POINTER_BYTES, Entries


class ObjectPointers:
    """Pointers in ``buckets``; ``pause`` waits between tries. Safe to share between threads."""

    def __init__(self, buckets: Buckets, pause: Callable[[float], None] = time.sleep) -> None:
        self._buckets = buckets
        self._pause = pause
        self._promising: set[str] = set()
        self._lock = threading.Lock()

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """ETags and times of the objects, in the time of one request."""
        with ThreadPoolExecutor(len(locations)) as threads:
            return list(threads.map(self._identity, locations))

    def _identity(self, location: str) -> Hashable | None:
        place, bucket = self._at(location)
        try:
            with bucket.plain_errors():
                head = obstore.head(bucket.store, place.key)
        except FileNotFoundError:
            return None
        return head["e_tag"], head["last_modified"]

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """By one request, and where there is more than ``most`` by another."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            found = obstore.get(bucket.store, place.key)
            if found.meta["size"] <= most:
                return bytes(found.bytes())
            return bytes(obstore.get_range(bucket.store, place.key, start=0, end=most + 1))

    def create_if_absent(self, location: str, content: bytes) -> bool:
        """By conditional put. Also raises StorageError for a store that does not honour it."""
        place, bucket = self._at(location)
        self._see_promise(place, bucket)
        try:
            return create_object(bucket, location, content, self._pause, unique=True)
        except RefusedError as error:
            raise StorageError(f"cannot create {location}: {error.strerror}; nothing was changed") from error

    def replace(self, location: str, content: bytes) -> None:
        """By put: objects change as a whole."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            obstore.put(bucket.store, place.key, content)

    def remove(self, location: str) -> None:
        """S3 does not tell whether there was an object; the others do."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            obstore.delete(bucket.store, place.key)

    def move(self, source: str, target: str) -> None:
        """By a copy on the store, and removal of the old object."""
        (old, bucket), (new, _) = self._at(source), self._at(target)
        with bucket.plain_errors():
            try:
                obstore.head(bucket.store, new.key)
            except FileNotFoundError:
                obstore.copy(bucket.store, old.key, new.key)
                obstore.delete(bucket.store, old.key)
                return
        raise FileExistsError(errno.EEXIST, "the file is there already", target)

    def entries(self, folder: str) -> Entries:
        """By prefix; a folder is there when an object is below it."""
        place, bucket = self._at(folder)
        with bucket.plain_errors():
            found = obstore.list_with_delimiter(bucket.store, place.key)
        if not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(errno.ENOENT, f"there is nothing below {folder}")
        return Entries(
            frozenset(_name(entry["path"]) for entry in found["objects"]),
            frozenset(_name(prefix) for prefix in found["common_prefixes"]),
        )

    def names_after(self, folder: str, name: str) -> frozenset[str]:
        """By a listing that begins after the name, on stores that can begin there (S3 and GCS)."""
        place, bucket = self._at(folder)
        prefix = f"{place.key.rstrip('/')}/"
        with bucket.plain_errors():
            pages = obstore.list(bucket.store, prefix, offset=f"{prefix}{name}")
            below = [entry["path"].removeprefix(prefix) for page in pages for entry in page]
        return frozenset(each for each in below if "/" not in each)

    def make_folder(self, folder: str) -> None:
        """Nothing to do: a folder comes with its first object."""

    def remove_folder(self, folder: str) -> None:
        """Nothing to do for an empty folder."""
        with suppress(FileNotFoundError):
            self.entries(folder)
            raise OSError(errno.ENOTEMPTY, f"{folder} is not empty")

    def _at(self, location: str) -> tuple[StoreLocation, Bucket]:
        place = StoreLocation.parse(location)
        return place, self._buckets.of(place)

    def _see_promise(self, place: StoreLocation, bucket: Bucket) -> None:
        with self._lock:
            if place.authority in self._promising:
                return
            folder = place.key.rpartition("/")[0]
            probe = f"{folder}/{uuid.uuid4()}.probe".lstrip("/")
            try:
                kept = _refuses_a_second(bucket, probe, self._pause)
            except (BaseError, FileNotFoundError) as error:
                text = f"cannot write to {place.root}/{folder}: {bucket.told(error)}; nothing was changed"
                raise StorageError(text) from bucket.cause(error)
            if not kept:
                raise StorageError(
                    f"the store of {place.root} overwrites what should only be created (it does "
                    "not honour If-None-Match or its like), so two writers could both win a commit and one would be "
                    "lost. Keep the metastore on a store that does, such as Amazon S3, GCS, Azure or a newer release "
                    "of this one, or configure a catalog; nothing was changed"
                )
            self._promising.add(place.authority)


def _refuses_a_second(bucket: Bucket, probe: str, pause: Callable[[float], None]) -> bool:
    try:
        if answer_despite_conflicts(bucket.store, probe, b"", pause) != "created":
            return True  # and what has the name is not ours to remove
    except NotSupportedError:
        return False
    try:
        return answer_despite_conflicts(bucket.store, probe, b"", pause) != "created"
    finally:
        with suppress(BaseError, FileNotFoundError):
            obstore.delete(bucket.store, probe)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
