"""The units of a table as the tables component has them, read level by level in one version.

Place in the flow: a session asks for the pruning of a table; what is held at a time is what one group of the
component's data files has, and of a top-level segment with more files one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, NotIn

from metastore.components.requests import of_table
from metastore.components.tables import Tables
from metastore.errors import NotFoundError, StorageError
from metastore.model.identity import TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.operations.read import Read
from metastore.pruning.units import (
    FINGERPRINT_COLUMNS,
    LOWER_COLUMNS,
    LOWER_TYPES,
    UNIT_COLUMNS,
    UNIT_TYPES,
    UPPER_TYPES,
    Portion,
    TablePortion,
    TableUnits,
    Units,
)
from metastore.storage.file_groups import FileGroup

T = TypeVar("T")

ROWS_AT_ONCE: Final = 20_000
BYTES_AT_ONCE: Final = 8 << 20
"""More units of one top-level segment than this are read batch by batch, first its files and then their row groups;
bytes are those of their data file."""

BYTES_IN_MEMORY: Final = 8 << 20
"""A table's units are read at once if their data files are no larger: a fifth of a gigabyte at most, while they are
decoded. Of larger ones the statistics that nobody needs would cost more than to open files again."""

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class StoredUnits:
    """The units of ``table`` in ``version``; see :class:`metastore.pruning.units.Units`.

    Every method raises what reading does; NotFoundError or StorageError when the version expires meanwhile.
    """

    tables: Tables
    table: TableInfo
    version: int
    upper_columns: tuple[str, ...] = UNIT_COLUMNS
    only: frozenset[str] | None = None
    """Metadata keys of the segments that these units are of, beside the table's own; None for all."""

    def upper(self) -> pa.Table:
        """The units of the table and its segments, in ``upper_columns``."""
        return self._upper

    @cached_property
    def _upper(self) -> pa.Table:
        read = self.tables.read().metadata_types(*UPPER_TYPES).filter(self._mine()).columns(*self.upper_columns)
        return read.at(self.version).to_arrow()

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """The files but for those of the segments ``without``, with their statistics."""
        return self._portions(LOWER_COLUMNS, NotIn("metadataKey", without) if without else AlwaysTrue())

    def fingerprints(self, of: frozenset[str] | None) -> Iterator[Portion]:
        """The files of the segments ``of``, or all files, without their statistics."""
        if of is None or of:
            yield from self._portions(FINGERPRINT_COLUMNS, AlwaysTrue() if of is None else In("metadataKey", of))

    def _portions(self, columns: tuple[str, ...], condition: BooleanExpression) -> Iterator[Portion]:
        read = self.tables.read().filter(And(self._mine(), condition)).columns(*columns)
        return portions(read.at(self.version))

    def _mine(self) -> BooleanExpression:
        mine = of_table(self.table)
        return mine if self.only is None else And(mine, In("metadataKey", {GENERAL_INFO, *self.only}))

    def in_memory(self) -> TableUnits | None:
        """All of them at once, which opens each data file once, and keeps them for who asks this version again.

        None where their data files have over :data:`BYTES_IN_MEMORY`. Columns are ``upper_columns``.
        """
        read = self.tables.read().metadata_types(*UNIT_TYPES).filter(self._mine()).columns(*self.upper_columns)
        units = read.at(self.version).few(BYTES_IN_MEMORY)
        return None if units is None else TableUnits(units)


def units_of(units: StoredUnits) -> Units:
    """``units`` in memory if they are few, else level by level."""
    return units.in_memory() or units


def portions(read: Read[TableMetadataUnit]) -> Iterator[Portion]:
    """The FILE and ROW_GROUP units of ``read``, whose filter is over partition columns; its columns name the type."""
    parts = read.metadata_types(*LOWER_TYPES).parts(open_small=True)
    yield TablePortion(parts.answered)
    # Which data files hold these units has been found out; what is left to ask of their rows is the type.
    for group in parts.groups:
        if group.rows > ROWS_AT_ONCE or group.size_bytes > BYTES_AT_ONCE:
            yield _Batches(group)
        else:
            yield TablePortion(_table(replace(group, expression=In("metadataType", set(map(str, LOWER_TYPES))))))


@dataclass(frozen=True)
class _Batches:
    """A group of files that are not held at once."""

    group: FileGroup

    def files(self) -> Iterator[pa.Table]:
        return self._of(MetadataType.FILE)

    def row_groups(self) -> Iterator[pa.Table]:
        return self._of(MetadataType.ROW_GROUP)

    def _of(self, kind: MetadataType) -> Iterator[pa.Table]:
        for batch in replace(self.group, expression=EqualTo("metadataType", str(kind))).batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _table(group: FileGroup) -> pa.Table:
    return pa.Table.from_batches(group.batches(), group.schema)


def in_newest(tables: Tables, ask: Callable[[int], T]) -> T:
    """What ``ask`` answers of the newest version; asked again when that one expires meanwhile."""
    for _ in range(_ATTEMPTS):
        version = tables.metadata.version
        try:
            return ask(version)
        except (NotFoundError, StorageError):
            if tables.metadata.version == version:
                raise
    raise StorageError(f"versions of {tables.table.name} expired faster than they could be read")
