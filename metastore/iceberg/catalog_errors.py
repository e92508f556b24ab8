"""What the errors of foreign catalogs mean, in one place: which are a catalog's, and what they say of a commit.

A commit that certainly did not land may be cleaned up after, and tried again where others were in its way. Everything
that is not certain is left as it is: the committer then asks the fresh metadata. Libraries are recognized by their
modules' names, so none of them is imported for it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
    WaitingForLockException,
)

from metastore.errors import MetastoreError, StorageError
from metastore.redaction import showable, without_secrets

_LIBRARIES: Final = frozenset(
    {"botocore", "fb303", "google", "hive_metastore", "psycopg2", "pyiceberg", "requests", "sqlalchemy", "thrift"}
)
UNREADABLE: Final = (ValueError, ValidationError, EOFError, gzip.BadGzipFile, zlib.error)
"""What PyIceberg raises for a file that is no metadata: of JSON, of its fields, and of what it was compressed by."""

_REFUSALS: Final = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
)
"""Answers of a catalog that looked at the commit and did not take it."""

_THRIFT_NOT_OPEN: Final = 1

Fate = Literal["lost", "refused", "unknown"]


def of_a_catalog(error: Exception) -> bool:
    """Whether a catalog's library raised it, or the system; anything else is a defect and must be seen as one."""
    return isinstance(error, OSError) or any(_library(kind) in _LIBRARIES for kind in type(error).__mro__)


@contextmanager
def failures_of(source: object, *passing: type[Exception]) -> Iterator[None]:
    """Failures of the catalog become StorageErrors that name ``source``; those of ``passing`` stay what they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (MetastoreError, *passing)) or not of_a_catalog(error):
            raise
        raise StorageError(f"{source} does not answer: {said(error)}") from showable(error)


def is_of_database(error: Exception) -> bool:
    """Whether a database of a SQL catalog raised it."""
    return _library(type(error)) == "sqlalchemy"


def said(error: BaseException) -> str:
    """What the error says, on one line, without secrets, and without the SQL statement and its parameters."""
    cause = getattr(error, "orig", None) or error
    return without_secrets(" ".join(str(cause).split())) or type(cause).__name__


def fate_of_commit(error: Exception, *, validated_here: bool) -> Fate:
    """What ``error``, raised by a commit, proves: lost (try again), refused (try not again), or nothing.

    ``validated_here``: this process makes the next version, and the catalog takes it or not. Even a conflict proves
    nothing where the catalog's client had sent the request before: it may conflict with itself.
    """
    if _was_sent_again(error) or _was_sent_again(error.__cause__):
        return "unknown"
    if isinstance(error, CommitFailedException | WaitingForLockException | TooManyRequestsError):
        return "lost"
    if isinstance(error, FileNotFoundError):
        # The version that the catalog began from was expired by others before it was read: nothing was published.
        return "lost"
    if validated_here and type(error) in (KeyError, ValueError):
        # The updates do not fit what others made of the table meanwhile: no next version was made.
        return "lost"
    if isinstance(error, _REFUSALS):
        return "refused"
    if isinstance(error, NotImplementedError):
        return "refused"  # PyIceberg reads some catalogs, and does not commit to them.
    match _library(type(error)):
        case "sqlalchemy":
            return _fate_by_database(error)
        case "botocore":
            return "refused" if 400 <= _metadata_of_answer(error).get("HTTPStatusCode", 0) < 500 else "unknown"
        case "thrift":
            return "refused" if getattr(error, "type", None) == _THRIFT_NOT_OPEN else "unknown"
        case _:
            return "unknown"


def _fate_by_database(error: Exception) -> Fate:
    """Nothing is published before COMMIT: an error of a statement is certain, one without a statement is not."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "pgcode", None) or ""
    # PostgreSQL rolled back for another transaction's sake (class 40), or did not get a lock.
    if "is locked" in str(cause) or code.startswith("40") or code == "55P03":
        return "lost"
    return "refused" if getattr(error, "statement", None) else "unknown"


def _was_sent_again(error: BaseException | None) -> bool:
    """Whether AWS's client, which repeats requests by itself when no answer comes, did so before this answer."""
    return error is not None and bool(_metadata_of_answer(error).get("RetryAttempts"))


def _metadata_of_answer(error: BaseException) -> Mapping[str, int]:
    """What botocore says of an answer; empty for errors that are none, and for those of others."""
    response = getattr(error, "response", None) if _library(type(error)) == "botocore" else None
    found: Mapping[str, int] = response.get("ResponseMetadata", {}) if response else {}
    return found


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]
