"""The client of a Hive Metastore: the thrift calls that this package needs, and the mapping of their errors.

All other modules talk to the service through :class:`HiveClient`, so connections, retries and errors are handled in one
place. Promises: a read that fails on a dead connection is repeated once on a new one, and so is the release of a lock.
A call that changes something is sent once. If its answer is lost, it raises OutcomeUnknownError, because the service
may have carried it out.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import urlparse

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    AlreadyExistsException,
    CheckLockRequest,
    EnvironmentContext,
    InvalidObjectException,
    InvalidOperationException,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    Partition,
    ShowLocksRequest,
    Table,
    UnknownDBException,
    UnlockRequest,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from metastore.errors import (
    ConflictError,
    InvalidRequestError,
    MetastoreError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from metastore.ground.user import user_name
from metastore.sources.hive.lock_holders import describe_locks, left_by_the_dead, own_mark

_T = TypeVar("_T")

_DEFAULT_PORT: Final = 9083
_TIMEOUT_MS: Final = 60_000
"""Timeout of an answer; the service may take long to list the partitions of a large table."""

_BATCH: Final = 1_000
"""Maximum number of objects in one call: some servers cut off larger answers."""

_BROKEN: Final = (
    TTransportException,
    TProtocolException,
    TApplicationException,
    OSError,
    EOFError,
    OverflowError,
    TypeError,
    UnicodeError,
)
"""The connection failed, or its data was no valid answer. It may be in the middle of an answer, so it is closed.

Thrift's reader raises the last four for lengths, types and texts that no answer has.
"""

_ALL: Final = -1
_AS_GIVEN: Final = {"DO_NOT_UPDATE_STATS": "true"}
LOCK_POLLS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Pauses, in seconds, between checks of a lock that another process holds."""


class HiveClient:
    """One connection to a Hive Metastore, opened on first use; a context manager.

    ``uri`` is ``thrift://host:port``, or several with commas between them, tried in this order. ``user`` is the name
    that the service sees; None means the user of this process. Threads may share it; they take turns.
    """

    def __init__(
        self,
        uri: str,
        *,
        user: str | None = None,
        pause: Callable[[float], object] | None = None,
        lock_polls: Sequence[float] = LOCK_POLLS,
    ) -> None:
        self.uri: Final = uri
        self._servers = [_server(each.strip()) for each in uri.split(",") if each.strip()]
        if not self._servers:
            raise InvalidRequestError("the URI of a Hive Metastore is empty; thrift://host:port is expected")
        self._user = user or user_name()
        self._pause = pause or threading.Event().wait
        self._lock_polls = lock_polls
        self._turn = threading.RLock()
        self._transport: Any = None
        self._client: Any = None

    def databases(self) -> list[str]:
        """Returns the names of all databases."""
        return sorted(self._ask_again_if_broken("list the databases", "get_all_databases"))

    def tables(self, database: str) -> list[str]:
        """Returns the names of all tables and views of ``database``. Raises NotFoundError if it does not exist."""
        names: list[str] = self._ask_again_if_broken(f"list the tables of {database}", "get_all_tables", database)
        if not names:
            # The service also returns no tables for a database that does not exist.
            self._ask_again_if_broken(f"read database {database}", "get_database", database)
        return sorted(names)

    def database_location(self, database: str) -> str:
        """Returns the folder of new tables of ``database``, without a slash at the end. Raises NotFoundError."""
        found = self._ask_again_if_broken(f"read database {database}", "get_database", database)
        return str(found.locationUri).rstrip("/")

    def table(self, database: str, name: str) -> Table:
        """Returns one table as the service describes it. Raises NotFoundError."""
        return self._ask_again_if_broken(f"read table {database}.{name}", "get_table", database, name)

    def table_objects(self, database: str, names: Sequence[str]) -> Iterator[Table]:
        """Yields the tables in ``names`` that (still) exist, in any order."""
        for batch in _batches(names):
            yield from self._ask_again_if_broken(
                f"read tables of {database}", "get_table_objects_by_name", database, batch
            )

    def partitions(self, database: str, name: str) -> list[Partition]:
        """Returns all partitions of a table, sorted by their values."""
        what = f"read the partitions of {database}.{name}"
        found: list[Partition] = []
        for batch in _batches(self._ask_again_if_broken(what, "get_partition_names", database, name, _ALL)):
            found += self._ask_again_if_broken(what, "get_partitions_by_names", database, name, batch)
        return sorted(found, key=lambda partition: tuple(partition.values))

    def alter_table(self, new: Table, *, expected: tuple[str, str] | None = None) -> None:
        """Replace the description and the statistics of the table ``new`` in one atomic step.

        With ``expected``, a parameter and its value, the service first checks that the table has them, and raises
        ConflictError if not. Old services do not check (2.3.10 does): read the table again afterwards.
        """
        context = dict(_AS_GIVEN)
        if expected is not None:
            context |= {"expected_parameter_key": expected[0], "expected_parameter_value": expected[1]}
        self._change(
            f"alter table {new.dbName}.{new.tableName}",
            "alter_table_with_environment_context",
            new.dbName,
            new.tableName,
            new,
            EnvironmentContext(properties=context),
        )

    def create_table(self, new: Table) -> None:
        """Create a table. Raises ConflictError if the name is taken."""
        self._change(f"create table {new.dbName}.{new.tableName}", "create_table", new)

    def drop_table(self, database: str, name: str) -> None:
        """Drop a table from the service; its files stay."""
        self._change(f"drop table {database}.{name}", "drop_table", database, name, False)

    def add_partitions(self, database: str, name: str, partitions: Sequence[Partition]) -> None:
        """Add partitions. Raises ConflictError if one already exists."""
        for batch in _batches(partitions):
            self._change(f"add partitions to {database}.{name}", "add_partitions", batch)

    def alter_partitions(self, database: str, name: str, partitions: Sequence[Partition]) -> None:
        """Replace the descriptions and statistics of partitions, which are identified by their values."""
        for batch in _batches(partitions):
            self._change(
                f"alter partitions of {database}.{name}",
                "alter_partitions_with_environment_context",
                database,
                name,
                batch,
                EnvironmentContext(properties=_AS_GIVEN),
            )

    def drop_partition(self, database: str, name: str, values: Sequence[str]) -> None:
        """Drop one partition from the service; its files stay. Raises NotFoundError."""
        what = f"drop partition {list(values)} of {database}.{name}"
        self._change(what, "drop_partition", database, name, list(values), False)

    @contextmanager
    def lock_table(self, database: str, name: str) -> Iterator[None]:
        """Hold the service's exclusive lock on a table. It blocks only programs that ask for locks.

        A lock of a process of this machine that has certainly ended is released first. The lock is always released at
        the end, on a new connection if necessary; if a client dies, the service drops its locks after some minutes.
        Raises ConflictError, which names the holder, if another process keeps the lock. Raises StorageError if the
        service's answer is lost and the lock is not found: then nothing was changed, whether or not the lock exists.
        """
        component = LockComponent(
            level=LockLevel.TABLE, type=LockType.EXCLUSIVE, dbname=database, tablename=name, isTransactional=True
        )
        request = LockRequest(
            component=[component], user=self._user, hostname=socket.gethostname(), agentInfo=own_mark()
        )
        what = f"lock table {database}.{name}"
        lock = self._lock(what, request)
        try:
            if lock.state == LockState.WAITING:
                self.take_from_the_dead(database, name)
            for pause in (0.0, *self._lock_polls):
                if lock.state != LockState.WAITING:
                    break
                self._pause(pause)
                lock = self._ask_again_if_broken(what, "check_lock", CheckLockRequest(lockid=lock.lockid))
            if lock.state != LockState.ACQUIRED:
                holders = (each for each in self.locks(database, name) if each.lockid != lock.lockid)
                raise ConflictError(
                    f"another program holds a lock on {database}.{name}: {describe_locks(holders)}; nothing was "
                    "changed. Try again when it has finished; the service drops the lock of a dead process after its "
                    "hive.txn.timeout, by default five minutes"
                )
            yield
        finally:
            with suppress(MetastoreError):  # the service drops it by itself; this error must not hide another
                self._unlock(database, name, lock.lockid)

    def _lock(self, action: str, request: LockRequest) -> Any:
        """Ask for a lock. If the answer is lost, find the lock by its mark, because it would block this process too."""
        try:
            return self._change(action, "lock", request)
        except OutcomeUnknownError as error:
            [wanted] = request.component
            with suppress(MetastoreError):  # without an answer the lock stays until the service drops it
                for lock in self.locks(wanted.dbname, wanted.tablename):
                    if lock.agentInfo == request.agentInfo:
                        return lock
            raise StorageError(f"{error}; only a lock was requested, and nothing was changed") from error

    def _unlock(self, database: str, name: str, lock: int) -> None:
        """Release a lock. Repeating the request is safe: it names one lock. Raises NotFoundError."""
        self._ask_again_if_broken(f"unlock table {database}.{name}", "unlock", UnlockRequest(lockid=lock))

    def locks(self, database: str, name: str) -> list[Any]:
        """Returns the locks on a table, including waiting ones."""
        what = f"read the locks on {database}.{name}"
        found = self._ask_again_if_broken(what, "show_locks", ShowLocksRequest(dbname=database, tablename=name))
        return list(found.locks)

    def take_from_the_dead(self, database: str, name: str) -> None:
        """Release the locks on a table whose holders, processes of this machine, have certainly ended.

        If the service does not answer, the locks stay; it drops them by itself some minutes later.
        """
        with suppress(MetastoreError):
            for lock in left_by_the_dead(self.locks(database, name)):
                with suppress(NotFoundError):  # another process released it
                    self._unlock(database, name, lock)

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        with self._turn:
            if self._transport is not None:
                self._transport.close()
            self._transport = self._client = None

    def __enter__(self) -> HiveClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_again_if_broken(self, action: str, call: str, *arguments: object) -> Any:
        with self._turn:
            if self._client is not None:
                # The other side may have closed a kept connection; then a new one is tried.
                with suppress(*_BROKEN), self._closed_if_broken():
                    return self._result(action, call, arguments)
            self._connect(action)
            try:
                with self._closed_if_broken():
                    return self._result(action, call, arguments)
            except _BROKEN as error:
                raise StorageError(
                    f"the Hive Metastore at {self.uri} failed to {action}: {_error_text(error)}"
                ) from error

    def _change(self, action: str, call: str, *arguments: object) -> Any:
        with self._turn:
            # A dead connection is detected before the call, because a call that changes something is sent only once.
            self._ask_again_if_broken("answer", "getStatus")
            try:
                with self._closed_if_broken():
                    return self._result(action, call, arguments)
            except _BROKEN as error:
                raise OutcomeUnknownError(
                    f"the Hive Metastore at {self.uri} did not answer the request to {action} ({_error_text(error)}); "
                    "it may have done it: check before you try again"
                ) from error

    @contextmanager
    def _closed_if_broken(self) -> Iterator[None]:
        """Within, the connection is closed by any error that is no answer of the service, and by an interrupt.

        An answer that is still to come would be taken for that of the next call.
        """
        try:
            yield
        except MetastoreError:
            raise
        except BaseException:
            self.close()
            raise

    def _result(self, action: str, call: str, arguments: Sequence[object]) -> Any:
        """Returns the call's result. Maps errors of the service; errors of the connection pass unchanged."""
        try:
            return getattr(self._client, call)(*arguments)
        except (NoSuchObjectException, NoSuchLockException, UnknownDBException) as error:
            raise NotFoundError(f"the Hive Metastore cannot {action}: {_error_text(error)}") from error
        except AlreadyExistsException as error:
            raise ConflictError(f"the Hive Metastore cannot {action}: {_error_text(error)}") from error
        except MetaException as error:
            if "has been modified" in _error_text(error):
                raise ConflictError(
                    f"another program was first, so that we did not {action}; nothing was changed, try again"
                ) from error
            raise StorageError(f"the Hive Metastore cannot {action}: {_error_text(error)}") from error
        except (InvalidOperationException, InvalidObjectException) as error:
            raise InvalidRequestError(f"the Hive Metastore refuses to {action}: {_error_text(error)}") from error

    def _connect(self, action: str) -> None:
        """Connect to the first server that answers; StorageError lists why each did not."""
        failures = []
        for host, port in self._servers:
            wire = TSocket(host, port)
            wire.setTimeout(_TIMEOUT_MS)
            transport = TBufferedTransport(wire)
            try:
                transport.open()
            except TTransportException as error:
                transport.close()  # the socket may be open despite the error
                failures.append(f"{host}:{port}: {_error_text(error)}")
                continue
            self._transport, self._client = transport, Client(TBinaryProtocolAccelerated(transport))
            return
        raise StorageError(
            f"cannot {action}: no Hive Metastore answers at {self.uri} ({'; '.join(failures)}); nothing was changed"
        )


def _server(uri: str) -> tuple[str, int]:
    with suppress(ValueError):  # a port that is not a number, or a bracket that is not closed
        parsed = urlparse(uri)
        if parsed.scheme == "thrift" and parsed.hostname:
            return parsed.hostname, parsed.port or _DEFAULT_PORT
    raise InvalidRequestError(f"{uri!r} is no URI of a Hive Metastore; thrift://host:port is expected")


def _batches(items: Sequence[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(items), _BATCH):
        yield list(items[start : start + _BATCH])


def _error_text(error: Exception) -> str:
    return " ".join(str(getattr(error, "message", None) or error).split()) or type(error).__name__
