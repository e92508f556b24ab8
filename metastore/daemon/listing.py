"""The tables that there are, catalog by catalog; one that does not answer is told of, and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from metastore.catalogs import Catalogs
from metastore.daemon.policy import TableName

Trouble = Callable[[str, Exception], object]
"""Called with the name of a catalog, and its error."""


def tables_of(catalogs: Catalogs, catalog: str, trouble: Trouble) -> Iterator[TableName]:
    """Every table of one catalog, as far as it answers."""
    try:
        for schema in catalogs.schemas(catalog):
            for name in catalogs.tables(catalog, schema):
                yield TableName(catalog, schema, name)
    except Exception as error:  # noqa: BLE001 - one bad catalog never stops the rest
        trouble(catalog, error)


def every_table(catalogs: Catalogs, trouble: Trouble) -> Iterator[TableName]:
    """Every table of every catalog."""
    for catalog in catalogs.names():
        yield from tables_of(catalogs, catalog, trouble)
