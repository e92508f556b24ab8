"""Reading the newest version of a table that others commit to and expire: looked at again when its file has gone.

An expiration may remove a version between the look at its pointer and the read of its file. The catalog then knows a
newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from metastore.errors import StorageError

T = TypeVar("T")

_LOOKS: Final = 10


def looked_at_again(look: Callable[[], T], subject: str) -> T:
    """What ``look`` gives once it meets no FileNotFoundError.

    Raises StorageError, which says that ``subject`` is missing, when the last look meets one too.
    """
    for _ in range(_LOOKS - 1):
        with suppress(FileNotFoundError):
            return look()
    try:
        return look()
    except FileNotFoundError as error:
        raise StorageError(f"{subject} is missing: {error}") from error
