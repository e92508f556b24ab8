"""What the errors of catalogs prove of a commit: only what is certain is taken for it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
    WaitingForLockException,
)
from requests.exceptions import ConnectionError as LostConnectionError
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from thrift.transport.TTransport import TTransportException

from metastore.lake.iceberg.catalogs.catalog_errors import error_text, fate_of_commit, of_a_catalog

UPDATE = "UPDATE iceberg_tables SET metadata_location = ?"
CLOSED = Exception("server closed the connection")


class PostgresError(Exception):
    """An error of the driver, with the server's code."""

    def __init__(self, pgcode: str) -> None:
        super().__init__("no luck")
        self.pgcode = pgcode


def answer(status: int, repeated: int = 0) -> ClientError:
    """What AWS's client raises for an answer that is an error, to a request that was sent again so often."""
    error: Any = {"Error": {"Code": "Some", "Message": "no luck"}}
    return ClientError({**error, "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": repeated}}, "Update")


def conflict(cause: Exception) -> CommitFailedException:
    """As PyIceberg raises it for ``cause``."""
    error = CommitFailedException("conflict")
    error.__cause__ = cause
    return error


FATES = [
    (CommitFailedException(), "lost"),
    (WaitingForLockException(), "lost"),
    (TooManyRequestsError(), "lost"),
    (BadRequestError("ValidationException: Cannot add snapshot with sequence number 3 older than last"), "lost"),
    (BadRequestError("ValidationException: Cannot add a snapshot, first-row-id is behind table next-row-id"), "lost"),
    (FileNotFoundError(), "lost"),
    (OperationalError(UPDATE, (), Exception("database is locked")), "lost"),
    (OperationalError(None, (), Exception("database is locked")), "lost"),
    (OperationalError(None, (), PostgresError("40001")), "lost"),
    (OperationalError(UPDATE, (), PostgresError("55P03")), "lost"),
    (BadRequestError(), "refused"),
    (UnauthorizedError(), "refused"),
    (ForbiddenError(), "refused"),
    (IntegrityError(UPDATE, (), Exception("unique")), "refused"),
    (DataError(UPDATE, (), Exception("too long")), "refused"),
    (OperationalError(UPDATE, (), CLOSED), "refused"),
    (TTransportException(TTransportException.NOT_OPEN), "refused"),
    (OperationalError(None, (), CLOSED), "unknown"),
    (CommitStateUnknownException(), "unknown"),
    (ServiceUnavailableError(), "unknown"),
    (ServerError(), "unknown"),
    (RESTError(), "unknown"),
    (LostConnectionError(), "unknown"),
    (TTransportException(TTransportException.TIMED_OUT), "unknown"),
    (TTransportException(TTransportException.END_OF_FILE), "unknown"),
    (OSError(), "unknown"),
    (TypeError(), "unknown"),
    (NotImplementedError(), "refused"),
    (conflict(answer(400)), "lost"),
    (conflict(answer(400, repeated=1)), "unknown"),
    (answer(400), "refused"),
    (answer(403), "refused"),
    (answer(400, repeated=1), "unknown"),
    (answer(500), "unknown"),
    (EndpointConnectionError(endpoint_url="http://glue"), "unknown"),
]


@pytest.mark.parametrize(("error", "fate"), FATES, ids=repr)
@pytest.mark.parametrize("validated_here", [True, False])
def test_fates(error: Exception, fate: str, validated_here: bool) -> None:
    """The catalog's answer, or the database's before COMMIT, is certain; silence is not."""
    assert fate_of_commit(error, validated_here=validated_here) == fate


@pytest.mark.parametrize("error", [KeyError("a"), ValueError("older sequence number")], ids=repr)
def test_updates_that_do_not_fit_are_lost_where_they_are_applied_here(error: Exception) -> None:
    """From a server's client the same error can be about the answer."""
    assert fate_of_commit(error, validated_here=True) == "lost"
    assert fate_of_commit(error, validated_here=False) == "unknown"
    assert fate_of_commit(UnicodeDecodeError("utf-8", b"", 0, 1, "no text"), validated_here=True) == "unknown"


def test_only_catalogs_and_the_system_are_expected_to_fail() -> None:
    """A defect of ours is no StorageError."""
    ours = (TypeError, NotImplementedError)
    assert [of_a_catalog(error) for error, _ in FATES] == [not isinstance(error, ours) for error, _ in FATES]


def test_what_is_said_is_one_line_without_the_statement() -> None:
    """The statement's parameters are paths that help nobody."""
    error = OperationalError(UPDATE, ("s3://bucket/v1",), Exception("line one\n  line two"))
    assert error_text(error) == "line one line two"
    assert error_text(TimeoutError()) == "TimeoutError"
