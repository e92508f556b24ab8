"""Creates one object by a conditional put, which the store refuses if the name is taken.

Version files and new data files on S3, GCS and Azure are created here. Requests are sent one at a time, without the
client's own retries, and every answer is interpreted:

- 412, or 409 on Azure: the name is taken. After a repeated request the object may be our own, so its content decides.
- 409 ``ConditionalRequestConflict`` of S3: there were concurrent requests for this name, and this one was not executed.
  S3 asks clients to repeat it.
- A refusal (permissions, no bucket): certain only if no earlier request has an unknown outcome.
- Any other error leaves the outcome unknown. The request is repeated a few times.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import Final, Literal

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

from metastore.engines.traffic import count
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.object_store_client import Bucket, Store, plain_tag
from metastore.lake.stores.pointer_store import CreatedFile

PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses in seconds between requests of unknown outcome, and after conflicts; stores require them after 409 or 503."""

_TAKEN: Final = (AlreadyExistsError, PreconditionError)  # some releases of obstore raise the latter for Azure
_REFUSED: Final = (FileNotFoundError, PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError)
_CONFLICT: Final = re.compile("ConditionalRequestConflict|OperationAborted")


class RefusedError(OSError):
    """The store certainly did not create the object."""


Answer = CreatedFile | Literal["taken", "conflict"]


def answer_to_put(store: Store, key: str, content: bytes) -> Answer:
    """Send a conditional put; "conflict" means it was not executed because of other requests for the name.

    Raises obstore's errors and FileNotFoundError.
    """
    count(sent=len(content))
    try:
        put = obstore.put(store, key, content, mode="create")
    except _TAKEN as error:
        return "conflict" if _CONFLICT.search(str(error)) else "taken"
    return CreatedFile(plain_tag(put["e_tag"]))


def answer_despite_conflicts(store: Store, key: str, content: bytes, pause: Callable[[float], None]) -> Answer:
    """As :func:`answer_to_put`, but repeats the request a few times after conflicts."""
    answer = answer_to_put(store, key, content)
    for wait in PAUSES_S:
        if answer != "conflict":
            break
        pause(wait)
        count(1)
        answer = answer_to_put(store, key, content)
    return answer


def create_object(
    bucket: Bucket, location: str, content: bytes, pause: Callable[[float], None], *, unique: bool
) -> CreatedFile | None:
    """Create the object at ``location``; returns None if another object has the name.

    ``unique`` promises that no other writer creates equal content: an equal object is then ours. Without it, an equal
    object is ours only after a request of unknown outcome, or after a conflict.

    Raises :class:`RefusedError` if the object was certainly not created, and another OSError if the outcome is unknown.
    """
    key = StoreLocation.parse(location).key
    open_: BaseException | None = None
    conflicts = 0
    for wait in (0.0, *PAUSES_S):
        pause(wait)
        try:
            answer = answer_to_put(bucket.once, key, content)
        except _REFUSED as error:
            if open_ is None:
                raise RefusedError(errno.EACCES, bucket.error_text(error), location) from bucket.cause(error)
            open_ = error
            continue
        except BaseError as error:
            open_ = error
            continue
        if isinstance(answer, CreatedFile):
            return answer
        if answer == "conflict":
            conflicts += 1
            continue
        try:
            equal = _equal(bucket, key, content)
        except FileNotFoundError:
            # Stores may also answer this to one of several concurrent requests although none has landed.
            open_ = FileNotFoundError("the store says both that the name is taken and that there is no such object")
            continue
        return equal if unique or open_ is not None or conflicts > 0 else None
    if open_ is not None:
        text = f"it is unknown whether {location} was created: {bucket.error_text(open_)}"
        raise OSError(errno.EIO, text) from bucket.cause(open_)
    text = f"the store answered {conflicts} times with 409: other requests for this name were under way; try again"
    raise RefusedError(errno.EBUSY, text, location)


def _equal(bucket: Bucket, key: str, content: bytes) -> CreatedFile | None:
    """Return the object if it has ``content``. Objects of another size are not fetched. Raises FileNotFoundError."""
    with bucket.plain_errors():
        found = obstore.get(bucket.store, key)
        if found.meta["size"] != len(content) or bucket.count_received(bytes(found.bytes())) != content:
            return None
        return CreatedFile(plain_tag(found.meta["e_tag"]))
