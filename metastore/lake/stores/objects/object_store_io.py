"""PyIceberg's FileIO for object stores, built on obstore.

One request writes a file and one reads it: a metastore's files are small, and a request costs more than a megabyte.
Only larger data files are read in ranges.
"""

from __future__ import annotations

import errno
import io
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final, cast

import obstore
import pyarrow.fs as pafs
from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from metastore.engines.traffic import count
from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.conditional_put import create_object
from metastore.lake.stores.objects.object_store_arrow import ObjectArrow, PartsUpload
from metastore.lake.stores.objects.object_store_client import Buckets
from metastore.lake.stores.store_files import StoreFiles
from metastore.lake.stores.whole_files import WholeFile

_DEFAULT_LIMITS: Final = ReadLimits()


class ObjectFileIO(StoreFiles):
    """Files on S3, GCS and Azure by URI; ``properties`` are PyIceberg's. Pickles as its properties.

    ``pause`` waits between the requests that create a file.
    """

    def __init__(self, properties: Properties = EMPTY_DICT, pause: Callable[[float], None] = time.sleep) -> None:
        super().__init__(properties=properties)
        self.buckets = Buckets(properties)
        self._pause = pause
        self._limits = ReadLimits.of(properties)

    def new_input(self, location: str) -> InputFile:
        """Return the file to read; sends no request yet."""
        return ObjectFile(location, self.buckets, self._pause, self._limits)

    def new_output(self, location: str) -> OutputFile:
        """Return the file to create; sends no request yet."""
        return ObjectFile(location, self.buckets, self._pause)

    def arrow_paths(self, locations: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
        """Return a file system whose paths are locations."""
        return pafs.PyFileSystem(ObjectArrow(self.buckets)), list(locations)

    def open_stream(self, location: str) -> IO[bytes]:
        """Open a stream into an object, sent in parts; closing it creates the object completely or not at all.

        Only for names that no other writer uses: the name is checked first, and an object that comes then is replaced.
        """
        self.require_absent(location)
        place = StoreLocation.parse(location)
        return cast("IO[bytes]", PartsUpload(self.buckets.of(place), place.key))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove the file. Raises FileNotFoundError if it does not exist, except on S3, which does not report that."""
        self.delete_together([location if isinstance(location, str) else location.location])

    def delete_together(self, locations: Sequence[str]) -> bool:
        """Remove files with as few requests as possible. After an OSError some may be deleted, others not."""
        places = [StoreLocation.parse(location) for location in locations]
        keys: dict[str, list[str]] = defaultdict(list)
        for place in places:
            keys[place.root].append(place.key)
        for place in {place.root: place for place in places}.values():
            bucket = self.buckets.of(place)
            with bucket.plain_errors():
                obstore.delete(bucket.store, keys[place.root])
                bucket.count_deletions(place, len(keys[place.root]))
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {"properties": self.properties}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        ObjectFileIO.__init__(self, state["properties"])


class ObjectFile(InputFile, OutputFile):
    """One object, to read whole or to create."""

    def __init__(
        self,
        location: str,
        buckets: Buckets,
        pause: Callable[[float], None] = time.sleep,
        limits: ReadLimits = _DEFAULT_LIMITS,
    ) -> None:
        super().__init__(location)
        self.limits = limits
        self._pause = pause
        self._key = StoreLocation.parse(location).key
        self._bucket = buckets.of(StoreLocation.parse(location))

    def __len__(self) -> int:
        with self._bucket.plain_errors():
            return obstore.head(self._bucket.store, self._key)["size"]

    def exists(self) -> bool:
        """Whether the object exists."""
        try:
            len(self)
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Read the whole object at once. Raises FileNotFoundError, FormatError for a file that is too large."""
        with self._bucket.plain_errors():
            found = obstore.get(self._bucket.store, self._key)
            if limit := self.limits.of_file(self.location):
                limit.require(self.location, found.meta["size"])
            return io.BytesIO(self._bucket.count_received(bytes(found.bytes())))

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return a stream; its close creates the object. FileExistsError if the name is taken, unless ``overwrite``.

        If a ``with`` block raises an exception, no object is created.
        """

        def send(content: bytes) -> None:
            if overwrite:
                with self._bucket.plain_errors():
                    obstore.put(self._bucket.store, self._key, content)
                count(sent=len(content))
            elif not create_object(self._bucket, self.location, content, self._pause, unique=False):
                raise FileExistsError(errno.EEXIST, "the file is there already", self.location)

        return WholeFile(send)

    def to_input_file(self) -> InputFile:
        """Return itself, for reading."""
        return self
