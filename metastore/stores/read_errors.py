"""What it means that a file cannot be read: the store failed, or its content is not what it should be.

Place in the flow: wherever data files are opened, by Arrow or PyIceberg, whose errors do not tell one from the other.
"""

from __future__ import annotations

import re
from typing import Final, TypeGuard

import pyarrow as pa
from pyiceberg.exceptions import ResolveError

from metastore.errors import FormatError, MetastoreError, StorageError

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


def unreadable(location: str, error: Exception) -> MetastoreError:
    """The error to raise, from ``error``, for a data file of a table: StorageError or FormatError, or what it is."""
    if isinstance(error, MetastoreError):
        return error
    if is_of_store(error):
        return StorageError(f"cannot read {location}: {error}")
    return FormatError(f"{location} cannot be read into the columns of its table: {str(error) or repr(error)}")
