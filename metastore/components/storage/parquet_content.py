"""Encodes one data file: its rows as Parquet, with row groups that let a reader fetch only what it needs.

Lists and maps that are null in every row are left out: readers of Iceberg tables read missing columns as null, and each
costs more time and bytes than the values of a small file. Plain columns stay, because PyIceberg compares a missing
column differently from a null one. In files of many rows, each kind of unit has its own row groups with a bounded
number of rows. So a reader of segments does not decode files' units, and memory holds only a few row groups at a time.
Kinds with few rows share a row group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.model.fields import Unit
from metastore.model.mapping.runs import together

Codec = Literal["none", "snappy", "gzip", "zstd", "lz4", "brotli"]

_SMALL_ROWS: Final = 64
"""Up to this number of rows, dictionaries and statistics cost more bytes and time than they save. For lists and maps
they always do: bounds of texts that no filter uses were an eighth of a file."""
_SHARED_ROWS: Final = 16
"""Kinds with together no more rows share a row group, such as a segment's own unit and those of partitions: another row
group costs more than decoding the extra rows."""


class ParquetBytes(NamedTuple):
    """A whole file, and the offset of the bytes embedded in it."""

    content: pa.Buffer
    embedded_at: int


@dataclass(frozen=True)
class ParquetContent:
    """Encodes data files of one unit type, in the Arrow ``schema`` that carries the table's field ids.

    In a file of many rows, a row group has at most ``rows_of_a_group`` rows.
    """

    unit_type: type[Unit]
    schema: pa.Schema
    codec: Codec
    rows_of_a_group: int = 10_000
    _schemas: dict[tuple[int, ...], pa.Schema] = field(default_factory=dict, init=False)

    def of(self, rows: pa.Table, embedded: bytes = b"") -> ParquetBytes:
        """Encode ``rows``, at least one, in the unit's columns, and embed the bytes ``embedded``.

        Nothing in the Parquet footer refers to the embedded bytes, so Parquet readers ignore them.
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
        """Yield the rows of each kind, in order; consecutive kinds are combined while they have few rows."""
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
