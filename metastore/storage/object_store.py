"""Pointers on an object store: S3, GCS or Azure. The commit is a put that the store refuses when the name is taken.

A conditional put is sent once at a time, and every answer is taken for what it is. "Taken" is a lost race only if the
file holds something else than ours: an earlier request may have landed while its answer was lost. A refusal (rights,
no bucket) is certain only while no earlier request is open. All else is tried again a few times, and then left open.

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
from typing import Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from metastore.errors import StorageError
from metastore.storage.locations import StoreLocation
from metastore.storage.object_store_client import Bucket, Buckets
from metastore.storage.pointer_store import Entries

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Waits between requests of unknown outcome; stores ask for them when they answer 503."""

_TAKEN: Final = (AlreadyExistsError, PreconditionError)  # some releases of obstore say the latter for Azure
_REFUSED: Final = (FileNotFoundError, PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError)


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

    def read(self, location: str) -> bytes:
        """The whole object."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            return bytes(obstore.get(bucket.store, place.key).bytes())

    def create_if_absent(self, location: str, content: bytes) -> bool:
        """By conditional put. Also raises StorageError for a store that does not honour it."""
        place, bucket = self._at(location)
        self._see_promise(place, bucket)
        unknown: Exception | None = None
        for pause in (0.0, *_PAUSES_S):
            self._pause(pause)
            try:
                obstore.put(bucket.once, place.key, content, mode="create")
            except _TAKEN as error:
                # Stores may also say so to one of several requests under way, of which none has landed.
                with suppress(FileNotFoundError):
                    return self.read(location) == content
                unknown = error
            except _REFUSED as error:
                if unknown is None:
                    text = f"cannot create {location}: {bucket.told(error)}; nothing was changed"
                    raise StorageError(text) from bucket.cause(error)
                unknown = error
            except BaseError as error:
                unknown = error
            else:
                return True
        assert unknown is not None
        text = f"it is open whether {location} was created: {bucket.told(unknown)}"
        raise OSError(errno.EIO, text) from bucket.cause(unknown)

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
                kept = _refuses_a_second(bucket, probe)
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


def _refuses_a_second(bucket: Bucket, probe: str) -> bool:
    try:
        for _ in range(2):
            obstore.put(bucket.store, probe, b"", mode="create")
    except _TAKEN:
        return True
    except NotSupportedError:
        return False
    finally:
        with suppress(BaseError, FileNotFoundError):
            obstore.delete(bucket.store, probe)
    return False


def _name(path: str) -> str:
    return path.rpartition("/")[2]
