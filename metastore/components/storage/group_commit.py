"""Group commit: threads of one process that commit at the same time share one snapshot, each with its own result.

Requests queue up. One thread leads: it commits all queued requests as one change, in their order. Requests that arrive
meanwhile wait, then one of their threads leads. So all waiting threads share the cost of a commit, and a single thread
pays nothing extra. A request with a condition, or one that deletes by filter, depends on the state before it: it can
only be the first of a group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from metastore.components.storage.clustering import Change
from metastore.components.storage.commit import Committer
from metastore.components.storage.table import TableState
from metastore.errors import ConflictError, MetastoreError, OutcomeUnknownError, StorageError
from metastore.ground.forks import renew_in_child
from metastore.lake.stores.files import discard
from metastore.model.mapping.rows import PartitionKey

Plan = Callable[[TableState], Change]


@dataclass(eq=False)
class _Request:
    """One thread's commit; it is settled once it has a version or an error."""

    plan: Plan
    data_files: Sequence[DataFile]
    io: FileIO
    looked: Table | None
    if_version: int | None
    opens_group: bool
    version: int | None = None
    error: BaseException | None = None

    @property
    def is_settled(self) -> bool:
        return self.version is not None or self.error is not None


@dataclass
class GroupCommitter:
    """Commits through ``committer`` for all threads of this process that share the component."""

    committer: Committer
    _queue: deque[_Request] = field(init=False)
    _lead: threading.Lock = field(init=False)

    def __post_init__(self) -> None:
        self._begin()
        renew_in_child(self._begin)

    def _begin(self) -> None:
        """Start with an empty queue: in a forked child, the parent commits what the parent's threads had queued."""
        self._queue = deque()
        self._lead = threading.Lock()

    def commit(
        self,
        plan: Plan,
        data_files: Sequence[DataFile],
        io: FileIO,
        if_version: int | None = None,
        *,
        conditional: bool = False,
        looked: Table | None = None,
    ) -> int:
        """Publish the change that ``plan`` returns, perhaps with others; returns the version that is current then.

        ``conditional`` says that the change depends on more state than the partitions that it replaces. ``looked`` is
        the newest version as this thread has just found it. Raises the
        errors of :meth:`Committer.commit`. An error of another thread's request is not raised here, unless the shared
        commit failed.
        """
        opens_group = conditional or if_version is not None
        request = _Request(plan, data_files, io, looked, if_version, opens_group)
        self._queue.append(request)
        try:
            while not request.is_settled:
                with self._lead:
                    if not request.is_settled:
                        self._commit(self._next_group())
        except BaseException:
            self._withdraw(request)
            raise
        if request.error is not None:
            raise request.error
        assert request.version is not None
        return request.version

    def looked_up_beside(self) -> Callable[[], Table | None]:
        """As :meth:`ComponentTable.looked_up_beside`; while other threads commit, their commit looks for all."""
        if self._lead.locked() or self._queue:
            return lambda: None
        return self.committer.table.looked_up_beside()

    def _withdraw(self, request: _Request) -> None:
        """Remove a request that no thread has begun to commit; its caller was interrupted and counts it as not done.

        If a thread has begun it, that thread settles it, and its caller must look at the history.
        """
        with suppress(ValueError):
            self._queue.remove(request)
            discard(request.io, [data_file.file_path for data_file in request.data_files])

    def _next_group(self) -> list[_Request]:
        group = [self._queue.popleft()]
        while self._queue and not self._queue[0].opens_group:
            group.append(self._queue.popleft())
        return group

    def _commit(self, group: Sequence[_Request]) -> None:
        """Commit ``group`` as one change; each request gets its version or error. Files that no change took go."""
        files = [data_file for request in group for data_file in request.data_files]
        unused: list[str] = []

        def plan(state: TableState) -> Change:
            changes = [change for request in group if (change := _plan_request(request, state)) is not None]
            merged = merge(changes)
            used = {data_file.file_path for data_file in merged.added.values()}
            unused[:] = [data_file.file_path for data_file in files if data_file.file_path not in used]
            return merged

        io = group[0].io
        try:
            # A look serves only its own request: another one may have begun after it.
            looked = group[0].looked if len(group) == 1 else None
            version = self.committer.commit(plan, files, io, looked)
        except BaseException as error:
            if isinstance(error, (ConflictError, StorageError)):
                discard(io, unused)
            _fail(group, error)
            if not isinstance(error, Exception):
                raise
            return
        discard(io, unused)
        for request in group:
            if request.error is None:
                request.version = version


def merge(changes: Sequence[Change]) -> Change:
    """Return one change with the effect of ``changes`` in order; only the first may have a filter."""
    if not changes:
        return Change()
    added: dict[PartitionKey, DataFile] = {}
    replaced: set[PartitionKey] = set()
    for change in changes:
        for key in change.replaced:
            added.pop(key, None)
        added.update(change.added)
        replaced |= change.replaced
    return replace(changes[0], replaced=frozenset(replaced), added=added)


def _plan_request(request: _Request, state: TableState) -> Change | None:
    """Return the request's change; None if planning failed, which settles only this request with the error."""
    if request.error is None:
        try:
            if request.if_version is not None and state.version != request.if_version:
                raise ConflictError(
                    f"version {state.version} is current, not {request.if_version}; nothing was changed"
                )
            return request.plan(state)
        except MetastoreError as error:
            request.error = error
    return None


def _fail(group: Sequence[_Request], error: BaseException) -> None:
    """Settle a group whose commit failed; each request gets an error of its own.

    If the leading thread was interrupted, the outcome is unknown for what it had reached.
    """
    failed: Exception
    if isinstance(error, Exception):
        failed = error
    else:
        failed = OutcomeUnknownError("the thread that committed for several was interrupted; look at the history")
    for request in group:
        if request.error is None:
            request.error = failed
            failed, cause = copy(failed), failed.__cause__
            failed.__cause__ = cause
