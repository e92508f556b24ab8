"""Classifies read errors: either the store failed, or the content of the file is wrong.

Used wherever Arrow or PyIceberg open data files, because their errors do not distinguish the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeGuard

import pyarrow as pa
from pyiceberg.exceptions import ResolveError

from metastore.errors import EngineError, FormatError, MetastoreError, NotFoundError, StorageError

UNREADABLE: Final = (OSError, ValueError, NotImplementedError, pa.ArrowException, ResolveError)
"""Errors of Arrow and PyIceberg for a file that is missing, damaged, or does not fit its table."""

_OF_SERVICES: Final = re.compile(r"AWS Error|Azure Error|google::cloud::Status")


def is_of_store(error: Exception) -> TypeGuard[OSError]:
    """Whether the store failed during a read, as opposed to wrong content.

    pyarrow also reports broken content as an OSError, without the errno of system errors. Errors of its object store
    clients have no errno either, but name the service; PyIceberg's have their own class.
    """
    return isinstance(error, OSError) and (
        error.errno is not None
        or isinstance(error, (FileNotFoundError, PermissionError))
        or _OF_SERVICES.search(str(error)) is not None
    )


@contextmanager
def reading_file(
    location: str,
    what: str = "cannot be read into the columns of its table",
    *,
    gone: str | None = None,
    then: str = "",
    errors: type[Exception] | tuple[type[Exception], ...] = UNREADABLE,
) -> Iterator[None]:
    """Within, failures to read the file at ``location`` become this package's errors, with its name.

    StorageError if the store failed. NotFoundError with the next step ``gone``, if given, for a missing file. Otherwise
    FormatError, with ``what``, the reason, and the next step ``then``. This package's errors keep their class; a
    FormatError or EngineError without the file's name gets it. Of other errors, only ``errors`` are converted.
    """
    try:
        yield
    except MetastoreError as error:
        if isinstance(error, FormatError | EngineError) and location not in str(error):
            raise type(error)(f"{location} cannot be read: {error}") from error
        raise
    except errors as error:
        if gone is not None and isinstance(error, FileNotFoundError):
            raise NotFoundError(f"{location} is gone since {gone}") from error
        if is_of_store(error):
            reason = os.strerror(error.errno) if error.errno else error
            raise StorageError(f"cannot read {location}: {reason}") from error
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):  # the latter is Arrow's
            then = then or "; name the encoding of the text in ANALYZE, such as (encoding => 'ISO-8859-1')"
        raise FormatError(f"{location} {what}: {str(error) or repr(error)}{then}") from error
