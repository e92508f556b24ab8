"""Pointers on an object store: S3, GCS or Azure. A commit is a put that the store refuses if the name is taken.

:mod:`metastore.lake.stores.objects.conditional_put` interprets its answers.

Before the first commit of a process, a probe checks that the store refuses a second put. A store that does not would
let two writers win, so it is not used.
"""

from __future__ import annotations

import errno
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError, NotSupportedError

from metastore.engines.traffic import count
from metastore.errors import StorageError
from metastore.ground.threads import Threads
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.conditional_put import RefusedError, answer_despite_conflicts, create_object
from metastore.lake.stores.objects.object_store_client import Bucket, Buckets, plain_tag
from metastore.lake.stores.pointer_store import POINTER_BYTES, CreatedFile, Entries

if TYPE_CHECKING:
    from obstore import ObjectMeta  # a type that exists only in the stubs

_TELLING: Final = 6
"""Number of names that prove an ordered listing: by chance it is ordered once in 720 times. A metastore's first commit
leaves this many."""

_PAGE: Final = 1000
"""Objects in a page, as stores send them: if more are requested, a page request also fetches the next page."""


_EMPTY_FOLDER: Final = ".folder"
"""Name of the object, without content, that shows an empty folder. No listing of this class contains it."""


class ObjectPointers:
    """Pointers in ``buckets``; ``pause`` waits between tries, ``page`` is the number of objects in a page.

    Threads may share it.
    """

    def __init__(self, buckets: Buckets, pause: Callable[[float], None] = time.sleep, page: int = _PAGE) -> None:
        self._buckets = buckets
        self._pause = pause
        self._page = page
        self._in_order: set[str] = set()
        self._promising: set[str] = set()
        self._lock = threading.Lock()

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Return ETags of the objects, in the time of one request."""
        if len(locations) == 1:
            return [self._identity(locations[0])]
        with Threads(len(locations)) as threads:
            return list(threads.map(self._identity, locations))

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """Use one page of a listing that begins at the first of ``names``; another for names beyond it.

        If the server must show its order first, that page is the answer if it holds the whole folder. Objects are
        requested one by one on Azure, where listings cannot always begin at a name, and on stores whose listings are
        not ordered by name.
        """
        place, bucket = self._at(folder)
        prefix = f"{place.key.rstrip('/')}/"
        known: dict[str, Hashable | None] = {}
        in_order = self._is_in_order(place)
        if in_order is None:
            page, is_whole = _page_after(bucket, prefix, None, self._page)
            in_order = self._shows_order(place, page)
            if is_whole:
                found = {entry["path"].removeprefix(prefix): _identity_of(entry) for entry in page}
                known = {name: found.get(name) for name in names}
        while in_order and (left := sorted(set(names) - known.keys(), key=str.encode)):
            page, is_last = _page_after(bucket, prefix, left[0][:-1], self._page)
            keys = [entry["path"].encode() for entry in page]
            if keys != sorted(keys) or (keys and keys[0] <= f"{prefix}{left[0][:-1]}".encode()):
                break
            found = {entry["path"].removeprefix(prefix): _identity_of(entry) for entry in page}
            known |= {name: found.get(name) for name in left if is_last or f"{prefix}{name}".encode() <= keys[-1]}
        asked = [name for name in names if name not in known]
        if asked:
            known |= zip(asked, self.identities([f"{folder}/{name}" for name in asked]), strict=True)
        return [known[name] for name in names]

    def _is_in_order(self, place: StoreLocation) -> bool | None:
        """Whether a listing can begin at a name, because it is ordered by names; None if a page must show it.

        S3's own listings are ordered, except in directory buckets. Other stores must show it: some order encrypted
        names, and would leave out versions.
        """
        if place.kind != "s3":
            return place.kind == "gcs"
        if place.authority in self._in_order:
            return True
        return None if "s3.endpoint" in self._buckets.properties or place.bucket.endswith("--x-s3") else True

    def _shows_order(self, place: StoreLocation, page: Sequence[ObjectMeta]) -> bool:
        """Whether ``page``, the first of a listing, proves the order; remembers that. A few names prove nothing."""
        keys = [entry["path"].encode() for entry in page]
        if len(keys) < _TELLING or keys != sorted(keys):
            return False
        self._in_order.add(place.authority)
        return True

    def _identity(self, location: str) -> Hashable | None:
        place, bucket = self._at(location)
        try:
            with bucket.plain_errors():
                head = obstore.head(bucket.store, place.key)
        except FileNotFoundError:
            return None
        return _identity_of(head)

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """Read by one request; by two if the object has more than ``most`` bytes."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            found = obstore.get(bucket.store, place.key)
            if found.meta["size"] <= most:
                return bucket.count_received(bytes(found.bytes()))
            return bucket.count_received(bytes(obstore.get_range(bucket.store, place.key, start=0, end=most + 1)))

    def prepare(self, location: str) -> None:
        """Probe the bucket of ``location``, once. Raises StorageError."""
        self._see_promise(*self._at(location))

    def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
        """Create by conditional put. Also raises StorageError for a store that does not support it."""
        place, bucket = self._at(location)
        self._see_promise(place, bucket)
        try:
            return create_object(bucket, location, content, self._pause, unique=True)
        except RefusedError as error:
            raise StorageError(f"cannot create {location}: {error.strerror}; nothing was changed") from error

    def replace(self, location: str, content: bytes) -> None:
        """Replace by put: objects change atomically."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            obstore.put(bucket.store, place.key, content)
        count(sent=len(content))

    def remove(self, location: str) -> None:
        """S3 does not report whether there was an object; the others do."""
        place, bucket = self._at(location)
        with bucket.plain_errors():
            obstore.delete(bucket.store, place.key)

    def move(self, source: str, target: str) -> None:
        """Copy on the store, and remove the old object."""
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
        """List by prefix; a folder exists if an object is below it."""
        place, bucket = self._at(folder)
        with bucket.plain_errors():
            found = obstore.list_with_delimiter(bucket.store, place.key)
            bucket.count_pages(len(found["objects"]) + len(found["common_prefixes"]))
        if not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(errno.ENOENT, f"there is nothing below {folder}")
        return Entries(
            frozenset(_name(entry["path"]) for entry in found["objects"]) - {_EMPTY_FOLDER},
            frozenset(_name(prefix) for prefix in found["common_prefixes"]),
        )

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """List from the name on, on stores that support it (S3 and GCS).

        One request if a page holds all files, even if the store must show its order first.
        """
        place, bucket = self._at(folder)
        prefix = f"{place.key.rstrip('/')}/"
        in_order, listed = self._is_in_order(place), None
        if in_order is None:
            page, is_whole = _page_after(bucket, prefix, None, self._page)
            in_order, listed = self._shows_order(place, page), page if is_whole else None
        if listed is None:
            listed = _all_after(bucket, prefix, name if in_order else None)
        found = {entry["path"].removeprefix(prefix): _identity_of(entry) for entry in listed}
        return {each: identity for each, identity in found.items() if "/" not in each and each.encode() > name.encode()}

    def make_folder(self, folder: str) -> None:
        """Put an object without content into it: nothing else shows an empty folder."""
        self.replace(f"{folder}/{_EMPTY_FOLDER}", b"")

    def remove_folder(self, folder: str) -> None:
        """Remove what shows the empty folder. Also fails if it does not exist."""
        listed = self.entries(folder)
        if listed.files or listed.folders:
            raise OSError(errno.ENOTEMPTY, f"{folder} is not empty")
        self.remove(f"{folder}/{_EMPTY_FOLDER}")

    def _at(self, location: str) -> tuple[StoreLocation, Bucket]:
        place = StoreLocation.parse(location)
        return place, self._buckets.of(place)

    def _see_promise(self, place: StoreLocation, bucket: Bucket) -> None:
        """Try a second put, once for each bucket. StorageError if the store overwrites; nothing is committed there."""
        with self._lock:
            if place.authority in self._promising:
                return
            folder = place.key.rpartition("/")[0]
            probe = f"{folder}/{uuid.uuid4()}.probe".lstrip("/")
            try:
                kept = _refuses_a_second(bucket, probe, self._pause)
            except (BaseError, FileNotFoundError) as error:
                text = f"cannot write to {place.root}/{folder}: {bucket.error_text(error)}; nothing was changed"
                raise StorageError(text) from bucket.cause(error)
            if not kept:
                raise StorageError(
                    f"the store of {place.root} overwrites what should only be created (it does "
                    "not honour If-None-Match or an equivalent), so two writers could both win a commit and "
                    "one would be "
                    "lost. Keep the metastore on a store that does, such as Amazon S3, GCS, Azure or a newer release "
                    "of this one, or configure a catalog; nothing was changed"
                )
            self._promising.add(place.authority)


def _refuses_a_second(bucket: Bucket, probe: str, pause: Callable[[float], None]) -> bool:
    try:
        if not isinstance(answer_despite_conflicts(bucket.store, probe, b"", pause), CreatedFile):
            return True  # the object with this name is another's, so do not remove it
    except NotSupportedError:
        return False
    try:
        return not isinstance(answer_despite_conflicts(bucket.store, probe, b"", pause), CreatedFile)
    finally:
        with suppress(BaseError, FileNotFoundError):
            obstore.delete(bucket.store, probe)


def _page_after(bucket: Bucket, prefix: str, name: str | None, size: int) -> tuple[list[ObjectMeta], bool]:
    """Return objects below ``prefix``, one page of them, and whether these are all; with ``name`` those after it.

    Without ``name`` the request names no beginning: a store that orders encrypted names would leave out others.
    """
    with bucket.plain_errors():
        begin = None if name is None else f"{prefix}{name}"
        pages = obstore.list(bucket.store, prefix, offset=begin, chunk_size=size)
        page = list(next(pages, ()))
    return page, len(page) < size


def _all_after(bucket: Bucket, prefix: str, name: str | None) -> list[ObjectMeta]:
    """Return all objects below ``prefix``, or those that sort after ``name``."""
    with bucket.plain_errors():
        pages = obstore.list(bucket.store, prefix, offset=None if name is None else f"{prefix}{name}")
        entries = [entry for page in pages for entry in page]
    bucket.count_pages(len(entries))
    return entries


def _identity_of(entry: ObjectMeta) -> Hashable:
    """Return the same identity for a listing and an object's own answer: their times differ in precision."""
    if tag := plain_tag(entry["e_tag"]):
        return tag
    return entry["size"], int(entry["last_modified"].timestamp())


def _name(path: str) -> str:
    return path.rpartition("/")[2]
