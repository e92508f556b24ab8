"""All Iceberg tables that a deployment can name: those of its components, and those of the catalogs of others.

Place in the flow: procedures, metadata tables and queries say ``catalog.schema.table``, and get a :class:`TargetTable`
here, whoever's it is. The catalog ``metastore`` has one schema, ``components``, with a table for each component; the
others are ``drill.metastore.catalogs.<name>``. Nothing is opened before it is asked for. Errors of foreign catalogs
are mapped here: what cannot be found is a NotFoundError that names what is near, what fails is a StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.typedef import Identifier

from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import (
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from metastore.iceberg.catalog_errors import failures_of, said
from metastore.iceberg.catalogs import ForeignCatalog
from metastore.iceberg.known_reach import KnownReach
from metastore.iceberg.target import TargetTable
from metastore.metastore import Metastore
from metastore.redaction import showable
from metastore.storage.table import ComponentTable
from metastore.suggestions import did_you_mean

COMPONENTS: Final = "components"
"""The one schema of the catalog of the component tables."""

_NESTED: Final = ("sql", "rest", "in-memory")
"""Kinds of catalogs whose nested namespaces are listed; a file system's would take a walk through all data."""


class Catalogs:
    """Every catalog of a deployment by its name, our own included; closes those that it opened. Shared by threads."""

    def __init__(self, metastore: Metastore) -> None:
        self.metastore = metastore
        """Whose components are the tables of the catalog ``metastore``."""
        self.known_reach = KnownReach()
        """What metadata files and manifests of any table are known to reach, for as long as this object lives."""
        configured = metastore.settings.catalogs
        self._foreign = {
            name: ForeignCatalog(name, settings, metastore.settings.limits) for name, settings in configured.items()
        }

    def names(self) -> list[str]:
        """Names of all catalogs: ``metastore`` first, then the configured ones as they stand."""
        return [OWN_CATALOG, *self._foreign]

    def canonical(self, catalog: str) -> str:
        """The name as it is configured, found without regard to case. Raises NotFoundError, and names what is near."""
        by_lower = {name.lower(): name for name in self.names()}
        found = by_lower.get(catalog.lower())
        if found is None:
            raise NotFoundError(
                f"catalog {catalog} does not exist{did_you_mean(catalog, self.names(), cutoff=0.5)}; catalogs are "
                "configured as drill.metastore.catalogs.<name>"
            )
        return found

    def schemas(self, catalog: str) -> list[str]:
        """Schemas of ``catalog``, sorted; nested ones with dots. Raises NotFoundError, StorageError.

        A file system whose warehouse is no folder yet is an empty catalog: the first table makes the folder.
        """
        return sorted(self.walk_schemas(catalog, _raised))

    def walk_schemas(self, catalog: str, trouble: Callable[[str, Exception], object]) -> Iterator[str]:
        """Schemas of ``catalog`` as they are listed, an outer one before those inside it. Raises as :meth:`schemas`.

        ``trouble`` is called with the name of a schema whose own schemas cannot be listed, and with the error.
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

    @staticmethod
    def _schemas_in(source: ForeignCatalog, above: Identifier) -> list[Identifier]:
        with failures_of(source, NoSuchNamespaceError), source.turn:
            try:
                return list(source.opened.list_namespaces(above) if above else source.opened.list_namespaces())
            except NoSuchNamespaceError as error:
                if above or source.settings.type == "filesystem":
                    return []  # Dropped since it was listed, or not made yet.
                raise StorageError(f"{source} does not answer: {said(error)}") from showable(error)

    def tables(self, catalog: str, schema: str) -> list[str]:
        """Tables of one schema, sorted; of components those that exist. Raises NotFoundError, StorageError."""
        source = self._source(catalog)
        if source is None:
            return sorted(name for name, table in self._components(schema).items() if table.load() is not None)
        try:
            with failures_of(source, NoSuchNamespaceError), source.turn:
                return sorted(name[-1] for name in source.opened.list_tables(_levels(schema)))
        except NoSuchNamespaceError as error:
            raise self._no_schema(catalog, schema) from error

    def table(self, catalog: str, schema: str, name: str) -> TargetTable:
        """The table of that name, which exists at this moment.

        Raises NotFoundError, which names what is near, for a catalog, schema or table that does not exist, and as
        :meth:`TargetTable.load`.
        """
        target = self.target(catalog, schema, name)
        try:
            target.load()
        except NotFoundError as error:
            if target.is_component:
                raise
            tables = self.tables(catalog, schema)
            if not tables and schema not in self.schemas(catalog):
                raise self._no_schema(catalog, schema) from error
            raise NotFoundError(f"{error}{did_you_mean(name, tables, cutoff=0.5)}") from error
        return target

    def target(self, catalog: str, schema: str, name: str) -> TargetTable:
        """The place of that name, which a table may stand at or not; asks nothing of a catalog of others.

        Raises NotFoundError for a catalog that is not configured, InvalidRequestError for an empty name.
        """
        if not (name and all(_levels(schema))):
            raise InvalidRequestError(f"{'a schema' if name else 'a table'} of catalog {catalog} is named by nothing")
        catalog = self.canonical(catalog)
        source = self._source(catalog)
        if source is not None:
            return TargetTable(catalog, schema, name, source, (*_levels(schema), name))
        components = self._components(schema)
        if name not in components:
            raise NotFoundError(
                f"the metastore has no component {name}{did_you_mean(name, list(components), cutoff=0.5)}"
            )
        table = components[name]
        return TargetTable(OWN_CATALOG, schema, name, table.entry.source, table.entry.identifier, table.load)

    def open(self, catalog: str) -> Catalog:
        """PyIceberg's catalog of a configured one; a database of SQLite that is not there is made.

        Raises NotFoundError, ConfigError, StorageError.
        """
        source = self._source(catalog)
        if source is None:
            raise InvalidRequestError(
                f"{OWN_CATALOG} is the metastore's own; its tables are changed by its components and by procedures only"
            )
        source.may_create = True
        return source.opened

    def close(self) -> None:
        """Give connections back; a later use opens new ones."""
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


def _raised(schema: str, error: Exception) -> None:  # noqa: ARG001 - the error names the catalog
    raise error


def _levels(schema: str) -> Identifier:
    return tuple(schema.split("."))
