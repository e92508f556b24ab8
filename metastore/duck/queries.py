"""Runs a query in DuckDB, over the given tables only.

Each query has an in-memory database to itself (:mod:`metastore.duck.sandboxes`). It cannot open a file or a
connection, load an extension, read an environment variable or change its settings. It spills to disk only if its
memory is limited. Tables are streams: each scan of a table opens it anew. So a query may read a table several
times, and a table that is not read is not fetched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

import pyarrow as pa

from metastore.config.sql import SqlSettings
from metastore.duck.interruptible import interruptible
from metastore.duck.logical_types import all_columns, with_json
from metastore.duck.query_plans import PlanNode
from metastore.duck.sandboxes import Sandbox
from metastore.duck.session import ALL_ROWS, judges_arrow
from metastore.duck.spark_texts import define_what
from metastore.duck.typed_functions import define_typed
from metastore.errors import EngineError, InvalidRequestError, MetastoreError
from metastore.ground.distribution import install_command
from metastore.ground.quoting import double_quoted
from metastore.lake.formats.arrow_schema import require_narrow_decimals
from metastore.lake.formats.variant_arrays import typed_batch, typed_schema

T = TypeVar("T")

_ROWS_AT_ONCE: Final = 1 << 16

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SHOWN: Final = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^", re.DOTALL)


_BYTES_A_THREAD: Final = 128 << 20
"""With less memory a thread, DuckDB's joins and sorts fail before they spill."""


def threads_within(limits: SqlSettings) -> int:
    """Returns the number of threads for a query: as set, but fewer if memory is short."""
    most = limits.threads or os.cpu_count() or 1
    return max(1, min(most, limits.memory // _BYTES_A_THREAD))


def out_of_memory(error: Exception, memory: int) -> EngineError:
    """Returns what DuckDB's ``error`` says about a query with ``memory`` bytes."""
    return EngineError(
        f"the query needs more memory than {memory >> 20} MiB (drill.metastore.sql.memory): raise it, or select less. "
        f"DuckDB: {str(error).partition(chr(10))[0]}"
    )


class Failure(Exception):  # noqa: N818 - the caller turns it into an error with a place in its text
    """DuckDB refused a query, or the query failed: the message, and its place if DuckDB reports it.

    ``line`` counts from 1. ``snippet`` is the part of that line that DuckDB shows, with ``...`` for omitted parts;
    ``offset`` is the place in the snippet, from 0. ``outside`` removes this module's internal names from a text.
    """

    def __init__(self, message: str, outside: Callable[[str], str], lines_before: int = 0) -> None:
        shown = _SHOWN.search(message)
        text = message if shown is None else message[: shown.start()]
        self.message = outside(text.partition(" Error: ")[2] or text).strip().replace("\n", "; ")
        self.line = int(shown.group(1)) - lines_before if shown else None
        self.snippet = shown.group(2) if shown else ""
        self.offset = len(shown.group(3)) - len(f"LINE {shown.group(1)}: ") if shown else 0
        super().__init__(self.message)


class _Stream:
    """A table for DuckDB: Arrow's stream protocol, opened anew by every scan."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._schema = schema
        self.names: Sequence[str] = schema.names
        self._batches = batches
        self.error: MetastoreError | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        reader: Any = pa.RecordBatchReader.from_batches(self._schema, self._noting_errors())
        return reader.__arrow_c_stream__(requested_schema)

    def _noting_errors(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except MetastoreError as error:
            self.error = error
            raise


@dataclass(frozen=True)
class StreamedRows:
    """Rows that are read as they are computed: their columns, and batches of at most 65,536 rows."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Duck:
    """One query's database, a context manager. Raises InvalidRequestError if DuckDB is not installed.

    ``limits`` are its threads and its memory; what exceeds the memory goes to temporary files. With None, DuckDB has
    its own limits, and nothing does. :meth:`plan` needs ``plans``.
    ``current`` are the catalog and the schema that the query calls its own.
    """

    def __init__(self, limits: SqlSettings | None = None, *, plans: bool = False, current: Sequence[str] = ()) -> None:
        try:
            self._duckdb: Any = import_module("duckdb")
        except ModuleNotFoundError as error:
            raise InvalidRequestError(f"SELECT needs duckdb: {install_command('sql')}") from error
        self._memory = None if limits is None else limits.memory
        threads = () if limits is None else (f"SET threads = {threads_within(limits)}",)
        shown = ("SET GLOBAL explain_output = 'all'",) if plans else ()
        # The reader of a stream raises OSError for whatever fails after the first batch.
        self._refusals = (self._duckdb.Error, pa.ArrowException, UnicodeError, OSError)
        self._sandbox = Sandbox.take((*threads, *shown), self._memory)
        self._connection = self._sandbox.connection
        self._current = current
        self._streams: list[_Stream] = []
        self._renamed: dict[str, str] = {}
        """Original names of renamed columns, by their names in this database."""
        self._named: set[str] = set()
        """The columns of all streams."""
        self._tables: list[str] = []
        """Tables by their schemas in this database; the first one's schema is ``_1``."""

    def add(self, name: str, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> str:
        """Register rows as a table; returns its name in DuckDB, which ends in ``name``.

        Raises InvalidRequestError for a column that DuckDB cannot hold.
        """
        require_narrow_decimals(schema, "SQL")
        stream = _Stream(*self._told_apart(with_json(schema), batches))
        self._streams.append(stream)
        self._named.update(stream.names)
        source = f"_s{len(self._streams)}"
        self._connection.register(source, stream)
        columns = all_columns(schema, stream.names, shapes=judges_arrow())
        rows = f"FROM {source} SELECT {columns}"
        return self._define(name, rows if judges_arrow() else f"{rows} LIMIT {ALL_ROWS}")

    def _told_apart(
        self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]
    ) -> tuple[pa.Schema, Callable[[], Iterator[pa.RecordBatch]]]:
        """Returns the rows with column names that differ in more than case, none of them empty.

        DuckDB would otherwise rename columns silently.
        """
        taken = {""}
        every = {name.lower() for name in schema.names}
        fields: list[Any] = []
        for field in schema:
            name, number = field.name, 0
            while name.lower() in taken or (number and name.lower() in every):
                number += 1
                name = f"{field.name}_{number}"
            if number:
                self._renamed[name] = field.name
            taken.add(name.lower())
            fields.append(field.with_name(name))
        if schema.names == [field.name for field in fields]:
            return schema, batches
        schema = pa.schema(fields)
        return schema, lambda: (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches())

    def add_empty(self, name: str, schema: pa.Schema) -> str:
        """Register a table without rows; returns its name as :meth:`add`. Its scans in a plan are of no stream."""
        place = self.add(name, schema, lambda: iter(()))
        schema_name, _, table = place.partition(".")
        for text in (
            f"CREATE TABLE {schema_name}._empty AS FROM {place}",
            f"CREATE OR REPLACE VIEW {schema_name}.{table} AS FROM {schema_name}._empty",
        ):
            self._run_guarded(partial(self._connection.execute, text))
        return place

    def add_view(self, name: str, query: str) -> str:
        """Register a query as a view; returns its name in DuckDB. Raises :class:`Failure`."""
        return self._define(name, self._define_macros(query))

    def _define_macros(self, query: str) -> str:
        """Returns ``query`` once the macros that it calls are defined."""
        define_what(query, self._connection)
        define_typed(query, self._connection, self._current)
        return query

    def check(self, query: str) -> None:
        """Check that a text is valid SQL of DuckDB, whatever its names mean. Raises :class:`Failure`."""
        self._run_guarded(lambda: self._connection.extract_statements(query))

    def run(self, query: str) -> pa.Table:
        """Returns the rows of a query. Raises :class:`Failure`, and the error of a table that could not be read.

        KeyboardInterrupt ends it at any point.
        """
        try:
            read = partial(interruptible, self._connection, lambda: self._relation_of(query).to_arrow_table())
            rows: pa.Table = self._run_guarded(read)
        except Failure as failure:
            if failure.line is None:  # for a relation, DuckDB reports errors without a place; for a statement, with it
                self.bind(query)
            raise
        stored = rows.schema
        if (typed := typed_schema(stored)) is not stored:
            rows = pa.Table.from_batches([typed_batch(batch, typed) for batch in rows.to_batches()], typed)
        return rows.rename_columns([self._heading(name, query) for name in rows.column_names])

    def stream(self, query: str, order: str = "") -> StreamedRows:
        """Returns the rows of a query, some at a time, in ``order``, if given. Raises as :meth:`run`, also later."""
        text = f"FROM (\n{query}\n) ORDER BY {order}" if order else query
        read = partial(self._run_streamed, query, lines_before=1 if order else 0)
        reader: Any = read(lambda: self._relation_of(text).to_arrow_reader(_ROWS_AT_ONCE))
        names = [self._heading(name, query) for name in reader.schema.names]
        typed = typed_schema(reader.schema)
        schema = pa.schema([field.with_name(name) for field, name in zip(typed, names, strict=True)])
        batches: Iterator[pa.RecordBatch] = iter(partial(read, partial(next, reader, None)), None)
        return StreamedRows(schema, (typed_batch(batch, typed).rename_columns(names) for batch in batches))

    def _run_streamed(self, query: str, work: Callable[[], T], *, lines_before: int) -> T:
        try:
            found: T = self._run_guarded(partial(interruptible, self._connection, work), lines_before)
        except Failure as failure:
            if failure.line is None:  # as in run()
                self.bind(query)
            raise
        return found

    def bind(self, query: str) -> None:
        """Check that the names in a query mean something. Raises :class:`Failure`, with its place."""
        self._run_guarded(lambda: self._connection.execute(f"EXPLAIN\n{self._define_macros(query)}"), lines_before=1)

    def plan(self, query: str) -> PlanNode:
        """Returns DuckDB's plan of a query before it is optimized. Raises :class:`Failure`."""
        found = self._run_guarded(
            lambda: self._connection.execute(f"EXPLAIN (FORMAT JSON)\n{self._define_macros(query)}").fetchall()
        )
        plans = json.loads(dict(found).get("logical_plan", "[]"))
        if len(plans) != 1:
            raise Failure("DuckDB shows no plan", self._outside)
        return PlanNode.of_json(plans[0])

    def columns(self, query: str) -> tuple[pa.Schema, list[str]]:
        """Returns the columns of a query's rows, and their types in DuckDB. Raises :class:`Failure`."""
        relation = self._run_guarded(lambda: self._relation_of(query))
        rows: pa.Table = self._run_guarded(relation.limit(0).to_arrow_table)
        names = [self._heading(name, query) for name in rows.column_names]
        return typed_schema(rows.rename_columns(names).schema), list(map(str, relation.types))

    def _relation_of(self, query: str) -> Any:
        return self._connection.sql(self._define_macros(query))

    def _heading(self, name: str, query: str) -> str:
        """Returns a column's name for the caller.

        An expression without a name is called by its text; a given name stays.
        """
        if name in self._renamed:
            return self._renamed[name]
        given = name in self._named or double_quoted(name) in query
        return name if given else self._outside(name)

    def _outside(self, text: str) -> str:
        """Returns ``text`` without the internal schemas of tables, which the caller does not know."""
        for number, name in enumerate(self._tables, start=1):
            table = rf"{re.escape(name)}\b|{re.escape(double_quoted(name))}"
            text = re.sub(rf'(?<![\w."])(?:_{number}|"_{number}")\.(?={table})', "", text, flags=re.IGNORECASE)
        return text

    def _define(self, name: str, query: str) -> str:
        self._tables.append(name)
        schema = f"_{len(self._tables)}"
        # Quoted only if necessary, so that the text keeps its length.
        place = f"{schema}.{name if _WORD.fullmatch(name) else double_quoted(name)}"
        self._run_guarded(lambda: self._connection.execute(f"CREATE SCHEMA {schema}"))
        self._run_guarded(lambda: self._connection.execute(f"CREATE VIEW {place} AS {query}"))
        return place

    def _run_guarded(self, work: Callable[[], Any], lines_before: int = 0) -> Any:
        try:
            return work()
        except (*self._refusals, RuntimeError) as error:
            for stream in self._streams:
                if stream.error is not None:
                    raise stream.error from error
            if self._memory is not None and isinstance(error, self._duckdb.OutOfMemoryException):
                raise out_of_memory(error, self._memory) from error
            if isinstance(error, self._refusals):
                raise Failure(str(error), self._outside, lines_before) from error
            raise

    def __enter__(self) -> Duck:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a second Ctrl-C, the query may still be ending; then the database ends with it.
        self._sandbox.give_back(ended=kind is None or issubclass(kind, Failure | MetastoreError))
