"""Reads the newest version of a table while others commit and expire: if its file is gone, looks again.

An expiration may remove a version between reading its pointer and reading its file. The catalog then has a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from metastore.errors import StorageError

T = TypeVar("T")

_LOOKS: Final = 10


def looked_at_again(look: Callable[[], T], subject: str) -> T:
    """Return the result of ``look``, repeated while it raises FileNotFoundError.

    Raises StorageError, which says that ``subject`` is missing, if the last look also raises it.
    """
    for _ in range(_LOOKS - 1):
        with suppress(FileNotFoundError):
            return look()
    try:
        return look()
    except FileNotFoundError as error:
        raise StorageError(f"{subject} is missing: {error}") from error
