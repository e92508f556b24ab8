"""The content of one data file: its rows as Parquet, cut so that a reader takes only what it asks for.

Lists and maps that are null in every row are left out: a reader of Iceberg tables knows that a column which a file
lacks is null there, and each costs more time and bytes than the values of a small file. Plain columns stay, since
PyIceberg compares one that is absent otherwise than one that is null. In files of many rows each kind of unit has row
groups of its own, of a bounded number of rows: who reads the segments of a table does not decode their files, and
nobody holds more than a few of the row groups. Kinds of few rows share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.mapping.runs import together
from metastore.model.fields import Unit

Codec = Literal["none", "snappy", "gzip", "zstd", "lz4", "brotli"]

_SMALL_ROWS: Final = 64
"""Up to here, dictionaries and statistics cost more bytes and time than they save. Those of lists and maps always do:
bounds of texts that no filter asks for were an eighth of a file."""
_SHARED_ROWS: Final = 16
"""Kinds that have no more together share a row group, which costs more than to decode the other's rows with one's own:
a segment's own unit, say, and those of partitions."""


class ParquetBytes(NamedTuple):
    """A whole file, and where the bytes embedded in it begin."""

    content: pa.Buffer
    embedded_at: int


@dataclass(frozen=True)
class ParquetContent:
    """Makes data files of units of one type, in the Arrow ``schema`` that carries the table's field ids.

    In a file of many rows a row group has at most ``rows_of_a_group``.
    """

    unit_type: type[Unit]
    schema: pa.Schema
    codec: Codec
    rows_of_a_group: int = 10_000
    _schemas: dict[tuple[int, ...], pa.Schema] = field(default_factory=dict, init=False)

    def of(self, rows: pa.Table, embedded: bytes = b"") -> ParquetBytes:
        """The file that holds ``rows``, at least one, in the unit's columns, and ``embedded`` bytes.

        Nothing in the file's footer names these, so readers of Parquet pass over them.
        """
        held = tuple(
            n
            for n, column in enumerate(rows.columns)
            if column.null_count < rows.num_rows or not pa.types.is_nested(column.type)
        )
        schema = self._schemas.get(held)
        if schema is None:
            schema = self._schemas[held] = pa.schema([self.schema.field(n) for n in held])
        many = rows.num_rows > _SMALL_ROWS
        content = pa.BufferOutputStream()
        with pq.ParquetWriter(
            content,
            schema,
            compression=self.codec,
            use_dictionary=many,
            write_statistics=[column.name for column in schema if not pa.types.is_nested(column.type)]
            if many
            else False,
            store_schema=False,
        ) as file:
            for kind in self._kinds(rows) if many else (rows,):
                columns = pa.Table.from_arrays([kind.column(n) for n in held], schema=schema)
                file.write_table(columns, self.rows_of_a_group)
            place = content.tell()
            content.write(embedded)
        return ParquetBytes(content.getvalue(), place)

    def _kinds(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows of each kind, in their order; kinds that follow each other together while they are few."""
        column = self.unit_type.kind_column
        if column is None:
            yield rows
            return
        few: list[pa.Table] = []
        for kind in together(rows, column).values():
            if few and sum(each.num_rows for each in few) + kind.num_rows > _SHARED_ROWS:
                yield pa.concat_tables(few)
                few = []
            few.append(kind)
        yield pa.concat_tables(few)
