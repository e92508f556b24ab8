"""Operations on whole files: delete, make durable, open through Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import IOBase
from typing import IO, cast

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from metastore.errors import MetastoreError, StorageError
from metastore.lake.stores.local import make_durable
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.store_files import StoreFiles
from metastore.lake.stores.threads import for_each


@dataclass(frozen=True)
class DeletionResult:
    """Result of a deletion: removed files (or already gone), and failed ones with their errors."""

    removed: int
    failed: tuple[tuple[str, Exception], ...] = ()


def discard(io: FileIO, locations: Iterable[str]) -> DeletionResult:
    """Delete files, many at a time. Never raises: failures are reported with their files, and deletion continues."""
    wanted = list(locations)
    if isinstance(io, StoreFiles):
        # If deleting them together fails, each is deleted alone and reports its own error.
        with suppress(OSError, MetastoreError):
            if io.delete_together(wanted):
                return DeletionResult(len(wanted))

    def delete(location: str) -> tuple[str, Exception] | None:
        try:
            io.delete(location)
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - stores have their own errors; each is reported to the caller
            return location, error
        return None

    failed = tuple(failure for failure in for_each(wanted, delete) if failure)
    return DeletionResult(len(wanted) - len(failed), failed)


def flush(locations: Iterable[str]) -> None:
    """Make written files survive a crash. Other stores guarantee that on write; a local disk needs a flush."""
    if local := [location for location in locations if is_local(location)]:
        make_durable(local)


def arrow_paths(io: FileIO, locations: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
    """Return the Arrow file system for ``locations``, and their paths in it. StorageError if there is none."""
    if isinstance(io, StoreFiles):
        return io.arrow_paths(locations)
    if isinstance(io, PyArrowFileIO):
        parsed = [PyArrowFileIO.parse_location(location, io.properties) for location in locations]
        scheme, host, _ = parsed[0]
        return io.fs_by_scheme(scheme, host), [path for _, _, path in parsed]
    raise StorageError(
        f"files cannot be read or listed through {type(io).__name__}; use the FileIO of this package or PyIceberg's "
        "for Arrow (py-io-impl)"
    )


def open_ranges(io: FileIO, location: str) -> pa.NativeFile:
    """Open a file for reading parts; of a large file that is not local, only requested parts are fetched."""
    if isinstance(io, StoreFiles | PyArrowFileIO):
        system, [path] = arrow_paths(io, [location])
        return system.open_input_file(path)
    return pa.PythonFile(cast("IOBase", io.new_input(location).open()), mode="r")


def open_stream(io: FileIO, location: str) -> IO[bytes]:
    """Open a stream into a new file; see :meth:`StoreFiles.open_stream`."""
    if isinstance(io, StoreFiles):
        return io.open_stream(location)
    return cast("IO[bytes]", io.new_output(location).create())
