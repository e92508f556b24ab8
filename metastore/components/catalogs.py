"""All named Iceberg tables of this deployment: the components' tables and the tables of configured catalogs.

Procedures, metadata tables and queries name ``catalog.schema.table`` and get a :class:`TargetTable` here, for own and
foreign tables alike. The catalog ``metastore`` has one schema, ``components``, with one table for each component. Other
catalogs are configured as ``drill.metastore.catalogs.<name>``. Catalogs are opened on first use. Errors of foreign
catalogs are mapped here: a missing object is a NotFoundError that suggests near names; a failure is a StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from metastore.components.metastore import Metastore
from metastore.components.storage.table import ComponentTable
from metastore.config.catalogs import OWN_CATALOG
from metastore.config.own_workspaces import own_workspaces
from metastore.config.plugins import StoragePluginSettings
from metastore.errors import FormatError, InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, failures_of
from metastore.lake.iceberg.catalogs.catalogs import ForeignCatalog
from metastore.lake.iceberg.catalogs.pointers import Pointer, listed_pointers, newest_view
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.reach_index import ReachIndex
from metastore.lake.writes.audit import Audit
from metastore.redaction import showable

if TYPE_CHECKING:
    from metastore.lake.iceberg.rows.changelog import Changelog

COMPONENTS: Final = "components"
"""The only schema of the catalog ``metastore``."""

_NESTED: Final = ("sql", "rest", "in-memory")
"""Kinds of catalogs whose nested namespaces are listed; on a file system, that would walk all data."""

_WITH_VIEWS: Final = ("rest",)
"""Kinds of catalogs in which PyIceberg supports views."""


Pointers = dict[tuple[str, str | None], Pointer | MetastoreError]
"""Where each table points, by schema and name, or why it is unknown."""


class Catalogs:
    """All catalogs of a deployment by name, including ``metastore``. Threads may share it. Closes what it opened."""

    def __init__(self, metastore: Metastore) -> None:
        self.metastore = metastore
        """The metastore whose components are the tables of the catalog ``metastore``."""
        self.reach = ReachIndex()
        """Which tables have files where, for the life of this object."""
        self.changelogs: dict[str, Changelog] = {}
        """Changelogs that ``create_changelog_view`` has named, by name in lower case, for the life of this object."""
        configured = metastore.settings.catalogs
        own = own_workspaces(metastore.settings.storage)
        self._workspace: tuple[str, ...] = own[0] if len(own) == 1 else ()
        plugins = tuple({plugin for plugin, _ in own})
        self.current: tuple[str, ...] = only if len(only := tuple(configured) or plugins) == 1 else ()
        """What USE has chosen: a catalog, or a catalog or storage plugin and a schema.

        By default the only catalog; without catalogs, the only plugin with workspaces of its own.
        """
        self.audit = Audit()
        """What SET has chosen for tables that are written, audited and published."""
        self._foreign = {
            name: ForeignCatalog(name, settings, metastore.settings.limits) for name, settings in configured.items()
        }

    def names(self) -> list[str]:
        """Return the names of all catalogs: ``metastore`` first, then the others in the order of the configuration."""
        return [OWN_CATALOG, *self._foreign]

    def full(self, parts: Sequence[str]) -> Sequence[str]:
        """Return the parts of a name after those of :attr:`current` that it lacks; as they are if it is too short.

        A name alone is one of the only workspace that was configured, unless USE has chosen a schema.
        """
        if len(parts) == 1 and (chosen := self.current if len(self.current) > 1 else self._workspace):
            return [*chosen, *parts]
        return [*self.current[:1], *parts] if len(parts) == len(("schema", "table")) else parts

    def canonical(self, catalog: str) -> str:
        """Return the configured spelling of ``catalog``, ignoring case. Raises NotFoundError with near names."""
        by_lower = {name.lower(): name for name in self.names()}
        found = by_lower.get(catalog.lower())
        if found is None:
            plugins = self.metastore.settings.storage
            if (plugin := plugins.get(catalog) or plugins.get(catalog.lower())) is not None:
                raise NotFoundError(_said_of_plugin(plugin, self._foreign))
            raise NotFoundError(
                f"catalog {catalog} does not exist{did_you_mean(catalog, self.names(), cutoff=0.5)}; catalogs are "
                "configured as drill.metastore.catalogs.<name>"
            )
        return found

    def schemas(self, catalog: str) -> list[str]:
        """Return the schemas of ``catalog``, sorted; nested ones with dots. Raises NotFoundError, StorageError.

        A file system catalog whose warehouse folder does not exist yet is empty: the first table creates the folder.
        """
        return sorted(self.walk_schemas(catalog, _raise_error))

    def walk_schemas(self, catalog: str, trouble: Callable[[str, Exception], object]) -> Iterator[str]:
        """Yield the schemas of ``catalog`` while they are listed, parents before children. Raises as :meth:`schemas`.

        If the children of a schema cannot be listed, calls ``trouble`` with the schema's name and the error.
        """
        source = self._source(catalog)
        if source is None:
            yield COMPONENTS
            return
        waiting: list[Identifier] = [()]
        while waiting:
            above = waiting.pop(0)
            try:
                found = self._schemas_in(source, above)
            except Exception as error:
                if not above:
                    raise
                trouble(".".join(above), error)
                continue
            yield from (".".join(name) for name in found)
            waiting += found if source.settings.type in _NESTED else []

    def namespaces(self, catalog: str, above: Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below ``above``, in no order; none if it does not exist.

        Raises NotFoundError for a catalog that is not configured, StorageError.
        """
        source = self._source(catalog)
        if source is None:
            return [] if above else [(COMPONENTS,)]
        return self._schemas_in(source, above)

    def namespace_properties(self, catalog: str, namespace: Identifier) -> Mapping[str, str] | None:
        """Return the properties of a namespace; None if it does not exist. Raises as :meth:`namespaces`."""
        source = self._source(catalog)
        if source is None:
            return {} if namespace == (COMPONENTS,) else None
        with failures_of(source), source.turn, suppress(NoSuchNamespaceError, NoSuchTableError):
            return {str(key): str(value) for key, value in source.catalog.load_namespace_properties(namespace).items()}
        return None

    @staticmethod
    def _schemas_in(source: ForeignCatalog, above: Identifier) -> list[Identifier]:
        with failures_of(source, NoSuchNamespaceError), source.turn:
            try:
                return list(source.catalog.list_namespaces(above) if above else source.catalog.list_namespaces())
            except NoSuchNamespaceError as error:
                if above or source.settings.type == "filesystem":
                    return []  # Dropped since the listing, or not created yet.
                raise StorageError(f"{source} does not answer: {error_text(error)}") from showable(error)

    def tables_in(self, catalog: str, namespace: Identifier) -> list[str] | None:
        """Return the tables directly in a namespace, sorted; only existing components. None if it does not exist.

        Raises as :meth:`namespaces`.
        """
        source = self._source(catalog)
        if source is None:
            if namespace != (COMPONENTS,):
                return None
            return sorted(name for name, table in self._components(COMPONENTS).items() if table.load() is not None)
        with failures_of(source), source.turn, suppress(NoSuchNamespaceError):
            return sorted(name[-1] for name in source.catalog.list_tables(namespace))
        return None

    def views_in(self, catalog: str, namespace: Identifier) -> list[str] | None:
        """Return the Iceberg views directly in a namespace, sorted. Otherwise as :meth:`tables_in`.

        There are none in catalogs for which PyIceberg supports no views.
        """
        source = self._source(catalog)
        if source is not None and source.settings.type in _WITH_VIEWS:
            with failures_of(source), source.turn, suppress(NoSuchNamespaceError):
                return sorted(name[-1] for name in source.catalog.list_views(namespace))
            return None
        return None if self.namespace_properties(catalog, namespace) is None else []

    def view_document(self, catalog: str, identifier: Identifier) -> Mapping[str, Any] | None:
        """Return the location and the metadata of an Iceberg view as JSON; None if it does not exist.

        Raises as :meth:`namespaces`.
        """
        source = self._source(catalog)
        if source is None or source.settings.type not in _WITH_VIEWS:
            return None
        with failures_of(source):
            return newest_view(source, identifier)

    def tables(self, catalog: str, schema: str) -> list[str]:
        """Return the tables of a schema, sorted; only existing components. Raises NotFoundError, StorageError."""
        if self._source(catalog) is None:
            self._components(schema)
        found = self.tables_in(catalog, _levels(schema))
        if found is None:
            raise self._no_schema(catalog, schema)
        return found

    def pointers(self, catalog: str) -> Pointers:
        """Return where the tables of ``catalog`` point.

        If a schema cannot be listed, its name and None have the error. A catalog whose listings have the locations is
        asked once, any other one once a table. Raises NotFoundError, StorageError.
        """
        listed = self.listed_pointers(catalog)
        if listed is not None:
            return {key: Pointer(at) if at else _without_metadata(catalog, *key) for key, at in listed.items()}
        found: dict[tuple[str, str | None], Pointer | MetastoreError | None] = {}
        for schema in self.schemas(catalog):
            try:
                names = self.tables(catalog, schema)
            except MetastoreError as error:
                found[schema, None] = error
                continue
            for name in names:
                try:
                    found[schema, name] = self.target(catalog, schema, name).newest_version()
                except MetastoreError as error:  # noqa: PERF203 - one bad table hides no other
                    found[schema, name] = error
        return {key: pointer for key, pointer in found.items() if pointer is not None}

    def listed_pointers(self, catalog: str) -> dict[tuple[str, str], str] | None:
        """Return the pointers of all tables from one listing, empty for an entry without one.

        None for a catalog whose listings have none: a file system, a REST server. Raises as :meth:`pointers`.
        """
        source = self._source(catalog)
        if source is None:
            return None
        with failures_of(source):
            return listed_pointers(source)

    def table(self, catalog: str, schema: str, name: str) -> TargetTable:
        """Return an existing table; its metadata is not read.

        Raises NotFoundError, which suggests near names, if the catalog, schema or table does not exist, and the errors
        of :meth:`TargetTable.newest_pointer`.
        """
        target = self.target(catalog, schema, name)
        with self._suggesting(target):
            target.require_there()
        return target

    def load(self, catalog: str, schema: str, name: str) -> Table:
        """Return an existing table at its newest version. Raises as :meth:`table`."""
        target = self.target(catalog, schema, name)
        with self._suggesting(target):
            return target.load()

    @contextmanager
    def _suggesting(self, target: TargetTable) -> Iterator[None]:
        """Within, the error about a missing ``target`` suggests near names, or says that there is no such schema."""
        try:
            yield
        except NotFoundError as error:
            if target.is_component:
                raise
            catalog, schema, name = target.catalog_name, target.schema_name, target.name
            tables = self.tables(catalog, schema)
            if name in tables:
                raise
            if not tables and schema not in self.schemas(catalog):
                raise self._no_schema(catalog, schema) from error
            raise NotFoundError(f"{error}{did_you_mean(name, tables, cutoff=0.5)}") from error

    def target(self, catalog: str, schema: str, name: str) -> TargetTable:
        """Return the target of a name, whether or not the table exists; sends no request to a foreign catalog.

        Raises NotFoundError for a catalog that is not configured, InvalidRequestError for an empty name.
        """
        return self.target_in(catalog, _levels(schema), name)

    def target_in(self, catalog: str, namespace: Identifier, name: str) -> TargetTable:
        """As :meth:`target`, by the levels of the namespace, which may contain dots."""
        if not (name and all(namespace)):
            raise InvalidRequestError(f"{'a schema' if name else 'a table'} of catalog {catalog} has an empty name")
        catalog, schema = self.canonical(catalog), ".".join(namespace)
        source = self._source(catalog)
        if source is not None:
            return TargetTable(catalog, schema, name, source, (*namespace, name))
        components = self._components(schema)
        if name not in components:
            raise NotFoundError(
                f"the metastore has no component {name}{did_you_mean(name, list(components), cutoff=0.5)}"
            )
        table = components[name]
        return TargetTable(OWN_CATALOG, schema, name, table.entry.source, table.entry.identifier, table.load)

    def has_table(self, full: Sequence[str]) -> bool:
        """Return whether a catalog has a table of this name, which begins with the catalog. Raises StorageError."""
        if len(full) < 3 or full[0].lower() not in {name.lower() for name in self.names()}:
            return False
        try:
            return self.target_in(full[0], tuple(full[1:-1]), full[-1]).newest_pointer() is not None
        except (NotFoundError, InvalidRequestError):
            return False

    def open(self, catalog: str) -> Catalog:
        """Open a configured catalog as PyIceberg's; a missing SQLite database is created.

        Raises NotFoundError, ConfigError, StorageError.
        """
        source = self._source(catalog)
        if source is None:
            raise InvalidRequestError(
                f"{OWN_CATALOG} is the metastore's own; its tables are changed by its components and by procedures only"
            )
        source.may_create = True
        return source.catalog

    def close(self) -> None:
        """Release connections; a later use opens new ones."""
        for source in self._foreign.values():
            source.close()

    def _source(self, catalog: str) -> ForeignCatalog | None:
        return self._foreign.get(self.canonical(catalog))

    def _components(self, schema: str) -> dict[str, ComponentTable]:
        if schema != COMPONENTS:
            raise NotFoundError(
                f"schema {OWN_CATALOG}.{schema} does not exist; did you mean {OWN_CATALOG}.{COMPONENTS}?"
            )
        return {name: component.table for name, component in self.metastore.components.items()}

    def _no_schema(self, catalog: str, schema: str) -> NotFoundError:
        return NotFoundError(
            f"schema {catalog}.{schema} does not exist{did_you_mean(schema, self.schemas(catalog), cutoff=0.5)}"
        )


def _said_of_plugin(plugin: StoragePluginSettings, catalogs: Iterable[str]) -> str:
    """Returns what can be done with the tables of ``plugin``, which are named where a catalog's table is needed."""
    if plugin.catalog is not None:
        return f"{plugin.name} is a plugin that reads catalog {plugin.catalog}: name the table as {plugin.catalog}.…"
    into = next(iter(catalogs), "<catalog>")
    migration = f"; CALL {into}.system.migrate makes a table of Hive an Iceberg table" if plugin.type == "hive" else ""
    return (
        f"{plugin.name} is a plugin with {plugin.kind.title}, which are read only here. "
        f"SELECT, scans and ANALYZE read them, CREATE VIEW stores a query over them, "
        f"CREATE TABLE {into}.<schema>.<table> AS SELECT copies them into a table that can be changed{migration}"
    )


def _raise_error(schema: str, error: Exception) -> None:  # noqa: ARG001 - the error names the catalog
    raise error


def _without_metadata(catalog: str, schema: str, name: str) -> FormatError:
    return FormatError(f"{catalog}.{schema}.{name} names no metadata file: it is not an Iceberg table")


def _levels(schema: str) -> Identifier:
    return tuple(schema.split("."))
