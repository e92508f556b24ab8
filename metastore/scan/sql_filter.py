"""``where`` in DuckDB's words, for questions that Arrow has no exact expression for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from metastore.errors import InvalidRequestError, MetastoreError
from metastore.pruning.spark_sql import condition_of
from metastore.scan.optional import library
from metastore.scan.spark_in_duckdb import in_duckdbs_words


def connection(zone: ZoneInfo) -> Any:
    """A new DuckDB connection whose session is in ``zone``. InvalidRequestError if DuckDB is not installed."""
    made = library("duckdb", "sql").connect()
    made.execute(f"SET TimeZone = '{zone.key}'")
    return made


def to_duckdb(where: str) -> str:
    """A Spark SQL predicate in DuckDB's dialect. InvalidRequestError where it cannot be said."""
    try:
        return DuckDB().generate(in_duckdbs_words(condition_of(where)))
    except SqlglotError as error:
        raise InvalidRequestError(f"the predicate {where!r} cannot be said in DuckDB's SQL: {error}") from error


def filtered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, where: str, zone: ZoneInfo) -> pa.Table:
    """The rows of ``batches`` (of ``schema``) that satisfy the Spark SQL predicate ``where``, in their columns.

    Raises InvalidRequestError for what DuckDB does not understand, and without DuckDB; what reading raises, as it is.
    """
    text = to_duckdb(where)
    failed: list[MetastoreError] = []

    def read() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except MetastoreError as error:  # it would come out as an error of DuckDB
            failed.append(error)
            raise

    with connection(zone) as engine:
        try:
            reader = pa.RecordBatchReader.from_batches(schema, read())
            found: pa.Table = engine.from_arrow(reader).filter(text).to_arrow_table()
        except library("duckdb", "sql").Error as error:
            if failed:
                raise failed[0] from error
            raise InvalidRequestError(f"the predicate {where!r} fails: {error}") from error
    return found.cast(schema)
