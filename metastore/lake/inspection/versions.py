"""Finds the snapshot of a version: an id, a branch or tag, or a time.

A time refers to the table's history: it means the snapshot that was current then, even if it was rolled back later.
"""

from __future__ import annotations

from datetime import datetime, timezone

from pyiceberg.table import Table

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.ground.epoch import EPOCH_UTC
from metastore.ground.suggestions import did_you_mean


def resolve_version(table: Table, version: int | str | datetime) -> int:
    """Returns the id of the snapshot for ``version``: a snapshot id, the name of a branch or tag, or a time.

    Raises NotFoundError if the table has no such version, InvalidRequestError for a time without a zone.
    """
    if isinstance(version, datetime):
        return _at_time(table, version)
    if isinstance(version, str):
        return _of_ref(table, version)
    if table.metadata.snapshot_by_id(version) is None:
        newest = table.metadata.current_snapshot_id
        raise NotFoundError(
            f"table {_name(table)} has no snapshot {version}: it never existed, or it has expired; "
            + (f"the current one is {newest}" if newest is not None else "the table is empty")
        )
    return version


def _of_ref(table: Table, name: str) -> int:
    refs = table.metadata.refs
    if name not in refs:
        hint = did_you_mean(name, refs, cutoff=0.5, otherwise=f"it has {', '.join(sorted(refs)) or 'none'}")
        raise NotFoundError(f"table {_name(table)} has no branch or tag {name!r}{hint}")
    return refs[name].snapshot_id


def _at_time(table: Table, time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidRequestError(f"a point in time needs a zone: {time} is ambiguous without one, such as +00:00")
    limit = (time - EPOCH_UTC).total_seconds() * 1000
    found = [entry for entry in table.metadata.snapshot_log if entry.timestamp_ms <= limit]
    if not found:
        first = min((entry.timestamp_ms for entry in table.metadata.snapshot_log), default=None)
        since = "it is empty" if first is None else f"its history begins at {_iso(first)}"
        raise NotFoundError(f"table {_name(table)} had no version at {time.isoformat()}: {since}")
    return resolve_version(table, found[-1].snapshot_id)


def _iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="milliseconds")


def _name(table: Table) -> str:
    return ".".join(table.name())
