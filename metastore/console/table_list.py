"""The page of tables: analyzed ones, views, materialized views, and those of catalogs; one part of a list at a time.

Names come from manifests; only what a part shows is opened. A catalog's names are listed at most once a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from cachetools import TTLCache

from metastore.analyze.worklist import analyzed_tables
from metastore.console.query import PagePosition, Query, part_of
from metastore.daemon.gain import Facts
from metastore.daemon.listing import catalog_of
from metastore.daemon.logs import message_of
from metastore.daemon.policy import TableName
from metastore.errors import MetastoreError
from metastore.ground.epoch import moment_of_millis
from metastore.model.identity import TableInfo
from metastore.overview.segment_sizes import TableSize, table_sizes
from metastore.overview.tables import TableDescription, describe_tables
from metastore.procedures.files.guards import PUBLISHED
from metastore.session import Session

T = TypeVar("T")

_ON_A_PAGE: Final = 50
_AT_ONCE: Final = 8
_SMALL_FILE: Final = 16 << 20
_MANY_FILES: Final = 100
_BYTES_OF_A_NAME: Final = 150


@dataclass(frozen=True)
class TableRow:
    """One table of the list; unknown values are None. ``what`` is its format, or what else it is.

    ``wrong`` are sentences about what is wrong with it. ``published_from`` is the table that it publishes.
    """

    name: str
    what: str | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    modified: datetime | None = None
    owner: str | None = None
    wrong: Sequence[str] = ()
    published_from: str | None = None


@dataclass(frozen=True)
class ViewRow:
    """A view or materialized view: its query, its status, and when it was last refreshed or changed."""

    name: str
    sql: str | None
    status: str | None
    modified: datetime | None
    owner: str | None


@dataclass(frozen=True)
class ListPage:
    """One part of the list ``kind``: tables, views, materialized, published or a catalog. ``rows`` are of one type.

    ``kinds`` are all lists. ``wrong`` are parts of a catalog that cannot be listed.
    """

    kind: str
    kinds: Sequence[str]
    search: str
    part: PagePosition
    rows: Sequence[TableRow] | Sequence[ViewRow]
    version: str | None = None
    wrong: Sequence[str] = ()


@dataclass
class Listings:
    """Lists of catalogs, each made at most once a minute. Threads may share it."""

    _known: TTLCache[str, Any] = field(default_factory=lambda: TTLCache(32, 60))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tables(self, session: Session, catalog: str) -> tuple[list[TableName], list[str]]:
        """Returns the tables of a catalog by name, and a sentence for each part that cannot be listed."""
        return self._find_or_make(catalog, lambda: _list_tables(session, catalog))

    def publications(self, session: Session) -> Sequence[TableRow]:
        """Returns the published tables of all catalogs, by name."""
        return self._find_or_make("", lambda: sorted(_list_publications(session), key=lambda row: row.name))

    def _find_or_make(self, key: str, make: Callable[[], T]) -> T:
        with self._lock:
            known: T | None = self._known.get(key)
        if known is None:
            known = make()
            with self._lock:
                self._known[key] = known
        return known


def list_page(session: Session, query: Query, listings: Listings) -> ListPage:
    """Returns the part of a list that the query names. Raises NotFoundError for a catalog that is not configured."""
    kind, search, page = query.text("kind") or "tables", query.text("search"), query.number("page")
    kinds = ["tables", "views", "materialized", "published", *session.catalogs.names()]
    if kind == "tables":
        version = session.metastore.tables.metadata.version
        tables, part = part_of(_matching(_list_analyzed_tables(session, version), search), page, _ON_A_PAGE)
        return ListPage(kind, kinds, search, part, _analyzed_rows(session, tables, version), str(version))
    if kind in {"views", "materialized"}:
        views = _views(session) if kind == "views" else _list_materialized_views(session)
        rows, part = part_of([row for row in views if search.lower() in row.name.lower()], page, _ON_A_PAGE)
        return ListPage(kind, kinds, search, part, rows)
    if kind == "published":
        published = [row for row in listings.publications(session) if search.lower() in row.name.lower()]
        tables_shown, part = part_of(published, page, _ON_A_PAGE)
        return ListPage(kind, kinds, search, part, tables_shown)
    every, wrong = listings.tables(session, session.catalogs.canonical(kind))
    shown, part = part_of(_matching(every, search), page, _ON_A_PAGE)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = list(threads.map(lambda each: _catalog_row(session, each), shown))
    return ListPage(kind, kinds, search, part, found, wrong=wrong)


def _matching(names: Sequence[Any], search: str) -> Sequence[Any]:
    """Returns the names that contain each word of the search, ignoring case."""
    words = search.lower().split()
    return [each for each in names if all(word in str(each).lower() for word in words)] if words else names


def _list_analyzed_tables(session: Session, version: int) -> Sequence[TableInfo]:
    cache = session.metastore.tables.backing.reader.cache
    known = cache.find(f"names {version}")
    if isinstance(known, list):
        return known
    found = analyzed_tables(session.metastore.tables)
    cache.put(f"names {version}", found, _BYTES_OF_A_NAME * len(found))
    return found


def _analyzed_rows(session: Session, tables: Sequence[TableInfo], version: int) -> list[TableRow]:
    if not tables:
        return []
    sizes = {str(table): size for table, size in table_sizes(session, tables, version).items()}
    return [
        _analyzed_row(each, sizes.get(each.summary.table, TableSize()))
        for each in describe_tables(session, tables, version)
    ]


def _analyzed_row(table: TableDescription, size: TableSize) -> TableRow:
    summary = table.summary
    return TableRow(
        name=summary.table,
        what=table.type,
        rows=summary.rows,
        files=size.files,
        bytes=size.bytes,
        modified=summary.modified,
        owner=summary.owner,
        wrong=wrong_with(table, size),
    )


def wrong_with(table: TableDescription, size: TableSize) -> list[str]:
    """Returns a sentence for each thing that keeps conditions from skipping files of a table, or makes reading slow."""
    found = []
    if table.summary.level in {"TABLE", "SEGMENT"}:
        found.append(f"analyzed to level {table.summary.level} only: no condition skips a file of it")
    unprunable = sum(column.cannot_prune is not None for column in table.columns)
    if unprunable:
        found.append(f"{unprunable:,} of {len(table.columns):,} columns cannot skip files")
    if table.summary.rows is None:
        found.append("the number of rows is unknown")
    if size.files and size.bytes is not None and size.files >= _MANY_FILES and size.bytes / size.files < _SMALL_FILE:
        found.append(f"small files: {size.bytes / size.files / 1e6:.1f} MB on average")
    return found


def _list_tables(session: Session, catalog: str) -> tuple[list[TableName], list[str]]:
    wrong: list[str] = []
    found = catalog_of(session.catalogs, catalog, lambda place, error: wrong.append(f"{place}: {message_of(error)}"))
    return sorted((each for each in found if isinstance(each, TableName)), key=str), wrong


def _list_publications(session: Session) -> Iterator[TableRow]:
    for each in session.call("metastore.system.publications").to_pylist():
        yield TableRow(
            name=each["published_as"],
            what=each["state"],
            files=each["files"],
            modified=each["published_at"],
            wrong=(each["message"],) if each["message"] else (),
            published_from=each["table"],
        )


def _views(session: Session) -> list[ViewRow]:
    return [
        ViewRow(str(each.info), each.sql, each.dialect, _moment(each.last_modified_time), each.owner)
        for each in session.metastore.views.list()
    ]


def _list_materialized_views(session: Session) -> list[ViewRow]:
    return [
        ViewRow(str(each.info), each.sql, each.refresh_status, _moment(each.last_refresh_time), each.owner)
        for each in session.metastore.materialized_views.list()
    ]


def _catalog_row(session: Session, name: TableName) -> TableRow:
    """Returns a table of a catalog by its metadata file alone; one that cannot be loaded says why."""
    try:
        table = session.catalogs.target(name.catalog, name.schema, name.name).load()
    except MetastoreError as error:
        return TableRow(str(name), wrong=(str(error),))
    facts, metadata = Facts.of(table), table.metadata
    snapshot = metadata.current_snapshot()
    rows = snapshot.summary["total-records"] if snapshot and snapshot.summary else None
    return TableRow(
        name=str(name),
        what=f"Iceberg {metadata.format_version}",
        rows=int(rows) if rows and rows.isdecimal() else None,
        files=facts.files,
        bytes=facts.bytes,
        modified=_moment(facts.committed_ms or metadata.last_updated_ms),
        owner=metadata.properties.get("owner"),
        published_from=metadata.properties.get(PUBLISHED),
    )


def _moment(epoch_ms: int | None) -> datetime | None:
    return moment_of_millis(epoch_ms) if epoch_ms else None
