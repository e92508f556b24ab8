"""Lists all tables, catalog by catalog. A catalog that does not answer is reported and skipped.

Only the failing part is skipped: a namespace that may not be read hides no other namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from metastore.components.catalogs import Catalogs
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.policy import TableName
from metastore.daemon.unmatched_policies import CatalogContents

Trouble = Callable[[str, Exception], object]
"""Called with the name of a skipped part (``catalog lake``, ``namespace lake.shop``) and its error."""


@dataclass(frozen=True)
class Namespace:
    """A namespace that was listed. Its tables follow it in the listing."""

    catalog: str
    schema: str

    def __str__(self) -> str:
        """Returns ``catalog.namespace``."""
        return f"{self.catalog}.{self.schema}"


def catalog_of(catalogs: Catalogs, catalog: str, trouble: Trouble) -> Iterator[Namespace | TableName]:
    """Yields every namespace of one catalog, each followed by its tables. Raises if no namespace can be listed."""
    pointers: Mapping[tuple[str, str], str] | None = None
    for schema in catalogs.walk_schemas(catalog, lambda name, error: trouble(f"namespace {catalog}.{name}", error)):
        yield Namespace(catalog, schema)
        try:
            names = catalogs.tables(catalog, schema)
            pointers = pointers if pointers is not None else catalogs.listed_pointers(catalog) or {}
        except Exception as error:  # noqa: BLE001 - one bad namespace never hides the rest
            trouble(f"namespace {catalog}.{schema}", error)
            continue
        for name in names:
            yield TableName(catalog, schema, name, pointers.get((schema, name)))


def every_table(catalogs: Catalogs, trouble: Trouble) -> Iterator[TableName]:
    """Yields every table of every catalog that answers."""
    for catalog in catalogs.names():
        try:
            yield from (each for each in catalog_of(catalogs, catalog, trouble) if isinstance(each, TableName))
        except Exception as error:  # noqa: BLE001, PERF203 - one bad catalog never stops the rest
            trouble(f"catalog {catalog}", error)


def look_at(
    tables_of: Callable[[str, Trouble], Iterator[Namespace | TableName]],
    names: Iterable[str],
    inquiries: Inquiries,
    show_life: Callable[[], object] = lambda: None,
) -> tuple[CatalogContents, Mapping[str, Exception]]:
    """Returns the tables of the catalogs and storage plugins ``names``, and the skipped parts with their errors.

    ``inquiries`` limit the wait for each answer; ``show_life`` is called after each. Errors of a catalog are never
    raised: they are among the skipped parts.
    """
    seen = CatalogContents()
    passed_over: dict[str, Exception] = {}
    for catalog in names:
        seen.catalogs.add(catalog)
        question = partial(tables_of, catalog, passed_over.__setitem__)
        try:
            for each in inquiries.ask(f"catalog {catalog}", question):
                show_life()
                if isinstance(each, Namespace):
                    seen.namespaces.add(str(each))
                else:
                    seen.tables.add(each)
        except Exception as error:  # noqa: BLE001 - one bad catalog never stops the rest
            passed_over[f"catalog {catalog}"] = error
    seen.unknown = {place.partition(" ")[2] for place in passed_over}
    return seen, passed_over
