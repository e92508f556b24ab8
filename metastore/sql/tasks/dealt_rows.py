"""Rows on their way between tasks: which table they are of, and where they stood; and how a task keeps them on disk.

Place in the flow: a task deals rows to groups, and another task gets all rows of its group, of several tables, in any
order. It writes them to temporary files first. Then its query reads each table as often as it needs, in the order in
which the rows stood in the files of the table. So a task that runs again gives the same rows in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from metastore.sql.queries.divided_query import DividedQuery

_TABLE: Final = b"table"
_GROUP: Final = b"group"
_PLACE: Final = b"place"


@dataclass(frozen=True, order=True)
class Place:
    """Where a batch of rows stood: in the piece ``major``, as its batch ``minor``."""

    major: int
    minor: int


def labelled(rows: pa.RecordBatch, table: int, group: int, place: Place) -> pa.RecordBatch:
    """Returns ``rows`` with what the task that gets them has to know."""
    texts = {_TABLE: str(table), _GROUP: str(group), _PLACE: f"{place.major} {place.minor}"}
    return rows.replace_schema_metadata({key: text.encode() for key, text in texts.items()})


def table_of(rows: pa.RecordBatch) -> int:
    """Returns the table of labelled rows."""
    return int(_label(rows, _TABLE))


def group_of(rows: pa.RecordBatch) -> int:
    """Returns the group of labelled rows."""
    return int(_label(rows, _GROUP))


def place_of(rows: pa.RecordBatch) -> Place:
    """Returns the place of labelled rows."""
    return Place(*map(int, _label(rows, _PLACE).split()))


def _label(rows: pa.RecordBatch, key: bytes) -> bytes:
    metadata: Mapping[bytes, bytes] = rows.schema.metadata or {}
    return metadata[key]


class DealtRows:
    """The rows of a group, by table, in temporary files. A context manager; ``folder`` is deleted at its end."""

    def __init__(self) -> None:
        self._temporary = TemporaryDirectory(prefix="metastore-shuffle-")
        self.folder: Final = self._temporary.name
        self._tables: dict[int, KeptRows] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Keep labelled rows."""
        table = table_of(rows)
        if table not in self._tables:
            self._tables[table] = KeptRows(os.path.join(self.folder, f"{table}.arrow"), rows.schema)
        self._tables[table].add(rows)

    def tables(self) -> dict[int, KeptRows]:
        """Returns the rows of each table, as parts that a query reads. No rows can be added afterwards."""
        for each in self._tables.values():
            each.end()
        return self._tables

    def __enter__(self) -> DealtRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


def rows_of_group(query: DividedQuery, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``query`` for the dealt rows of a group; none if it got none."""
    first = next(batches, None)
    if first is None:
        return
    with DealtRows() as dealt:
        for batch in chain([first], batches):
            dealt.add(batch)
        yield from query.rows(dealt.tables(), dealt.folder)


class KeptRows:
    """The rows of one table in one file."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema.remove_metadata()
        self._writer = pa.ipc.new_file(path, self._schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self._places: list[Place] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows to the file."""
        self._places.append(place_of(rows))
        self._writer.write_batch(rows.replace_schema_metadata(None))

    def end(self) -> None:
        """Close the file."""
        self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the order of their places, one batch in memory at a time."""
        with pa.OSFile(self._path) as file, pa.ipc.open_file(file) as reader:
            for number in sorted(range(len(self._places)), key=self._places.__getitem__):
                yield reader.get_batch(number)
