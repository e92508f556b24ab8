"""Classifies errors of foreign catalogs: which are the catalog's, and what they say about a commit's outcome.

If a commit certainly did not land, its files may be removed, and after a lost race it may be tried again. If the
outcome is uncertain, nothing is removed, and the committer reads the current metadata. Libraries are recognized by
their modules' names, so none is imported for this.
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

from metastore.errors import MetastoreError, OutcomeUnknownError, StorageError
from metastore.redaction import showable, without_secrets

_LIBRARIES: Final = frozenset(
    {"botocore", "fb303", "google", "hive_metastore", "psycopg2", "pyiceberg", "requests", "sqlalchemy", "thrift"}
)
UNREADABLE: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError, ValidationError),
    *(EOFError, gzip.BadGzipFile, zlib.error),
)
"""Errors of PyIceberg for a file that is not table metadata: from JSON, from its fields, and from decompression."""

_REFUSALS: Final = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
)
"""Error classes of a catalog that checked the commit and refused it."""

_OUT_OF_ORDER: Final = "ValidationException: Cannot add"
"""How Iceberg's REST server refuses a snapshot that does not continue the table."""

_THRIFT_NOT_OPEN: Final = 1

Fate = Literal["lost", "refused", "unknown"]


def of_a_catalog(error: Exception) -> bool:
    """Whether the error is from a catalog's library or the system; any other error is a bug and must be visible."""
    return isinstance(error, OSError) or any(_library(kind) in _LIBRARIES for kind in type(error).__mro__)


@contextmanager
def failures_of(source: object, *passing: type[Exception], changing: bool = False) -> Iterator[None]:
    """Within, failures of the catalog become StorageErrors that name ``source``, except those of ``passing``.

    With ``changing``, a failure that leaves open whether the catalog made the change is an OutcomeUnknownError.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (MetastoreError, *passing)) or not of_a_catalog(error):
            raise
        text = f"{source} does not answer: {error_text(error)}"
        if changing and fate_of_commit(error, validated_here=False) == "unknown":
            text += ". It is unknown whether the change was made: look before trying again"
            raise OutcomeUnknownError(text) from showable(error)
        raise StorageError(text) from showable(error)


def is_of_database(error: Exception) -> bool:
    """Whether the database of a SQL catalog raised the error."""
    return _library(type(error)) == "sqlalchemy"


def error_text(error: BaseException) -> str:
    """Return the error's message on one line, without secrets, SQL statements and parameters."""
    cause = getattr(error, "orig", None) or error
    return without_secrets(" ".join(str(cause).split())) or type(cause).__name__


def fate_of_commit(error: Exception, *, validated_here: bool) -> Fate:
    """Return what ``error`` of a commit proves: lost (try again), refused (do not try again), or nothing.

    ``validated_here``: this process builds the next version, and the catalog only accepts or refuses it. Even a
    conflict proves nothing if the catalog's client had already sent the request before: it may conflict with itself.
    """
    if _was_sent_again(error) or _was_sent_again(error.__cause__):
        return "unknown"
    if isinstance(error, CommitFailedException | WaitingForLockException | TooManyRequestsError):
        return "lost"
    if isinstance(error, FileNotFoundError):
        # Others expired the base version before the catalog read it: nothing was published.
        return "lost"
    if validated_here and type(error) in (KeyError, ValueError, ValidationError):
        # The updates fit the table that they were made for, so others changed it: no next version was written.
        return "lost"
    if isinstance(error, BadRequestError) and _OUT_OF_ORDER in str(error):
        # Another branch took the snapshot's sequence number or row ids first; the server answers as for a bad request.
        return "lost"
    if isinstance(error, _REFUSALS):
        return "refused"
    if isinstance(error, NotImplementedError):
        return "refused"  # PyIceberg cannot commit to some catalogs that it reads.
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
    """Return the fate by where it failed: before COMMIT nothing is published, so an error of a statement is certain.

    An error without a statement is not.
    """
    cause = getattr(error, "orig", None)
    code = getattr(cause, "pgcode", None) or ""
    # PostgreSQL rolled back because of another transaction (class 40), or did not get a lock.
    if "is locked" in str(cause) or code.startswith("40") or code == "55P03":
        return "lost"
    return "refused" if getattr(error, "statement", None) else "unknown"


def _was_sent_again(error: BaseException | None) -> bool:
    """Whether AWS's client, which retries requests without an answer by itself, retried before this answer."""
    return error is not None and bool(_metadata_of_answer(error).get("RetryAttempts"))


def _metadata_of_answer(error: BaseException) -> Mapping[str, int]:
    """Return botocore's metadata of an answer; empty for all other errors."""
    response = getattr(error, "response", None) if _library(type(error)) == "botocore" else None
    found: Mapping[str, int] = response.get("ResponseMetadata", {}) if response else {}
    return found


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]
