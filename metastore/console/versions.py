"""The pages of versions: those that are kept with what each cost, and the difference of two.

A difference of all tables compares where each table's own unit is stored, since a change of the table replaces it. The
difference of one table compares its segments the same way, and then the files of changed segments.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from metastore.components.operations.versions import Version
from metastore.components.requests import Request, of_table
from metastore.console.query import PagePosition, Query, part_of
from metastore.daemon.history import day_of
from metastore.errors import NotFoundError
from metastore.ground.epoch import millis_since_epoch
from metastore.model.bounds.units import LENGTH
from metastore.model.identity import TableInfo
from metastore.model.run_unit import RunUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.overview.natural_order import natural_order
from metastore.overview.tables import describe_tables
from metastore.session import Session

_VERSIONS: Final = 50
_SHOWN: Final = 200
_SEGMENTS: Final = 20
_OF_TABLES: Final = (MetadataType.TABLE,)
_OF_SEGMENTS: Final = (MetadataType.SEGMENT, MetadataType.FILE, MetadataType.ROW_GROUP)


@dataclass(frozen=True)
class Cost:
    """What the daemon's run that made a version took."""

    table: str | None
    milliseconds: int | None
    requests: int | None
    bytes_received: int | None
    bytes_sent: int | None


@dataclass(frozen=True, kw_only=True)
class KeptVersion:
    """One version; ids are texts, since browsers round large numbers. ``cost`` is that of the daemon's run, if any."""

    version: str
    parent: str | None
    time: datetime
    operation: str
    added: int
    removed: int
    total: int
    cost: Cost | None


@dataclass(frozen=True)
class VersionsPage:
    """One part of the kept versions, newest first."""

    part: PagePosition
    versions: Sequence[KeptVersion]


@dataclass(frozen=True)
class Changes:
    """Names that were added, removed and changed; ``more`` are left out."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    changed: Sequence[str] = ()
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class DifferencePage:
    """How version ``after`` differs from ``before``: in its tables, or in the segments, files and columns of one.

    ``files`` are those of the first changed segments; None if nothing is compared.
    """

    before: str
    after: str
    table: str | None
    tables: Changes | None = None
    segments: Changes | None = None
    files: Changes | None = None
    columns: Changes | None = None


def versions_page(session: Session, query: Query) -> VersionsPage:
    """Returns one part of the kept versions. Runs of the daemon are read for the days of that part only."""
    shown, part = part_of(session.metastore.tables.metadata.history(), query.number("page"), _VERSIONS)
    costs: dict[int, Cost] = {}
    if shown:
        runs = session.metastore.runs.since(day_of(millis_since_epoch(shown[-1].timestamp)))
        costs = {version: _cost(run) for run in runs if (version := _version_of(run)) is not None}
    return VersionsPage(part, [_describe_version(each, costs) for each in shown])


def difference_page(session: Session, query: Query) -> DifferencePage:
    """Returns the difference of ``before`` (by default the parent of ``after``) and ``after`` (by default the newest).

    With ``name``, it is that table's. Raises NotFoundError for a version that is not kept.
    """
    tables = session.metastore.tables
    after = query.number("after", 0) or tables.metadata.version
    before = query.number("before", 0) or _parent(tables.metadata.history(), after)
    name = query.text("name")
    if not name:
        changed = _compare_names(*(_places(session, None, _OF_TABLES, version) for version in (before, after)))
        return DifferencePage(before=str(before), after=str(after), table=None, tables=changed)
    info = session.table_info(name)
    places = [_places(session, info, _OF_SEGMENTS, version) for version in (before, after)]
    segments = _compare_names(*places)
    keys = [*segments.added, *segments.removed, *segments.changed][:_SEGMENTS]
    files = _compare_names(*(_files(session, info, keys, version) for version in (before, after)))
    columns = _compare_names(*(_columns(session, info, version) for version in (before, after)))
    return DifferencePage(
        before=str(before),
        after=str(after),
        table=str(info),
        tables=None,
        segments=segments,
        files=files,
        columns=columns,
    )


def _describe_version(version: Version, costs: Mapping[int, Cost]) -> KeptVersion:
    counts = (version.summary.get(name, "") for name in ("added-data-files", "deleted-data-files", "total-data-files"))
    added, removed, total = (int(text) if text.isdecimal() else 0 for text in counts)
    parent = None if version.parent is None else str(version.parent)
    cost = costs.get(version.version)
    return KeptVersion(
        version=str(version.version),
        parent=parent,
        time=version.timestamp,
        operation=version.operation,
        added=added,
        removed=removed,
        total=total,
        cost=cost,
    )


def _version_of(run: RunUnit) -> int | None:
    found = json.loads(run.result).get("version") if run.result and run.action == "analyze" else None
    return found if isinstance(found, int) else None


def _cost(run: RunUnit) -> Cost:
    return Cost(run.table, run.milliseconds, run.requests, run.bytes_received, run.bytes_sent)


def _parent(versions: Sequence[Version], version: int) -> int:
    for each in versions:
        if each.version == version:
            return each.parent or 0
    raise NotFoundError(f"version {version} is not kept; `metastore history` lists the versions")


def _places(
    session: Session, table: TableInfo | None, types: Sequence[MetadataType], version: int
) -> Mapping[str, Collection[str]]:
    """Returns where the units of each table, or of each segment of one table, are stored. Opens manifests only."""
    if not session.metastore.tables.metadata.keeps(version):
        raise NotFoundError(f"version {version} is not kept; `metastore history` lists the versions")
    read = session.metastore.tables.read().metadata_types(*types).columns("path").at(version)
    found: dict[str, set[str]] = {}
    for group in (read if table is None else read.filter(of_table(table))).groups():
        for planned in group.files.planned:
            *name, key = map(str, planned.key)
            if table is None or key != GENERAL_INFO:
                found.setdefault(str(TableInfo(*name)) if table is None else key, set()).add(planned.path)
    return found


def _files(session: Session, table: TableInfo, keys: Sequence[str], version: int) -> Mapping[str, Any]:
    """Returns size and time of the files of the segments ``keys``, by name."""
    read = session.metastore.tables.read().metadata_types(MetadataType.FILE).at(version)
    facts = read.filter(Request(table, metadata_keys=keys).expression()).facts(*_OF_FILES) if keys else ()
    return {
        str(name): (size, modified)
        for each in facts
        for name, size, modified in zip(*(each[column].to_pylist() for column in _OF_FILES), strict=True)
    }


_OF_FILES: Final = ("metadataIdentifier", LENGTH, "lastModifiedTime")


def _columns(session: Session, table: TableInfo, version: int) -> Mapping[str, Any]:
    return {column.name: column.type for each in describe_tables(session, [table], version) for column in each.columns}


def _compare_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Returns what differs, by name; at most :data:`_SHOWN` names of each kind."""
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    first = [sorted(names, key=natural_order)[:_SHOWN] for names in (added, removed, changed)]
    more = len(added) + len(removed) + len(changed) - sum(map(len, first))
    return Changes(first[0], first[1], first[2], more)
