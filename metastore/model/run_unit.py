"""One row of the runs component: the daemon's action on a table, its reason, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from metastore.model.fields import ColumnType, Unit, stored_as


@dataclass(frozen=True)
class RunUnit(Unit):
    """One run of one action on one table; its partition is the UTC day on which it began (``2026-11-20``).

    ``status`` is one of: done; nothing (there was nothing to do); bounded (the budget was used up); stopped (the daemon
    shut down or lost its lease); failed. ``token`` is that of the lease under which it ran. Counts and sizes are those
    of the table's current snapshot before and after, in data files and bytes; None if the table does not provide them.
    Times are in epoch milliseconds. ``requests`` are those to object stores, ``bytes_received`` and ``bytes_sent`` the
    content in them (:mod:`metastore.engines.traffic`).
    """

    partition_columns: ClassVar[tuple[str, ...]] = ("day",)
    location_columns: ClassVar[tuple[str, ...]] = ("day",)

    day: str | None = stored_as("day", ColumnType.STRING)
    run_id: str | None = stored_as("runId", ColumnType.STRING)
    table: str | None = stored_as("table", ColumnType.STRING)
    action: str | None = stored_as("action", ColumnType.STRING)
    procedure: str | None = stored_as("procedure", ColumnType.STRING)
    reason: str | None = stored_as("reason", ColumnType.STRING)
    status: str | None = stored_as("status", ColumnType.STRING)
    host: str | None = stored_as("host", ColumnType.STRING)
    token: int | None = stored_as("token", ColumnType.LONG)
    started: int | None = stored_as("started", ColumnType.LONG)
    milliseconds: int | None = stored_as("milliseconds", ColumnType.LONG)
    files_before: int | None = stored_as("filesBefore", ColumnType.LONG)
    files_after: int | None = stored_as("filesAfter", ColumnType.LONG)
    bytes_before: int | None = stored_as("bytesBefore", ColumnType.LONG)
    bytes_after: int | None = stored_as("bytesAfter", ColumnType.LONG)
    snapshots_before: int | None = stored_as("snapshotsBefore", ColumnType.LONG)
    snapshots_after: int | None = stored_as("snapshotsAfter", ColumnType.LONG)
    result: str | None = stored_as("result", ColumnType.STRING)
    error: str | None = stored_as("error", ColumnType.STRING)
    requests: int | None = stored_as("requests", ColumnType.LONG)
    bytes_received: int | None = stored_as("bytesReceived", ColumnType.LONG)
    bytes_sent: int | None = stored_as("bytesSent", ColumnType.LONG)
