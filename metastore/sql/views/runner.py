"""Runs queries and writes their rows: the protocol, and an implementation with DuckDB on this machine.

The engine of a session on Spark implements this protocol too, so this package does not depend on Spark. A query names
its sources by plain names; each source is a scan of a table, or rows that an earlier query has written.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from sqlglot import exp

from metastore.config.sql import SqlSettings
from metastore.duck.interruptible import interruptible
from metastore.duck.limits import limits_or
from metastore.duck.queries import out_of_memory, threads_within
from metastore.duck.sandboxes import room_for
from metastore.duck.session import close_off, connection, relation
from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words, missing_function
from metastore.duck.spark_texts import define_what
from metastore.duck.value_kinds import mark_columns
from metastore.errors import EngineError, InvalidRequestError, StorageError
from metastore.ground.optional import library
from metastore.lake.stores.arrow import open_location
from metastore.model.tuple_schema import LOGICAL_TYPE, TIME_ZONE, TupleSchema
from metastore.scan.scan import Scan
from metastore.sql.views.dialects import translate
from metastore.sql.views.text import DEFAULT_DIALECT
from metastore.sql.views.types import UNKNOWN, to_sqlglot

_UTC: Final = ZoneInfo("UTC")


@dataclass(frozen=True)
class WrittenFolder:
    """Parquet files that a query has written into the folder ``location``."""

    location: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


Source = Scan | WrittenFolder
"""The source behind a name in a query."""


class QueryRunner(Protocol):
    """Runs queries for materialized views."""

    @property
    def name(self) -> str:
        """Its name in results."""

    def write(self, query: exp.Query, sources: Mapping[str, tuple[Source, ...]], target: WrittenFolder) -> None:
        """Write the rows of ``query`` as Parquet files into the folder ``target``, which is new or holds other files.

        A source of several parts has the rows of all parts. Raises InvalidRequestError for a query that the engine
        cannot express, EngineError if the query fails, StorageError.
        """


_AS_UUIDS: Final = "SET arrow_lossless_conversion = true"
"""Otherwise DuckDB hands UUIDs over as texts; the table's columns are bytes."""


class DuckDBRunner:
    """Runs queries with DuckDB in this process; rows stream from the scans into one Parquet file.

    ``configured`` are the limits of a query; those of a statement around it come first.
    """

    name: Final = "duckdb"

    def __init__(self, configured: SqlSettings | None = None) -> None:
        self._configured = configured or SqlSettings()

    def write(self, query: exp.Query, sources: Mapping[str, tuple[Source, ...]], target: WrittenFolder) -> None:
        """As :meth:`QueryRunner.write`. Raises InvalidRequestError also if DuckDB is not installed.

        When the caller's time is over, raises EngineError; the rows that were written by then are incomplete.
        """
        limits = limits_or(self._configured)
        query = query.copy()
        mark_columns(query, [_schema_of(part) for parts in sources.values() for part in parts])
        text = in_duckdb(query)
        duckdb = library("duckdb", "sql")
        with TemporaryDirectory(prefix="metastore-sql-") as spilled, connection(_UTC) as engine:
            for setting in (_AS_UUIDS, f"SET threads = {threads_within(limits)}", *room_for(limits.memory, spilled)):
                engine.execute(setting)
            for name, parts in sources.items():
                register(engine, name, parts)
            define_what(text, engine)
            close_off(engine)
            try:
                interruptible(engine, partial(_write_rows, engine, text, target))
            except duckdb.OutOfMemoryException as error:
                raise out_of_memory(error, limits.memory) from error
            except duckdb.Error as error:
                if (missing := missing_function(str(error))) is not None:
                    raise missing from error
                raise EngineError(f"DuckDB cannot run the query: {error}; the query is {text}") from error


def in_duckdb(query: exp.Query, dialect: str = DEFAULT_DIALECT) -> str:
    """Returns ``query``, a tree of ``dialect``, as DuckDB's SQL.

    Raises InvalidRequestError, naming what has no counterpart.
    """
    prepared = in_duckdbs_words(query) if dialect == DEFAULT_DIALECT else query
    translated = translate(prepared, dialect, "duckdb", words=SparkInDuckDb if dialect == DEFAULT_DIALECT else None)
    lost = [note for note in translated.unsupported if "is an unknown function" not in note]
    if lost:
        raise InvalidRequestError(
            f"DuckDB cannot run the query ({'; '.join(lost)}); run it in Spark: metastore.spark.connect(spark, conf)"
        )
    return translated.sql


def register(engine: Any, name: str, parts: tuple[Source, ...]) -> None:
    """Make ``name`` a view of the DuckDB connection ``engine``, with the rows of all ``parts``."""
    rows = None
    for part in parts:
        own = part.to_duckdb(engine) if isinstance(part, Scan) else relation(engine, _dataset(part))
        rows = own if rows is None else rows.union(own)
    assert rows is not None
    rows.create_view(name, replace=True)


def with_types(query: exp.Query, schema: TupleSchema) -> exp.Query:
    """Returns ``query`` with its columns cast to the known types of ``schema``, so that engines agree on types."""
    items = []
    for column in schema.columns:
        name = exp.column(exp.to_identifier(column.name, quoted=True))
        type_ = to_sqlglot(column.type, utc=column.properties.get(TIME_ZONE) == "UTC")
        keeps = LOGICAL_TYPE in column.properties  # DuckDB's type is the logical one
        simple = not keeps and column.type not in (UNKNOWN, "TIME") and not type_.args.get("nested")
        items.append(exp.alias_(exp.cast(name, type_), column.name, quoted=True) if simple else name)
    inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("typed")))
    return exp.select(*items).from_(inner)


def _schema_of(source: Source) -> pa.Schema:
    return source.schema if isinstance(source, Scan) else _dataset(source).schema


def _dataset(written: WrittenFolder) -> ds.Dataset:
    store, root = open_location(written.location, written.options)
    try:
        return ds.dataset(root, filesystem=store, format="parquet")
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot read {written.location}: {error}") from error


def _exact(relation: Any) -> Any:
    """Returns ``relation`` with decimals for 128-bit integers.

    Parquet has no such integers, and a DOUBLE would round them.
    """
    if not any(str(type_) in ("HUGEINT", "UHUGEINT") for type_ in relation.types):
        return relation
    items = [
        f"CAST({quoted} AS DECIMAL(38, 0)) AS {quoted}" if str(type_) in ("HUGEINT", "UHUGEINT") else quoted
        for quoted, type_ in zip(
            (exp.to_identifier(c, quoted=True).sql() for c in relation.columns), relation.types, strict=True
        )
    ]
    return relation.project(", ".join(items))


def _write_rows(engine: Any, text: str, target: WrittenFolder) -> None:
    _write(_exact(engine.sql(text)).to_arrow_reader(1 << 17), target)


def _write(rows: pa.RecordBatchReader, target: WrittenFolder) -> None:
    """Write the rows as one file under the next free name. StorageError names the folder."""
    store, root = open_location(target.location, target.options)
    try:
        store.create_dir(root, recursive=True)
        path = posixpath.join(root, "part-0.parquet")
        number = 0
        while store.get_file_info(path).is_file:
            number += 1
            path = posixpath.join(root, f"part-{number}.parquet")
        with (
            store.open_output_stream(path) as stream,
            pq.ParquetWriter(stream, rows.schema, compression="zstd") as file,
        ):
            for batch in rows:
                file.write_batch(batch)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot write {target.location}: {error}") from error
