"""The folders below which a run on one table may delete files: the operator's word, never that of the table's writers.

Place in the flow: expiration, orphans, old metadata, statistics and PURGE ask here, and
:class:`~metastore.lake.stores.deletion.Deletion` keeps every file outside. A root is the warehouse of the table's
catalog, an allowed location of the configuration or call, or the place where the catalog made the table. A location
that was set later is no root: whoever may write the table can set it.

The catalog made the table at its location if that is where its namespace puts a table of this name, or if the first
version of its metadata stands there. No later commit writes a file without a metadata log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from pyiceberg.table import Table

from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.catalog_errors import UNREADABLE, failures_of
from metastore.lake.iceberg.catalogs.catalogs import CatalogSource
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.stores.bounded_reading import table_metadata
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import OUTSIDE
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import Folder, files_in
from metastore.procedures.files.inventory import version_of

_SHOWN: Final = 3


def deletion_roots(target: TargetTable, table: Table, allowed: Iterable[str] = ()) -> Roots:
    """Returns the roots of a run on ``table``, with the ``allowed`` folders of the configuration and the call.

    The catalog and the store are asked only if the table lies in none of the others. Raises StorageError.
    """
    location = table.metadata.location
    if target.is_component:
        return Roots((location, *allowed))
    roots = Roots((*_warehouse(target.source), *allowed))
    if roots.hold_folder(location):
        return roots
    is_made_here = _is_at_default(target, table) or _is_first_here(table)
    return Roots((*roots.folders, location)) if is_made_here else roots


def is_own_location(target: TargetTable, table: Table) -> bool:
    """Returns whether the location holds this table alone, so that what nothing reaches there is its orphan.

    In a warehouse it is as deep as a table of the table's schema: the folders above belong to others, too. Raises
    StorageError.
    """
    location = table.metadata.location.rstrip("/")
    if target.is_component:
        return True
    for warehouse in _warehouse(target.source):
        levels = Spelling().path(f"{location}/_").removeprefix(Spelling().path(f"{warehouse.rstrip('/')}/_")[:-1])
        if Roots((warehouse,)).hold_folder(location) and levels.count("/") >= len(target.identifier):
            return True
    return _is_at_default(target, table) or _is_first_here(table)


def said_of_kept(kept: Sequence[str]) -> str:
    """Returns a sentence about files outside of all roots, for the user; empty if there are none."""
    if not kept:
        return ""
    more = f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
    return f"{len(kept)} files that nothing needs stay, {', '.join(kept[:_SHOWN])}{more}: {OUTSIDE}"


def _warehouse(source: CatalogSource) -> tuple[str, ...]:
    """Returns the folder of the catalog's warehouse; empty if a server has only a name for it."""
    warehouse = source.settings.properties.get("warehouse") or source.catalog.properties.get("warehouse", "")
    is_place = "://" in warehouse or warehouse.startswith(("/", "file:"))
    return (warehouse,) if warehouse and (is_place or source.settings.type not in ("rest", "glue")) else ()


def _is_at_default(target: TargetTable, table: Table) -> bool:
    """Returns whether ``table`` lies where its namespace puts a table of its name."""
    location, source = table.metadata.location.rstrip("/"), target.source
    with suppress(MetastoreError), failures_of(source), source.turn:
        namespace = source.catalog.load_namespace_properties(target.identifier[:-1]).get("location")
        place = Spelling().place
        if namespace:
            return place(f"{namespace.rstrip('/')}/{target.identifier[-1]}") == place(location)
    return False


def _is_first_here(table: Table) -> bool:
    """Returns whether the first version of ``table`` was written at its present location."""
    folder = Folder(table.io, f"{table.metadata.location.rstrip('/')}/metadata")
    return any(_is_first(table, file.location) for file in files_in(folder))


def _is_first(table: Table, file: str) -> bool:
    """Returns whether the file is the version with which ``table`` was created, at its location."""
    if version_of(file) != 0:
        return False
    try:
        first = table_metadata(table.io.new_input(file))
    except (OSError, MetastoreError, *UNREADABLE):
        return False
    same_place = first.location.rstrip("/") == table.metadata.location.rstrip("/")
    return first.table_uuid == table.metadata.table_uuid and same_place and not first.metadata_log
