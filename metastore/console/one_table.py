"""The pages of one analyzed table: its columns and segments, its files, and the row groups of one file.

The first page opens the table's own unit alone; sizes come from manifests. Files and row groups are read on request.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from metastore.components.requests import Request
from metastore.console.query import PagePosition, Query, part_of
from metastore.console.table_list import wrong_with
from metastore.errors import NotFoundError
from metastore.model.bounds.units import LENGTH, ROW_COUNT, START
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType
from metastore.overview.file_summaries import FileSummary
from metastore.overview.segment_sizes import DirectorySize, TableSize, table_sizes
from metastore.overview.tables import ColumnSummary, TableDescription, describe_tables, files
from metastore.overview.time_travel import version_at
from metastore.session import Session

_COLUMNS: Final = 100
_SEGMENTS: Final = 60
_FILES: Final = 100
_OF_ROW_GROUPS: Final = ("rowGroupIndex", ROW_COUNT, LENGTH, START)
_SKEWED: Final = 5
"""A segment that is larger than the median by this factor makes tasks of unequal length."""


@dataclass(frozen=True)
class Mending:
    """A command that lets the conditions on ``columns`` skip files, or gives them statistics, and why."""

    columns: Sequence[str]
    command: str
    why: str


@dataclass(frozen=True)
class TablePage:
    """One table: one part of its columns and of its segments, and what is wrong with commands that mend it.

    ``table`` has all columns. ``largest`` is the segment with the most bytes. ``version`` is a text, since browsers
    round large numbers.
    """

    version: str
    table: TableDescription
    size: TableSize
    columns: Sequence[ColumnSummary]
    columns_part: PagePosition
    segments: Sequence[DirectorySize]
    part: PagePosition
    largest: DirectorySize | None
    wrong: Sequence[str]
    mendings: Sequence[Mending]


@dataclass(frozen=True)
class FilesPage:
    """One part of the files of a table or segment; ``sizes`` counts all of them by powers of two."""

    table: str
    segment: str
    part: PagePosition
    files: Sequence[FileSummary]
    bytes: int
    sizes: Mapping[int, int]


@dataclass(frozen=True)
class RowGroupLine:
    """One row group of a file: its place, rows, bytes and first byte."""

    index: int
    rows: int | None
    bytes: int | None
    start: int | None


@dataclass(frozen=True)
class RowGroupsPage:
    """The row groups of one file by their place."""

    table: str
    file: str
    row_groups: Sequence[RowGroupLine]


def table_page(session: Session, query: Query) -> TablePage:
    """Returns one table at the newest version, or at ``at``. Raises NotFoundError."""
    version = version_at(session, query.text("at") or None)
    info = session.table_info(query.require("name"))
    found = describe_tables(session, [info], version)
    if not found:
        raise session.no_metadata(info)
    size = table_sizes(session, [info], version)[info]
    segments, part = part_of(size.segments, query.number("page"), _SEGMENTS)
    columns, columns_part = part_of(found[0].columns, query.number("columns"), _COLUMNS)
    largest = max(size.segments, key=lambda each: each.bytes or 0, default=None)
    wrong = [*wrong_with(found[0], size), *_skew(size.segments, largest)]
    return TablePage(
        version=str(version),
        table=found[0],
        size=size,
        columns=columns,
        columns_part=columns_part,
        segments=segments,
        part=part,
        largest=largest,
        wrong=wrong,
        mendings=list(mendings(found[0])),
    )


def mendings(table: TableDescription) -> Iterator[Mending]:
    """Yields the commands that make more conditions skip files, the most useful one first."""
    name, columns = table.summary.table, table.columns
    if table.summary.level in {"TABLE", "SEGMENT"}:
        why = "no metadata of single files is stored"
        yield Mending([each.name for each in columns], _analyze(name, "--level", "row_group"), why)
    unread = [each.name for each in columns if "BOUNDS (" in (each.cannot_prune or "")]
    if unread:
        why = "footers have no bounds of these columns that can be trusted; their data has"
        yield Mending(unread, _analyze(name, "--bounds", ",".join(unread)), why)
    undescribed = [each.name for each in columns if each.rows is not None and each.distinct is None]
    if undescribed:
        why = "distinct values and histograms are unknown; they serve planners, and skip no files"
        yield Mending(undescribed, _analyze(name, "--statistics", "*"), why)


def files_page(session: Session, query: Query) -> FilesPage:
    """Returns one part of the files of a table or ``segment``. Raises NotFoundError."""
    name, segment = query.require("name"), query.text("segment")
    every = files(session, name, segment or None, query.text("at") or None).files
    shown, part = part_of(range(len(every)), query.number("page"), _FILES)
    rows = every[shown[0] : shown[-1] + 1] if shown else []
    return FilesPage(name, segment, part, rows, every.bytes, every.size_counts)


def row_groups_page(session: Session, query: Query) -> RowGroupsPage:
    """Returns the row groups of the file ``file``, an identifier of the list of files. Raises NotFoundError."""
    info, file = session.table_info(query.require("name")), query.require("file")
    key = file.partition(IDENTIFIER_SEPARATOR)[0] if IDENTIFIER_SEPARATOR in file else DEFAULT_SEGMENT
    read = session.metastore.tables.read
    own = Request(info, metadata_keys=[key], identifiers=[file]).expression()
    paths = read().metadata_types(MetadataType.FILE).filter(own).columns("path").to_arrow()["path"].to_pylist()
    if not paths:
        raise NotFoundError(f"{info} has no file {file}; `metastore files {info}` lists the files that it has")
    inside = Request(info, metadata_keys=[key], paths=[str(paths[0])]).expression()
    facts = read().metadata_types(MetadataType.ROW_GROUP).filter(inside).facts(*_OF_ROW_GROUPS)
    rows = (row for each in facts for row in zip(*(each[name].to_pylist() for name in _OF_ROW_GROUPS), strict=True))
    return RowGroupsPage(str(info), file, sorted((RowGroupLine(*row) for row in rows), key=lambda each: each.index))


def _analyze(table: str, *options: str) -> str:
    return shlex.join(["metastore", "analyze", table, *options])


def _skew(segments: Sequence[DirectorySize], largest: DirectorySize | None) -> Iterator[str]:
    usual = median(each.bytes or 0 for each in segments) if len(segments) > 2 else 0
    if usual and largest is not None and (largest.bytes or 0) > _SKEWED * usual:
        yield f"skew: {largest.segment} has {(largest.bytes or 0) / usual:.0f} times the bytes of the median segment"
