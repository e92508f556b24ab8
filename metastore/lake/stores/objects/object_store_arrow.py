"""The Arrow file system for object stores, built on obstore: it reads, writes and lists files by location.

ANALYZE, scans and views read data through it, component tables their own files. Tasks use it to list and read tables,
so it is separate from :mod:`metastore.lake.stores.objects.object_store_io`, which needs PyIceberg.

Guarantees: paths are whole locations in the spelling of the request. If a file is replaced while it is read, reading
fails and never returns a mixture. Listing raises an error for keys that no location can express (``a//b``).
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import obstore
import pyarrow as pa
import pyarrow.fs as pafs
from obstore.exceptions import GenericError

from metastore.engines.traffic import count
from metastore.ground.threads import Threads
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.bucket_prefix import BucketPrefix, time_and_state
from metastore.lake.stores.objects.object_store_client import Bucket, Buckets
from metastore.lake.stores.objects.parallel_listing import AT_ONCE, list_in_parallel
from metastore.lake.stores.objects.request_pace import RequestPace
from metastore.lake.stores.whole_files import WHOLE_BYTES, RangedFile

TAIL_BYTES: Final = 64 << 10
"""Bytes at the end of a data file that the first request fetches: enough for nearly all footers, and for small
files."""

_PART_BYTES: Final = 16 << 20
"""Size of the parts of a large object that is written; a store accepts at most 10,000 parts."""

_PIECES_AT_ONCE: Final = 8
"""A long range is fetched in pieces of :data:`WHOLE_BYTES`; this many are fetched concurrently."""


class PartsUpload(io.RawIOBase):
    """A large object, written in parts; it exists once the stream is closed."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        super().__init__()
        self._bucket = bucket
        with bucket.plain_errors():
            self._writer = obstore.open_writer(bucket.store, key, buffer_size=_PART_BYTES)
        self._position = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._position

    def write(self, content: Any) -> int:
        """Send ``content``, or buffer it until a part is full; returns its number of bytes."""
        part = memoryview(content).cast("B")
        with self._bucket.plain_errors():
            self._writer.write(part)
        self._position += part.nbytes
        return part.nbytes

    def close(self) -> None:
        """Create the object."""
        if not self.closed:
            super().close()
            with self._bucket.plain_errors():
                self._writer.close()
            # Larger objects are begun, sent in parts, and completed.
            count(1 - -self._position // _PART_BYTES if self._position > _PART_BYTES else 0, sent=self._position)


class ObjectArrow(pafs.FileSystemHandler):
    """Object stores for ``pyarrow.fs.PyFileSystem``. Pickles as the properties of its buckets.

    ``tail_bytes`` is the number of bytes at the end of a file that the first request reads, for the footer. With None,
    a file up to :data:`WHOLE_BYTES` is read whole.
    """

    lists_by_prefix: Final = True

    def __init__(self, buckets: Buckets, tail_bytes: int | None = None) -> None:
        self._buckets = buckets
        self._tail_bytes = tail_bytes
        self._pace = RequestPace(AT_ONCE)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a small object by one request; a larger one by ranges."""
        place, bucket = self._at(path)
        with bucket.plain_errors():
            if self._tail_bytes is None or place.kind == "azure":  # Azure has no suffix ranges
                return _whole_or_ranges(place, bucket)
            return _from_the_end(place, bucket, self._tail_bytes)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a small object by one request; a larger one in pieces of :data:`WHOLE_BYTES`."""
        place, bucket = self._at(path)
        with bucket.plain_errors():
            file = _whole_or_ranges(place, bucket)
        return file if isinstance(file, pa.BufferReader) else pa.BufferedInputStream(file, WHOLE_BYTES)

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> pa.NativeFile:
        """Open an object that replaces an existing one."""
        place, bucket = self._at(path)
        return pa.PythonFile(PartsUpload(bucket, place.key), mode="w")

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the type of each path: an object, else a directory if keys start with it."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        """The file at ``path``, else a directory if any object lies below it; a bucket always is one."""
        place, bucket = self._at(path)
        key = place.key.strip("/")
        try:
            with bucket.plain_errors():
                if key and not place.key.endswith("/"):
                    head = obstore.head(bucket.store, key)
                    return _file_info(path, head)
        except FileNotFoundError:
            pass
        try:
            with bucket.plain_errors():
                is_there = any(obstore.list(bucket.store, key or None)) or not key
        except FileNotFoundError:
            is_there = False
        return pafs.FileInfo(path, pafs.FileType.Directory if is_there else pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """List a directory; FileNotFoundError if it is empty, unless the selector allows that."""
        place, bucket = self._at(selector.base_dir)
        base = selector.base_dir.rstrip("/")
        listed = self._recursive if selector.recursive else self._direct
        found = list(listed(place, bucket, base))
        if not found and place.key.strip("/") and not selector.allow_not_found:
            raise FileNotFoundError(f"there is nothing below {selector.base_dir}")
        return found

    def _direct(self, place: StoreLocation, bucket: Bucket, base: str) -> Iterator[pafs.FileInfo]:
        key = place.key.strip("/")
        with bucket.plain_errors():
            found = obstore.list_with_delimiter(bucket.store, key or None)
            bucket.count_pages(len(found["objects"]) + len(found["common_prefixes"]))
        for prefix in found["common_prefixes"]:
            yield pafs.FileInfo(f"{base}/{posixpath.basename(prefix.rstrip('/'))}", pafs.FileType.Directory)
        for entry in found["objects"]:
            yield _file_info(f"{base}/{posixpath.basename(entry['path'])}", entry)

    def _recursive(self, place: StoreLocation, bucket: Bucket, base: str) -> Iterator[pafs.FileInfo]:
        key = place.key.strip("/")
        before = len(key) + 1 if key else 0
        seen: set[str] = {""}
        left = list_in_parallel(BucketPrefix(bucket, place), self._pace)
        left.reverse()
        while left:  # what is passed on is freed: there may be millions
            path, size, mtime_ns = left.pop()
            below = path[before:]
            for folder in reversed(list(_above(posixpath.dirname(below), seen))):
                yield pafs.FileInfo(f"{base}/{folder}", pafs.FileType.Directory)
            yield pafs.FileInfo(f"{base}/{below}", pafs.FileType.File, size=size, mtime_ns=mtime_ns)

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a directory exists with its first object."""

    def delete_dir(self, path: str) -> None:
        """Delete all objects below the directory."""
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Delete all objects below the directory; FileNotFoundError if there are none, unless ``missing_dir_ok``."""
        place, bucket = self._at(path)
        key = place.key.strip("/")
        if not key:
            raise io.UnsupportedOperation("this file system does not empty a whole bucket")
        with bucket.plain_errors():
            keys = [entry["path"] for page in obstore.list(bucket.store, key) for entry in page]
            bucket.count_pages(len(keys))
            if keys:
                obstore.delete(bucket.store, keys)
                bucket.count_deletions(place, len(keys))
        if not keys and not missing_dir_ok:
            raise FileNotFoundError(f"there is nothing below {path}")

    def delete_file(self, path: str) -> None:
        """Delete the object. S3 does not report whether it existed."""
        place, bucket = self._at(path)
        with bucket.plain_errors():
            obstore.delete(bucket.store, place.key)

    def move(self, src: str, dest: str) -> None:
        """Copy the object within its store, and delete it at its old place."""
        place, bucket = self._at(src)
        with bucket.plain_errors():
            obstore.rename(bucket.store, place.key, StoreLocation.parse(dest).key)
            count(1)  # the deletion

    def _at(self, path: str) -> tuple[StoreLocation, Bucket]:
        place = StoreLocation.parse(path)
        return place, self._buckets.of(place)

    def get_type_name(self) -> str:
        """Return the name for Arrow's messages."""
        return "object-store"

    def normalize_path(self, path: str) -> str:
        """Return the location unchanged."""
        return path

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_arrow, (self._buckets.properties, self._buckets.configured_by, self._tail_bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectArrow) and other._buckets is self._buckets

    def __hash__(self) -> int:
        return hash(id(self._buckets))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise io.UnsupportedOperation("this file system neither copies nor appends, nor empties a whole bucket")

    delete_root_dir_contents = copy_file = open_append_stream = _refuse


def _open_arrow(properties: Mapping[str, str], configured_by: str, tail_bytes: int | None) -> ObjectArrow:
    return ObjectArrow(Buckets(properties, configured_by), tail_bytes)


def _whole_or_ranges(place: StoreLocation, bucket: Bucket) -> pa.NativeFile:
    found = obstore.get(bucket.store, place.key)
    size = found.meta["size"]
    if size <= WHOLE_BYTES:
        return pa.BufferReader(bucket.count_received(found.bytes().to_bytes()))
    return pa.PythonFile(_ranges(place, bucket, size, found.meta["e_tag"]), mode="r")


def _from_the_end(place: StoreLocation, bucket: Bucket, tail_bytes: int) -> pa.NativeFile:
    try:
        found = obstore.get(bucket.store, place.key, options={"range": {"suffix": tail_bytes}})
        tail = bucket.count_received(found.bytes().to_bytes())
    except GenericError:  # a store without suffix ranges, or an empty object, which has no ranges
        return _whole_or_ranges(place, bucket)
    return pa.PythonFile(_ranges(place, bucket, found.meta["size"], found.meta["e_tag"], tail), mode="r")


def _ranges(place: StoreLocation, bucket: Bucket, size: int, e_tag: str | None, tail: bytes = b"") -> RangedFile:
    """Return a reader of the object of ``size`` bytes, ending in ``tail``; fails once its ETag is not ``e_tag``."""

    def fetch_piece(begin: int, end: int) -> bytes:
        options: Any = {"range": (begin, end), **({"if_match": e_tag} if e_tag else {})}
        with bucket.plain_errors():
            return bucket.count_received(obstore.get(bucket.store, place.key, options=options).bytes().to_bytes())

    def fetch(begin: int, end: int) -> bytes:
        begins = range(begin, end, WHOLE_BYTES)
        if len(begins) == 1:
            return fetch_piece(begin, end)
        with Threads(min(len(begins), _PIECES_AT_ONCE)) as threads:
            pieces = threads.map(lambda each: fetch_piece(each, min(each + WHOLE_BYTES, end)), begins)
            return b"".join(pieces)

    return RangedFile(size, fetch, tail)


def _file_info(path: str, entry: Any) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, size=entry["size"], mtime_ns=time_and_state(entry))


def _above(folder: str, seen: set[str]) -> Iterable[str]:
    """Yield ``folder`` and its parents that are not in ``seen``, the lowest first."""
    while folder not in seen:
        seen.add(folder)
        yield folder
        folder = posixpath.dirname(folder)
