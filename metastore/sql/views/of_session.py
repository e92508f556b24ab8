"""``ms.views`` and ``ms.materialized_views``: the components, with the operations that need a session.

Place in the flow: the components store units without checking their queries. This module creates units from SQL, and
checks, translates and refreshes them. A session uses these classes in place of the components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from datetime import timedelta

from metastore.components.component import Backing
from metastore.components.materialized_views import MATERIALIZED_VIEWS, MaterializedViews
from metastore.components.views import VIEWS, Views
from metastore.engines.telemetry import operation
from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import RefreshStatus
from metastore.model.vocabulary import MetadataType
from metastore.sql.views.context import ViewSession, names_of
from metastore.sql.views.definition import Definition, define_materialized_view, define_view
from metastore.sql.views.dialects import Translation, translate
from metastore.sql.views.drill_file import definition_of, file_text, path_of, read_file, write_file
from metastore.sql.views.expansion import Lookup
from metastore.sql.views.folders import views_with_folders
from metastore.sql.views.freshness import Freshness, lookup, status_of
from metastore.sql.views.iceberg_view import DIALECTS, export_view, import_view
from metastore.sql.views.names import Names
from metastore.sql.views.refresh import LEFT_BEHIND_AFTER, RefreshResult, refresh, remove_unneeded
from metastore.sql.views.text import DEFAULT_DIALECT


def _as_definition(query: str | Definition) -> Definition:
    return query if isinstance(query, Definition) else Definition(query)


class DefinedViews(Views):
    """The views component, and views from SQL."""

    def __init__(self, backing: Backing, session: ViewSession) -> None:
        super().__init__(VIEWS, backing)
        self._session = session
        self._freshness = Freshness()

    @property
    def freshness(self) -> Freshness:
        """The accepted age of materialized views' rows that SELECT reads in this session; the default is strict."""
        return self._freshness

    @freshness.setter
    def freshness(self, requested: Freshness | str) -> None:
        self._freshness = Freshness.of(requested)

    def define(
        self,
        name: TableInfo | str,
        query: str | Definition,
        *,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> int:
        """Create view ``name`` of a query, in Spark SQL unless a :class:`Definition` gives more.

        Returns the new version. Raises as :func:`metastore.sql.views.definition.define_view`, and InvalidRequestError
        when the name is taken.
        """
        now_ms = self._session.metastore.clock.now_ms()
        unit = define_view(names_of(self._session), TableInfo.of(name), _as_definition(query), now_ms)
        return self.create(unit, replace=replace, if_not_exists=if_not_exists)

    def in_dialect(self, name: TableInfo | str, dialect: str) -> Translation:
        """Returns the query of view ``name`` in ``dialect``, and the parts that have no counterpart there.

        If a text in that dialect is stored, it is returned; else a translation. Raises NotFoundError,
        InvalidRequestError.
        """
        unit = self.get(name)
        stored = (unit.representations or {}).get(dialect.lower())
        if stored is not None:
            return Translation(stored, dialect.lower(), ())
        return translate(unit.sql or "", unit.dialect or DEFAULT_DIALECT, dialect)

    def translate(self, name: TableInfo | str, dialects: Sequence[str]) -> int:
        """Store view ``name`` in these dialects too; returns the new version.

        Raises InvalidRequestError if a translation would lose meaning.
        """
        unit = self.get(name)
        asked = Definition(
            unit.sql or "",
            unit.dialect or DEFAULT_DIALECT,
            schema_path=tuple(unit.workspace_schema_path or ()),
            translations=dialects,
        )
        made = define_view(names_of(self._session), unit.info, asked, self._session.metastore.clock.now_ms())
        merged = {**(unit.representations or {}), **(made.representations or {})}
        changed = replaced(unit, representations=merged, last_modified_time=made.last_modified_time)
        return super().replace(changed, seen=unit)

    def to_drill_file(self, name: TableInfo | str, *, replace: bool = False) -> str:
        """Write view ``name`` as Drill's file into its workspace; returns the path.

        Drill finds it there by the same name. Raises NotFoundError, InvalidRequestError if the file exists or Drill
        cannot express the query, and StorageError.
        """
        unit = self.get(name)
        source = self._session.source(unit.info)
        path = path_of(source.location)
        write_file(path, file_text(unit), source.options, replace=replace)
        return path

    def from_drill_file(self, name: TableInfo | str, *, replace: bool = False) -> int:
        """Import the view that Drill keeps in a file of the workspace; returns the new version.

        Raises NotFoundError without such a file, FormatError, and as :meth:`define`.
        """
        source = self._session.source(TableInfo.of(name))
        path = path_of(source.location)
        limit = ReadLimits(self._session.metastore.settings.limits).limit_of("view_file")
        return self.define(source.table, definition_of(read_file(path, source.options, limit), path), replace=replace)

    def to_iceberg(
        self,
        name: TableInfo | str,
        catalog: str,
        identifier: str,
        *,
        tables: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> None:
        """Create view ``name`` as the Iceberg view ``identifier`` of a configured catalog.

        ``tables`` maps the names of the tables that it reads to their names there. Raises as
        :func:`metastore.sql.views.iceberg_view.export_view`.
        """
        unit, now_ms = self.get(name), self._session.metastore.clock.now_ms()
        target = self._session.catalogs.open(catalog)
        export_view(unit, target, identifier, tables=tables or {}, replace=replace, now_ms=now_ms)

    def from_iceberg(
        self,
        catalog: str,
        identifier: str,
        name: TableInfo | str,
        *,
        dialects: Sequence[str] = DIALECTS,
        tables: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> int:
        """Import the Iceberg view ``identifier`` of a configured catalog as view ``name``; returns the new version.

        ``tables`` maps the names of the tables that it reads to their names here. Raises as
        :func:`metastore.sql.views.iceberg_view.import_view`, and as :meth:`define`.
        """
        source = self._session.catalogs.open(catalog)
        definition = import_view(source, identifier, dialects=dialects, tables=tables or {})
        return self.define(name, definition, replace=replace)

    def lookup(self, freshness: Freshness | str | None = None, names: Names | None = None) -> Lookup:
        """Returns the current lookup of names for :func:`metastore.sql.views.expand`; make one for each statement.

        Without ``freshness``, the session's :attr:`freshness` applies. ``names`` may have been read before.
        """
        return lookup(self._session, self._freshness if freshness is None else freshness, names=names)


class RefreshedViews(MaterializedViews):
    """The materialized views component, and materialized views from SQL."""

    def __init__(self, backing: Backing, session: ViewSession) -> None:
        super().__init__(MATERIALIZED_VIEWS, backing)
        self._session = session

    def define(
        self,
        name: TableInfo | str,
        query: str | Definition,
        *,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> int:
        """Create materialized view ``name`` of a query, without rows until its first refresh; returns the new version.

        Raises as :func:`metastore.sql.views.definition.define_materialized_view`, and InvalidRequestError when the name
        is taken.
        """
        now_ms = self._session.metastore.clock.now_ms()
        unit = define_materialized_view(names_of(self._session), TableInfo.of(name), _as_definition(query), now_ms)
        return self.create(unit, replace=replace, if_not_exists=if_not_exists)

    def refresh(self, name: TableInfo | str, mode: str | None = None) -> RefreshResult:
        """Bring the rows of ``name`` up to date; see :func:`metastore.sql.views.refresh.refresh`."""
        info = TableInfo.of(name)
        with operation(
            "refresh", namespace=self._session.metastore.settings.iceberg.base_location, writes=[str(info)]
        ) as running:
            result = refresh(self._session, info, mode)
            running.reads += map(str, result.sources)
            running.counts |= {"files": result.files, "rows": result.rows or 0}
        return result

    def remove_unneeded(
        self, name: TableInfo | str | None = None, *, keep_for: timedelta = LEFT_BEHIND_AFTER
    ) -> list[TableInfo]:
        """Delete rows of earlier refreshes of ``name`` that nothing names any more.

        With None, this applies to all views, also to dropped ones. Each refresh does it for its own view. See
        :func:`metastore.sql.views.refresh.remove_unneeded`.
        """
        if name is not None:
            return remove_unneeded(self._session, TableInfo.of(name), keep_for=keep_for)
        read = self._session.tables.read().metadata_types(MetadataType.TABLE)
        rows = read.columns("storagePlugin", "workspace", "tableName").to_arrow().to_pylist()
        views = views_with_folders(TableInfo(*row.values()) for row in rows) | {unit.info for unit in self.list()}
        return [gone for view in sorted(views) for gone in remove_unneeded(self._session, view, keep_for=keep_for)]

    def status(self, name: TableInfo | str) -> RefreshStatus:
        """Returns PENDING, COMPLETE or STALE, by the sources' metadata, without listing files. Raises NotFoundError."""
        return status_of(self._session, self.get(name))
