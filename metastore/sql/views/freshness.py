"""How fresh the rows of a materialized view are, and whether they may be served instead of running its query.

A refresh records what it has read: the state of each source's metadata and of its files, how the used columns were
read, and a digest of the query with all views expanded. Comparing the metadata alone is cheap and gives the status.
Rows are complete while the metadata is the same, or while it describes exactly the files that were read. The strict
check lists the files, so that new data that nobody analyzed counts too. The rows of a query whose result can differ
each time are never fresh.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlglot import exp

from metastore.analyze.changes import state_of_files
from metastore.analyze.states import StoredTableState
from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError
from metastore.ground.digests import digest
from metastore.model.column_path import parse, quote
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit, RefreshStatus
from metastore.model.tuple_schema import FIELD_IDS, FIXED_LENGTH, MILLISECONDS, TupleSchema
from metastore.sql.views.bound_query import bind_query
from metastore.sql.views.context import ViewSession, files_of, names_of, workspace_of
from metastore.sql.views.expansion import Lookup, ViewText, expand
from metastore.sql.views.names import Meaning, NameKind, Names
from metastore.sql.views.references import table_named
from metastore.sql.views.runner import with_types
from metastore.sql.views.statements import additional
from metastore.sql.views.text import DEFAULT_DIALECT, parse_query

REFRESH: Final = "refresh"
"""Key of the additional metadata under which a refresh keeps what it has read."""

_MINUTE_MS: Final = 60_000
_BOUNDED: Final = re.compile(r"bounded\s*\(\s*(\d+(?:\.\d+)?)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class Freshness:
    """The accepted age of rows: ``strict`` accepts no outdated rows, ``bounded`` accepts ``minutes``, ``any`` all."""

    kind: Literal["strict", "bounded", "any"] = "strict"
    minutes: float = 0.0

    @classmethod
    def of(cls, text: str | Freshness) -> Freshness:
        """Read ``strict``, ``bounded(minutes)`` or ``any``. Raises InvalidRequestError for anything else."""
        if isinstance(text, Freshness):
            return text
        match text.strip().lower():
            case "strict":
                return cls("strict")
            case "any":
                return cls("any")
        bounded = _BOUNDED.fullmatch(text.strip())
        if bounded is None:
            raise InvalidRequestError(f"freshness is strict, bounded(minutes) or any, not {text!r}")
        return cls("bounded", float(bounded[1]))


@dataclass(frozen=True)
class SourceState:
    """The state of one source at a refresh: its metadata's state and version, the state of its files, its columns.

    The state of the files is the one that ANALYZE keeps: :func:`metastore.analyze.changes.state_of_files`. ``columns``
    is the result of :func:`columns_read`; None if an older release refreshed.
    """

    metadata: str | None
    version: int
    files: str
    count: int
    columns: Mapping[str, str] | None = None

    def other_column(self, now: Mapping[str, str]) -> str | None:
        """Returns a column that ``now`` reads differently than the refresh did; None if there is none."""
        columns = self.columns or {}
        return next((name for name in sorted({*columns, *now}) if columns.get(name) != now.get(name)), None)


@dataclass(frozen=True)
class LastRefresh:
    """The last refresh: its mode, the reason for it, its query, and its sources.

    ``folder`` is a digest of its folder's content; empty if an older release refreshed.
    """

    mode: str
    reason: str
    query: str
    steady: bool
    sources: Mapping[TableInfo, SourceState]
    folder: str

    @classmethod
    def of(cls, unit: MaterializedViewMetadataUnit) -> LastRefresh | None:
        """Returns the last refresh of ``unit``; None before the first one, and if another program wrote the unit."""
        try:
            kept: dict[str, Any] = additional(unit)[REFRESH]
            sources = {TableInfo(*parse(name)): SourceState(**state) for name, state in kept["sources"].items()}
            folder = kept.get("folder", "")
            return cls(kept["mode"], kept["reason"], kept["query"], kept["steady"], sources, folder)
        except (KeyError, TypeError, MetastoreError):
            return None

    def stored_in(self, unit: MaterializedViewMetadataUnit) -> MaterializedViewMetadataUnit:
        """Returns ``unit`` with this as its last refresh."""
        sources = {
            quote((table.storage_plugin, table.workspace, table.name)): vars(state)
            for table, state in self.sources.items()
        }
        kept = {**vars(self), "sources": sources}
        return replace(unit, additional_metadata=json.dumps({**additional(unit), REFRESH: kept}, ensure_ascii=False))


def query_of(unit: MaterializedViewMetadataUnit, names: Names) -> exp.Query:
    """Returns the query of ``unit`` over tables only; materialized views in it are replaced by their queries."""
    pinned = names.pins(unit.info, Meaning(NameKind.MATERIALIZED_VIEW, unit))
    return expand(unit.sql or "", names.text, schema_path=tuple(unit.workspace_schema_path or ()), pins=pinned)


def digest_of(unit: MaterializedViewMetadataUnit, names: Names) -> str:
    """Returns a text that changes when the query of ``unit``, or of a view that it reads, changes.

    Columns that were added to sources do not change it. Raises as :func:`query_of`.
    """

    def as_written(name: TableInfo) -> ViewText | None:
        found = names.find(name)
        return None if found is None else found.text

    query = expand(unit.sql or "", as_written, schema_path=tuple(unit.workspace_schema_path or ()))
    return digest(query.sql(DEFAULT_DIALECT)).hex()


def columns_read(table: Meaning, names: Collection[str]) -> dict[str, str]:
    """Returns how the columns in ``names`` (lower case) are read: their types and other declared properties.

    The entry under the empty name says how rows are read at all: the format of the files, the options of delimited
    text, and declarations about the table.
    """
    schema = table.schema
    found = {column.name: _type_with_properties(column.type, column.properties) for column in schema.columns}
    used = {name: state for name, state in found.items() if name.lower() in names}
    found_by = " ".join(filter(None, (table.format, table.text_options)))
    return {**used, "": _type_with_properties(found_by, schema.properties)}


def _type_with_properties(type_: str, properties: Mapping[str, str]) -> str:
    declared = {name: value for name, value in properties.items() if name not in _OF_FILES}
    return f"{type_} {json.dumps(declared, sort_keys=True)}" if declared else type_


_OF_FILES: Final = (FIELD_IDS, MILLISECONDS, FIXED_LENGTH)
"""Properties that say how files hold values, for publications; the values read are the same."""


def metadata_state(metastore: Metastore, table: TableInfo) -> str | None:
    """Returns a text that changes when the metadata of ``table`` describes its files differently.

    Returns None without metadata.
    """
    unit = metastore.tables.requests.table_metadata(table)
    if unit is None:
        return None
    if unit.additional_metadata is None:
        return f"modified {unit.last_modified_time}"
    return digest(unit.additional_metadata).hex()


def status_of(session: ViewSession, unit: MaterializedViewMetadataUnit) -> RefreshStatus:
    """Returns PENDING before the first refresh; STALE after a change of the query or of a source's metadata.

    Returns COMPLETE otherwise.
    """
    refreshed = LastRefresh.of(unit)
    if refreshed is None or unit.data_location is None:
        return RefreshStatus.PENDING
    names = names_of(session)
    try:
        query_of(unit, names)
        query = digest_of(unit, names)
    except InvalidRequestError:  # a view that it reads is broken or deleted
        return RefreshStatus.STALE
    same = all(
        _knows_no_others(session.metastore, table, state) and _reads_alike(names, table, state)
        for table, state in refreshed.sources.items()
    )
    return RefreshStatus.COMPLETE if same and query == refreshed.query else RefreshStatus.STALE


def _knows_no_others(metastore: Metastore, table: TableInfo, state: SourceState) -> bool:
    """Whether the metadata of ``table`` is as it was at the refresh, or describes exactly the files that were read."""
    if metadata_state(metastore, table) == state.metadata:
        return True
    unit = metastore.tables.requests.table_metadata(table)
    return unit is not None and StoredTableState.of(unit.additional_metadata).fingerprint == state.files


def _reads_alike(names: Names, table: TableInfo, state: SourceState) -> bool:
    """Whether the used columns of ``table`` are read as they were at the refresh."""
    found = names.find(table)
    if found is None or state.columns is None:
        return False
    return state.other_column(columns_read(found, {name.lower() for name in state.columns})) is None


def serves(session: ViewSession, unit: MaterializedViewMetadataUnit, freshness: Freshness, now_ms: int) -> bool:
    """Whether the rows of ``unit`` may replace its query; never if they are not all there as they were written."""
    refreshed = LastRefresh.of(unit)
    if refreshed is None or not stands(session, unit, refreshed):
        return False
    if freshness.kind == "any":
        return True
    if freshness.kind == "bounded" and now_ms - (unit.last_refresh_time or 0) <= freshness.minutes * _MINUTE_MS:
        return True
    if not refreshed.steady or status_of(session, unit) is not RefreshStatus.COMPLETE:
        return False
    return all(state_of_files(files_of(session, table)) == state.files for table, state in refreshed.sources.items())


def stands(session: ViewSession, unit: MaterializedViewMetadataUnit, refreshed: LastRefresh) -> bool:
    """Whether the rows of ``unit`` exist, and their metadata is as the refresh left it.

    No other view uses its folder and metadata, but anyone may delete them. A view that was renamed to another workspace
    has left both behind.
    """
    if unit.data_location is None:
        return False
    try:
        folder = workspace_of(session, unit.info).folder(unit.data_location)
    except NotFoundError:  # The query may work without the workspace.
        return False
    return metadata_state(session.metastore, folder.table) is not None and folder.digest() == refreshed.folder


def stored_rows(unit: MaterializedViewMetadataUnit) -> ViewText:
    """Returns the query that reads the stored rows of ``unit``."""
    data = TableInfo(unit.storage_plugin or "", unit.workspace or "", unit.data_location or "")
    columns = TupleSchema.from_json(unit.schema or "{}").columns
    query = exp.select(*(exp.column(exp.to_identifier(column.name, quoted=True)) for column in columns))
    return ViewText(query.from_(table_named(data)).sql(DEFAULT_DIALECT))


def typed_query(unit: MaterializedViewMetadataUnit, names: Names) -> ViewText:
    """Returns the query of ``unit`` in the types that a refresh would store, whichever engine runs it.

    If the sources no longer fit the query, it is returned unchanged, and the engine that runs it reports the error.
    """
    query = parse_query(unit.sql or "")
    with suppress(InvalidRequestError, NotFoundError):
        query = with_types(query, bind_query(query_of(unit, names), names).bound.schema)
    pinned = names.pins(unit.info, Meaning(NameKind.MATERIALIZED_VIEW, unit))
    return ViewText(query.sql(DEFAULT_DIALECT), DEFAULT_DIALECT, tuple(unit.workspace_schema_path or ()), pinned)


def lookup(
    session: ViewSession,
    freshness: Freshness | str = "strict",
    *,
    now_ms: Callable[[], int] | None = None,
    names: Names | None = None,
) -> Lookup:
    """Returns the lookup of names in ``session`` for :func:`metastore.sql.views.expand`.

    Views are replaced by their queries. Materialized views are replaced by their rows if these are fresh enough, else
    by their queries. A lookup sees one state of each object: make one for each statement.
    """
    wanted = Freshness.of(freshness)
    names = names_of(session) if names is None else names
    clock = now_ms or session.metastore.clock.now_ms
    decided: dict[TableInfo, ViewText | None] = {}

    def look_up(name: TableInfo) -> ViewText | None:
        if name not in decided:
            found = names.find(name)
            match found.unit if found else None:
                case MaterializedViewMetadataUnit() as unit if serves(session, unit, wanted, clock()):
                    decided[name] = stored_rows(unit)
                case _:
                    decided[name] = names.text(name)
        return decided[name]

    return look_up
