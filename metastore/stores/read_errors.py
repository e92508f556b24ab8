"""What it means that a file cannot be read: the store failed, or its content is not what it should be.

Place in the flow: wherever data files are opened, by Arrow or PyIceberg, whose errors do not tell one from the other.
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
"""What Arrow and PyIceberg raise for a file that is not there, is damaged, or does not fit its table."""

_OF_SERVICES: Final = re.compile(r"AWS Error|Azure Error|google::cloud::Status")


def is_of_store(error: Exception) -> TypeGuard[OSError]:
    """Whether the store failed while a file was read, and it is not its content that is wrong.

    pyarrow reports broken content as an OSError too, without the number that the system's own errors carry. Those of
    its clients of object stores have none either, but name the service; and those of PyIceberg have a class.
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
    """What goes wrong while the file at ``location`` is read becomes an error of ours that names it.

    StorageError where the store failed, NotFoundError with the next step ``gone`` for a file that is gone, if that is
    given; else FormatError, which says ``what``, why, and what to do ``then``. An error of ours keeps its kind, and a
    FormatError or EngineError gets the file's name if it lacks it. Of others, ``errors`` are meant.
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
            said = os.strerror(error.errno) if error.errno else error
            raise StorageError(f"cannot read {location}: {said}") from error
        raise FormatError(f"{location} {what}: {str(error) or repr(error)}{then}") from error
