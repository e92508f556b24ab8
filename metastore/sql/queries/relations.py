"""What the name of a table in a query means, and how its rows are read: projected, filtered, one batch after another.

A name is one of these::

    INFORMATION_SCHEMA.TABLES               FOR VERSION AS OF a version of the tables component
    metastore.components.tables             a component, FOR VERSION AS OF one of its versions
    catalog.schema.table                    an Iceberg table of a configured catalog
    catalog.schema."table$snapshots"        a metadata table of either
    orders_changes                          a view of ``create_changelog_view``
    plugin.workspace.table                  an analyzed table, or a view; with dir0, dir1 … if a query names them

A configured catalog wins over a storage plugin of the same name. Everything that one statement reads of a component or
of an Iceberg table is of one version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from metastore.components.information_schema import InformationSchema
from metastore.components.information_schema.relations import NAME, relation
from metastore.components.storage.table import look_together
from metastore.config.sql import SqlSettings
from metastore.duck.limits import limits_or
from metastore.duck.variants import reads_variants
from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.ground.suggestions import nearest
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.readable_columns import reasons_of_columns_left_out
from metastore.lake.iceberg.rows.changelog import Changelog, SnapshotRange
from metastore.lake.inspection import metadata_table, resolve_version
from metastore.lake.inspection.of_changes import CHANGES, changelog_up_to
from metastore.lake.inspection.of_partitions import partitions, partitions_schema
from metastore.lake.inspection.tables import PARTITIONS
from metastore.lake.writes.audit import Version
from metastore.lake.writes.row_changes import LiveRows
from metastore.model.identity import TableInfo
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.predicates.iceberg_filter import SESSION_ZONE
from metastore.scan.arrow_types import arrow_schema
from metastore.scan.directories import LEVEL
from metastore.scan.pruning.row_id import ROW_ID
from metastore.scan.scan import Scan
from metastore.sources.naming import path_named
from metastore.sql.queries.catalog_rows import CatalogRows
from metastore.sql.queries.narrowed_read import NarrowedRead, fitting, in_memory, narrowed_by, of_changelog, of_scan
from metastore.sql.queries.push_down import AskedRows
from metastore.sql.queries.relation import Relation
from metastore.sql.queries.row_parts import rows_of_scan
from metastore.sql.queries.time_travel import is_branch, table_at
from metastore.sql.queries.versioned_names import versioned_name
from metastore.sql.target import StatementTarget
from metastore.sql.views.expansion import ViewText
from metastore.sql.views.freshness import typed_query
from metastore.sql.views.names import Meaning, Names
from metastore.sql.views.unlisted_columns import UNLISTED


class Relations:
    """Resolves names for one statement."""

    def __init__(self, target: StatementTarget) -> None:
        self._target = target
        self.names = Names(target.metastore, target.tables.describe_unstored)
        self._views = target.views.lookup(names=self.names)
        self._versions: dict[str, int] = {}
        self._tables: dict[str, Table] = {}
        self._addressed: dict[tuple[str, Version], LiveRows] = {}
        self._read: set[str] = set()
        self._held: dict[str, pa.Table] = {}

    @property
    def limits(self) -> SqlSettings:
        """Memory and threads for the query."""
        return limits_or(self._target.settings.sql)

    @property
    def current(self) -> Sequence[str]:
        """What USE has chosen: nothing, a catalog, or a catalog and the levels of a schema."""
        chosen = self._target.catalogs.current
        return (*chosen[:1], *filter(None, [".".join(chosen[1:])]))

    def pin(self, target: TargetTable, table: Table, live: LiveRows | None, branch: str | None = None) -> None:
        """Make ``target`` mean the version ``table`` from now on.

        With ``live``, its rows have addresses as unlisted columns, where a name chooses ``branch``.
        """
        self._tables[str(target)] = table
        if live is not None:
            self._addressed[str(target), branch] = live

    def hold(self, name: str, rows: pa.Table) -> None:
        """Make the name ``name``, of one part, mean ``rows`` from now on."""
        self._held[name.lower()] = rows

    def look_together(self, names: Iterable[Sequence[str]]) -> None:
        """Look for the newest versions of all components at once, if one of ``names`` is of a storage plugin.

        Names have three parts or more. Everything that can have such a name is then known at one moment.
        """
        full = map(self._target.catalogs.full, names)
        if any(len(parts) > 2 and self.plugin_name(parts) is not None for parts in full):
            metastore = self._target.metastore
            look_together(
                each.backing.table for each in (metastore.views, metastore.materialized_views, metastore.tables)
            )

    def has_read(self, target: TargetTable) -> bool:
        """Returns whether a query has named ``target``, one of its metadata tables, or a view of it."""
        return str(target) in self._read

    def resolve(
        self,
        parts: Sequence[str],
        version: Version | SnapshotRange = None,
        named: Collection[str] = (),
        unlisted: Collection[str] = (),
    ) -> Relation | ViewText:
        """Returns the relation that a name means, at ``version``; for a view, its query.

        ``named`` are the names in the query, in lower case; columns that exist only on request are looked up in it.
        ``unlisted`` are the columns of :mod:`metastore.sql.views.unlisted_columns` that the query reads from this
        table.

        Raises NotFoundError, with the nearest names, and InvalidRequestError for a version of something without
        versions.
        """
        if isinstance(version, SnapshotRange):
            return self._of_changes(parts, version)
        if len(parts) == 2 and parts[0].lower() == NAME:
            return self._of_information_schema(parts[1], version)
        if len(parts) == 1 and parts[0].lower() in self._held:
            held = self._held[parts[0].lower()]
            return Relation(held.schema, lambda asked: iter(held.select(asked.columns).to_batches()), in_memory)
        if (log := self._changelog(parts)) is not None:
            if version is not None:
                raise InvalidRequestError(
                    f"{parts[0]} has no versions: a changelog view shows the snapshots that it was created from"
                )
            return _of_changelog(log)
        if (by_path := self._info_of_path(parts)) is not None:
            return self._relation_of_analyzed(by_path, version, named, unlisted)
        name = versioned_name(self._target.catalogs, parts).at(version)
        info = self.plugin_name(name.parts)
        try:
            if info is not None:
                return self._relation_of_analyzed(info, name.wanted, named, unlisted)
            return self._of_catalog(name.parts[0], ".".join(name.parts[1:-1]), name.parts[-1], name.wanted, unlisted)
        except NotFoundError as error:
            if len(name.parts) > len(parts):
                raise self._too_short(parts) from error
            if info is not None and (near := nearest(name.parts[0], self._target.catalogs.names())):
                raise NotFoundError(
                    f"there is no catalog or plugin {name.parts[0]}; did you mean {near[0]}?"
                ) from error
            raise

    def plugin_name(self, parts: Sequence[str]) -> TableInfo | None:
        """Returns the name in a storage plugin that these parts mean.

        Returns None for a name in a catalog or INFORMATION_SCHEMA. Raises NotFoundError for a name that is too short.
        """
        if (len(parts) == 2 and parts[0].lower() == NAME) or self._changelog(parts) is not None:
            return None
        if (info := self._info_of_path(parts)) is not None:
            return info
        parts = self._target.catalogs.full(parts)
        if len(parts) < 3:
            raise self._too_short(parts)
        if parts[0].lower() in {name.lower() for name in self._target.catalogs.names()}:
            return None
        return TableInfo(parts[0], parts[1], ".".join(parts[2:]))

    def _info_of_path(self, parts: Sequence[str]) -> TableInfo | None:
        path = path_named(self._target.settings.storage, parts)
        return None if path is None else self._target.table_info(path)

    def _changelog(self, parts: Sequence[str]) -> Changelog | None:
        return self._target.catalogs.changelogs.get(parts[0].lower()) if len(parts) == 1 else None

    def meaning(self, info: TableInfo) -> Meaning:
        """Returns the meaning of a name in a storage plugin.

        Raises NotFoundError, with the nearest names, if nothing has it.
        """
        return self.names.get(info)

    def text(self, info: TableInfo) -> ViewText | None:
        """Returns a view's query, or the query for a materialized view's rows; None for a table.

        A materialized view's own query gets the types of its stored rows, where DuckDB's types would differ.
        """
        found = self._views(info)
        meaning = None if found is None else self.names.find(info)
        unit = None if meaning is None else meaning.unit
        if not isinstance(unit, MaterializedViewMetadataUnit) or found != self.names.text(info):
            return found
        return typed_query(unit, self.names)

    def _of_information_schema(self, name: str, version: Version) -> Relation:
        """A table of INFORMATION_SCHEMA; by default of the versions that the whole statement reads."""
        found = relation(name)
        known = InformationSchema(self._target.metastore)
        if version is None:
            known = InformationSchema(self._target.metastore, {each: self._version(each) for each in self._components})
        elif isinstance(version, datetime):
            known = known.as_of(version)
        elif isinstance(version, int):
            known = known.at(version)
        else:
            raise InvalidRequestError(f"INFORMATION_SCHEMA has no branches and tags, so no {version!r}")

        def read(request: AskedRows) -> Iterator[pa.RecordBatch]:
            chosen = fitting(request, found.iceberg_schema)
            return iter(known.batches(found.name, request.columns, chosen.expression))

        return Relation(
            found.schema,
            read,
            lambda asked: narrowed_by(asked, fitting(asked, found.iceberg_schema)),
            found.iceberg_schema,
        )

    def _of_catalog(self, catalog: str, schema: str, name: str, wanted: Version, unlisted: Collection[str]) -> Relation:
        """A table of a catalog, or what ``$`` names of it: its changes, partitions or a metadata table."""
        base, dollar, kind = name.rpartition("$")
        if dollar:
            target = self._target.catalogs.target(catalog, schema, base)
            self._read.add(str(target))
            table = self._target.catalogs.load(catalog, schema, base)
            version = None if wanted is None else resolve_version(table, wanted)
            if kind.lower() == CHANGES:
                return _of_changelog(changelog_up_to(table, version or table.metadata.current_snapshot_id))
            if kind.lower() == PARTITIONS:
                return _of_partitions(table, version)
            rows = metadata_table(target, kind, version, table)
            return Relation(rows.schema, lambda asked: iter(rows.select(asked.columns).to_batches()), in_memory)
        target = self._target.catalogs.target(catalog, schema, name)
        self._read.add(str(target))
        if target.is_component:
            return self._of_component(target, wanted)
        return self._of_iceberg(target, wanted, unlisted)

    def _of_changes(self, parts: Sequence[str], between: SnapshotRange) -> Relation:
        full = self._target.catalogs.full(parts)
        target = self._target.catalogs.table(full[0], ".".join(full[1:-1]), full[-1].rpartition("$")[0])
        self._read.add(str(target))
        table = target.load()
        last = table.metadata.current_snapshot_id if between.last is None else resolve_version(table, between.last)
        if between.after is not None:
            resolve_version(table, between.after)
        return _of_changelog(Changelog.of(table, SnapshotRange(between.after, last)))

    def _of_component(self, target: TargetTable, wanted: Version) -> Relation:
        component = self._target.metastore.components[target.name]
        version = self._version(target.name) if wanted is None else resolve_version(target.load(), wanted)
        unit = component.definition.unit_type

        def read(request: AskedRows) -> Iterator[pa.RecordBatch]:
            found = component.read().metadata_types(MetadataType.ALL).columns(*request.columns).at(version)
            condition = fitting(request, schema).expression
            narrowed = found if isinstance(condition, AlwaysTrue) else found.filter(condition)
            return narrowed.to_batches()

        schema = iceberg_schema(unit)
        return Relation(
            plain_arrow_schema(unit), read, lambda asked: narrowed_by(asked, fitting(asked, schema)), schema
        )

    def _of_iceberg(self, target: TargetTable, version: Version, unlisted: Collection[str]) -> Relation:
        table = self._tables.get(str(target)) or self._target.catalogs.load(
            target.catalog_name, target.schema_name, target.name
        )
        self._tables[str(target)] = table
        live = self._addressed.get((str(target), version))
        version = self._target.catalogs.audit.version(table.metadata, version)
        if version is not None:
            branch = is_branch(table.metadata, version)
            table = table_at(table, resolve_version(table, version), by_its_own_schema=branch)
        rows = CatalogRows.of(target, table, unlisted, live)
        left_out = {} if reads_variants() else reasons_of_columns_left_out(table.schema())
        return Relation(
            rows.columns, rows.read, rows.narrow, rows.schema, rows.unlisted_columns, left_out, rows.on_store
        )

    def _relation_of_analyzed(
        self, info: TableInfo, version: Version, named: Collection[str], unlisted: Collection[str]
    ) -> Relation | ViewText:
        """A scan of the table, or the text of a view. Directory columns and row ids are there only if named."""
        view = self.text(info)
        if version is not None:
            raise InvalidRequestError(f"{info} has no earlier versions: only Iceberg tables keep earlier rows")
        if view is not None:
            return view
        tables = self._target.tables

        def plan_scan(request: AskedRows) -> Scan:
            scan = tables.scan(
                info,
                request.condition,
                [name for name in request.columns if name != ROW_ID or ROW_ID not in extra],
                row_id=ROW_ID in extra and ROW_ID in request.columns,
                among=request.row_ids if ROW_ID in extra else None,
                time_zone=SESSION_ZONE,
            )
            scan.require(pa.schema([schema.field(name) for name in request.columns]))
            # DuckDB filters the rows. A literal that engines read differently does not filter here; it only prunes.
            return replace(scan, superset=True)

        schema = arrow_schema(self.meaning(info).schema)
        levels = [name for name in named if LEVEL.fullmatch(name) and name not in schema.names]
        if levels:  # The directories' names are columns only on request, as in Drill.
            hidden = tables.scan(info, list_files=False).plan.hidden
            schema = pa.schema([*schema, *(column for column in hidden if column.name in levels)])

        def narrow(request: AskedRows) -> NarrowedRead:
            narrowed = of_scan(request, plan_scan(request))
            if ROW_ID not in extra or request.why_no_ids is None:
                return narrowed
            return replace(narrowed, lines=[*narrowed.lines, f"note: {request.why_no_ids}"])

        own = {name.lower() for name in schema.names}
        extra = [name for name in UNLISTED if name in unlisted and name not in own]
        schema = pa.schema([*schema, *(pa.field(name, UNLISTED[name]) for name in extra)])
        return Relation(
            schema,
            lambda asked: plan_scan(asked).to_batches(),
            narrow,
            unlisted=extra,
            left_out=self.meaning(info).schema.left_out,
            on_store=lambda asked: rows_of_scan(plan_scan(asked)),
        )

    def _version(self, component: str) -> int:
        if component not in self._versions:
            self._versions[component] = self._target.metastore.components[component].metadata.version
        return self._versions[component]

    @property
    def _components(self) -> list[str]:
        return list(self._target.metastore.components)

    def _too_short(self, parts: Sequence[str]) -> NotFoundError:
        """Returns the error for a name of one or two parts, with names that end in the same way."""
        name = ".".join(parts)
        tables = InformationSchema(self._target.metastore).tables(["TABLE_SCHEMA", "TABLE_NAME"])
        known = [f"{row['TABLE_SCHEMA']}.{row['TABLE_NAME']}" for row in tables.to_pylist()]
        ends = {".".join(each.lower().split(".")[-len(parts) :]): each for each in known}
        near = [ends[each] for each in nearest(name, ends)]
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        return NotFoundError(f"unknown table {name}{hint} Names are plugin.workspace.table or catalog.schema.table")


def _of_partitions(table: Table, version: int | None) -> Relation:
    """Returns ``$partitions``; manifests are read only if a query asks for more than partition statistics tell."""
    snapshot = table.metadata.current_snapshot() if version is None else table.metadata.snapshot_by_id(version)

    def read(request: AskedRows) -> Iterator[pa.RecordBatch]:
        try:
            found = partitions(table, snapshot, request.columns)
        except OSError as error:
            raise StorageError(f"cannot read the manifests of {'.'.join(table.name())}: {error}") from error
        return iter(found.select(request.columns).to_batches())

    return Relation(partitions_schema(table), read, in_memory)


def _of_changelog(log: Changelog) -> Relation:
    def read(request: AskedRows) -> Iterator[pa.RecordBatch]:
        return (batch.select(request.columns) for batch in log.batches())

    return Relation(log.schema, read, lambda asked: of_changelog(asked, len(log.snapshots)))
