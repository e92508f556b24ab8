"""Tables of databases: read whole through JDBC, since a database keeps no statistics that other programs may trust.

A table counts as one file, and its content determines the file's state. ANALYZE reads the table every time, and writes
only what has changed. Python itself reads SQLite; Spark reads all other databases, which requires a session with Spark.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa

from metastore.errors import EngineError, NotFoundError
from metastore.ground.digests import number_of
from metastore.ground.quoting import double_quoted
from metastore.lake.formats.arrow_schema import OPAQUE, tuple_schema
from metastore.lake.formats.parquet.leaf_measures import LeafMeasure, leaf_array
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import ColumnPath
from metastore.model.sketches.hashing import ArrowValues
from metastore.redaction import without_secrets
from metastore.sources.provided_tables import ProvidedFile

FORMAT: Final = "JDBC"

Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]
JdbcReader = Callable[[str, str, Mapping[str, str]], Rows]
"""Reads a table by URL, name (``schema.table``, quoted as the database requires) and JDBC properties."""


class DatabaseEngine(Protocol):
    """An engine that can read databases, as its capabilities say."""

    def read_jdbc(self, url: str, table: str, properties: Mapping[str, str]) -> Rows:
        """As :data:`JdbcReader`."""


_SQLITE: Final = "jdbc:sqlite:"
_BATCH: Final = 50_000


class DatabaseSource:
    """One table of the database at ``url``; ``reader`` is requested only when the table is read."""

    format: Final = FORMAT

    def __init__(
        self, url: str, schema: str, name: str, properties: Mapping[str, str], reader: Callable[[], JdbcReader]
    ) -> None:
        # Everybody can read a stored location.
        self.location = f"{without_secrets(url)}/{schema}/{name}"
        self._url = url
        self._name = (schema, name)
        self._properties = properties
        self._reader = reader

    @property
    def schema(self) -> None:
        """None: SQLite's columns have the types of their values."""

    def files(self) -> Sequence[SourceFile]:
        """Returns the table as one file, whose size is its number of rows."""
        return [self._content.file]

    def modified_times(self) -> None:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.modified_times`."""

    def contents(
        self,
        files: Sequence[SourceFile],
        columns: Sequence[ColumnPath] | None = None,
    ) -> Iterator[ProvidedFile]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.contents`."""
        yield from (self._content for _ in files)

    @cached_property
    def _content(self) -> ProvidedFile:
        arrow, batches = self._rows()
        schema, leaves = tuple_schema(arrow)
        measures = [LeafMeasure(leaf) for leaf in leaves]
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            for measure in measures:
                values = None if measure.leaf.opaque else leaf_array(batch, measure.leaf.path)
                measure.add(values, batch.num_rows)
        statistics = {measure.leaf.key: measure.statistics() for measure in measures}
        state_of_columns = repr((schema.to_json(), [known.to_json() for known in statistics.values()]))
        state = number_of(state_of_columns, 7)
        file = SourceFile((), self._name[1], f"{self.location}/{self._name[1]}", rows, state)
        return ProvidedFile(file, schema, statistics, rows)

    def _rows(self) -> Rows:
        if self._url.startswith(_SQLITE):
            return _sqlite_rows(self._url[len(_SQLITE) :], *self._name)
        return self._reader()(self._url, ".".join(self._name), self._properties)


def no_reader() -> JdbcReader:
    """Raises EngineError: the reader of sessions without Spark."""
    raise EngineError(
        "tables of databases are read through Spark: open the session with metastore.spark.connect(spark, conf), "
        "or take --engine spark"
    )


_SQLITE_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}


def _sqlite_rows(path: str, schema: str, name: str) -> Rows:
    """Returns all rows of a table. SQLite gives types to values; a column with values of several types is opaque.

    Integers and floats count as one type if doubles hold them all exactly, because a rounded bound would be wrong.
    """
    quoted = ".".join(map(double_quoted, (schema, name)))
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(f"SELECT * FROM {quoted}")  # noqa: S608 - names, quoted
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.Error as error:
        raise NotFoundError(f"{quoted} cannot be read from the SQLite database {path}: {error}") from error
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    fields = [_sqlite_field(each, values) for each, values in zip(names, columns, strict=True)]
    arrow = pa.schema(fields)
    readable = pa.schema([pa.field(f.name, pa.null()) if f.metadata else f for f in fields])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(rows), _BATCH):
            cut = [values[start : start + _BATCH] for values in columns]
            arrays = [
                pa.nulls(len(values)) if pa.types.is_null(field.type) else _array(values, field.type)
                for values, field in zip(cut, readable, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=readable)

    return arrow, batches()


def _array(values: Sequence[object], type_: pa.DataType) -> ArrowValues:
    if pa.types.is_floating(type_):  # Arrow refuses integers from 2^53 on, even those that a double holds exactly.
        values = [float(value) if isinstance(value, int) else value for value in values]
    return pa.array(values, type_)


def _sqlite_field(name: str, values: Sequence[object]) -> pa.Field:  # type: ignore[type-arg]
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.field(name, pa.null())
    if kinds == {int, float} and all(float(value) == value for value in values if type(value) is int):
        return pa.field(name, pa.float64())
    if len(kinds) > 1:
        return pa.field(name, pa.string(), metadata=OPAQUE)
    return pa.field(name, _SQLITE_TYPES[kinds.pop()])
