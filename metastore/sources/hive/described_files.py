"""The ANALYZE task for Hive tables of text or of several formats: takes a chunk of files, returns statistics of each.

A row holds the file's number, its number of rows, and the stored statistics of each leaf column of the table, in order.
Of Parquet, ORC and Avro only footers are read, with the readers of the migration; text is read whole. Names are matched
as Hive matches them, so partitions of all formats have the same columns.

Promise: statistics hold for every release of Hive and every engine; statistics that would not are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.lake.formats.avro.avro_facts import read_avro
from metastore.lake.formats.facts import FileFacts, LeafFacts
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import UNREADABLE, reading_file
from metastore.model.statistics import ColumnStatistics, merge
from metastore.sources.hive.matching import match
from metastore.sources.hive.tables import Columns, HiveFormat
from metastore.sources.hive.text.fields import fields
from metastore.sources.hive.text.lines import decompress, lines
from metastore.sources.hive.text.serdes import TextSerde
from metastore.sources.hive.text.values import measure_column
from metastore.sources.hive.types import HiveLeaf, drill_type, leaves_of
from metastore.sources.provided_tables import Measures, column_statistics

_FRAGMENT: Final[dict[str, Any]] = {
    "number": pa.int64(),
    "rows": pa.int64(),
    "statistics": pa.list_(pa.string()),
}
FRAGMENT: Final = pa.schema(_FRAGMENT)
"""The task's result for each file. ``statistics`` has an entry for each leaf of the table, null if unknown."""

_OPEN_BOUNDS: Final = frozenset({"timestamp", "timestamptz", "char"})
"""Types whose values readers interpret differently: timestamps in different zones, texts with or without padding."""

Reading = HiveFormat | TextSerde
"""The way to read a file."""


class FileToDescribe(NamedTuple):
    """One file: its number in the listing, its location, its size, and the way to read it."""

    number: int
    path: str
    size: int
    reading: Reading


@dataclass(frozen=True)
class DescribedChunk:
    """The files of one task; plain data. ``options`` open the store, with the names of ``pyarrow.fs``."""

    columns: Columns
    files: Sequence[FileToDescribe]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def describe(chunk: DescribedChunk) -> Iterator[pa.RecordBatch]:
    """Yields one batch of :data:`FRAGMENT` with a row for each file. Raises FormatError for an unreadable file."""
    reader = _Describer(chunk)
    yield pa.RecordBatch.from_pylist([reader.row(file) for file in chunk.files], FRAGMENT)


class _Describer:
    def __init__(self, chunk: DescribedChunk) -> None:
        self._columns = chunk.columns
        self._leaves = leaves_of(chunk.columns)
        self._options = chunk.options
        self._parquet = ParquetFooters()

    def row(self, file: FileToDescribe) -> dict[str, Any]:
        with reading_file(file.path, "cannot be read", errors=(*UNREADABLE, LookupError)):
            store, path = open_location(file.path, self._options)
            with store.open_input_file(path) as source:
                if isinstance(file.reading, TextSerde):
                    rows, known = self._text(source, file.path, file.reading)
                else:
                    rows, known = self._footer(source, file.size, file.reading)
        statistics = [None if each is None else each.to_json() for each in known]
        return {"number": file.number, "rows": rows, "statistics": statistics}

    def _text(self, source: pa.NativeFile, name: str, serde: TextSerde) -> tuple[int, list[ColumnStatistics | None]]:
        rows = 0
        parts: list[list[ColumnStatistics]] = [[] for _ in self._columns]
        names = [name for name, _ in self._columns]
        with decompress(source, name) as plain:
            for batch in lines(plain, serde.header, serde.footer):
                rows += len(batch)
                for part, raw, (_, type_) in zip(parts, fields(batch, names, serde), self._columns, strict=True):
                    if not type_.is_nested:
                        part.append(measure_column(raw, type_, serde, len(batch)))
        of_column = {
            column: merge(part) if part else ColumnStatistics("NULL", nulls=0, non_nulls=0)
            for (column, _), part in zip(self._columns, parts, strict=True)
        }
        return rows, [of_column[leaf.path[0]] if len(leaf.path) == 1 else None for leaf in self._leaves]

    def _footer(
        self, source: pa.NativeFile, size: int, format_: HiveFormat
    ) -> tuple[int, list[ColumnStatistics | None]]:
        """The file's rows, and statistics by the table's leaves: all null if the file lacks one, None if unknown."""
        facts = self._facts(source, size, format_)
        found = match(self._columns, facts.schema, timestamps=format_ is not HiveFormat.AVRO)
        known: list[ColumnStatistics | None] = [None] * len(self._leaves)
        if found.problems:  # engines read values of other types than the table's in different ways
            return facts.records, known
        held = set()
        for place, leaf in zip(found.leaves, facts.leaves, strict=True):
            if place is not None and not self._leaves[place].repeated:
                known[place] = _of_footer(self._leaves[place], leaf, facts.records)
                held.add(place)
        top = {path[0] for path in found.aliases}
        for place, leaf_ in enumerate(self._leaves):
            if place not in held and leaf_.path[0] not in top and len(leaf_.path) == 1:
                known[place] = _all_null(leaf_, facts.records)
        return facts.records, known

    def _facts(self, source: pa.NativeFile, size: int, format_: HiveFormat) -> FileFacts:
        match format_:
            case HiveFormat.PARQUET:
                return self._parquet.read(source)
            case HiveFormat.ORC:
                return read_orc(source, size)
            case _:
                return read_avro(source, size)


def _of_footer(leaf: HiveLeaf, facts: LeafFacts, rows: int) -> ColumnStatistics:
    low, high = facts.low, facts.high
    if leaf.type.name in _OPEN_BOUNDS or isinstance(low, datetime):
        low = high = None
    if leaf.type.name == "date" and not isinstance(low, date):
        low = high = None
    if leaf.type.name == "varchar" and isinstance(low, str):
        low = low[: leaf.type.arguments[0]]  # readers cut longer texts off, which never makes them larger
    nulls = facts.nulls if facts.values == rows else None
    return column_statistics(str(drill_type(leaf.type)), rows, Measures(low, high, nulls, exact=False), whole=True)


def _all_null(leaf: HiveLeaf, rows: int) -> ColumnStatistics:
    return column_statistics(str(drill_type(leaf.type)), rows, Measures(None, None, rows), whole=True)
