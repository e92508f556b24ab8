"""CREATE TABLE and REPLACE TABLE in a catalog.

::

    [EXPLAIN] CREATE TABLE [IF NOT EXISTS] catalog.schema.table … [AS query]      -- see metastore.sql.new_table
    [EXPLAIN] {CREATE OR REPLACE | REPLACE} TABLE catalog.schema.table … [AS query]

CREATE TABLE AS creates the table with its rows in one commit, or not at all. A catalog of type filesystem does not
support that, so CREATE TABLE AS is refused there. OR REPLACE keeps the table's history
(:mod:`metastore.sql.tables.replacement`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from sqlglot import Token

from metastore.errors import ConflictError, InvalidRequestError, MetastoreError, NotFoundError
from metastore.lake.iceberg.catalogs.catalog_errors import failures_of
from metastore.lake.iceberg.catalogs.iceberg_private import pending, schema_of_columns
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE, with_lineage
from metastore.lake.iceberg.snapshots.valid_updates import require_valid
from metastore.lake.writes.insert_values import VERSION_OF_NANOSECONDS, InsertValues
from metastore.lake.writes.publication import publish_creation, require_unchanged
from metastore.lake.writes.table_writer import TableWriter, job_of
from metastore.procedures.files.guards import require_written_version
from metastore.sql.queries.named_table import place_of, table_name
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.select import fetch_lines, streamed_rows
from metastore.sql.rows.insert import query_from
from metastore.sql.rows.insert_tasks import insert_by_tasks, insert_queried, insert_rows
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.tables.new_table import NewTable, new_table
from metastore.sql.tables.replacement import replaced_table, replacing, with_ids_of
from metastore.sql.tables.schemas import answer_row
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.division import Division, columns_of, divide_query

_Write = Callable[[InsertValues, TableWriter], tuple[list[DataFile], int]]
"""Writes the rows of a query; returns the files, and the number of rows."""


def create_table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one CREATE TABLE; returns one row that says what was done and, with AS, how many rows the table has."""
    statement, has_rows = _with_rows(statement)
    cursor = Cursor(statement)
    creates = cursor.accept_word("CREATE")
    replaces = not creates or cursor.accept_word("OR")
    if replaces:
        cursor.expect_word("REPLACE")
    cursor.expect_word("TABLE")
    if_not_exists = not replaces and cursor.accept_words("IF", "NOT", "EXISTS")
    names = table_name(target, cursor)
    made = new_table(target, cursor)
    query: Token | None = None
    if cursor.accept_word("AS"):
        query = cursor.advance()
        if made.columns:
            raise statement.error("the columns of CREATE TABLE AS are those of the query", names[0].token)
    elif not made.columns:
        raise cursor.expectation_error("columns in brackets, or AS and a query")
    place = place_of(target, cursor, names)
    with statement.at(names[0].token):
        _require_schema(target, place)
        replaced = None
        if not creates or place.newest_pointer() is not None:
            if if_not_exists:
                return answer_row(False, f"{place}: exists already")
            if not replaces:
                raise InvalidRequestError(f"table {place} exists already")
            replaced = target.catalogs.load(place.catalog_name, place.schema_name, place.name)
            require_written_version(replaced, place)
            made.format_version = max(made.format_version, replaced.metadata.format_version)
        else:
            place.require_new_name()
    creation = _Creation(target, cursor, names, place, made, replaced)
    if statement.explains:
        return creation.explain(None if query is None else query_from(statement, query), query)
    if query is None or not has_rows:
        return creation.empty(None if query is None else query_from(statement, query), query)
    return creation.of_query(query_from(statement, query), query)


def _with_rows(statement: Statement) -> tuple[Statement, bool]:
    """Returns the statement without ``WITH [NO] DATA`` at its end, and whether the rows of its query are written."""
    for words in (("WITH", "NO", "DATA"), ("WITH", "DATA")):
        first = len(statement.tokens) - len(words)
        if first > 0 and all(statement.word(first + at) == word for at, word in enumerate(words)):
            text = statement.text[: statement.tokens[first].start]
            return replace(statement, text=text, tokens=statement.tokens[:first]), "NO" not in words
    return statement, True


class _Creation:
    """One table that is about to be created, in place of ``replaced`` if there is one."""

    def __init__(
        self,
        target: StatementTarget,
        cursor: Cursor,
        names: list[Name],
        place: TargetTable,
        made: NewTable,
        replaced: Table | None = None,
    ) -> None:
        self._replaced = replaced
        self._target = target
        self._cursor = cursor
        self._token = names[0].token
        self._place = place
        self._made = made

    def empty(self, query: Statement | None, token: Token | None) -> pa.Table:
        """Create it without rows, in the columns of ``query`` if there is one."""
        schema = self._made.schema
        if query is not None and token is not None:
            engine = self._cursor.statement.engine
            columns = (
                columns_of(query, Relations(self._target))
                if engine is None
                else engine.query_rows(self._target, query.text).columns
            )
            schema = self._schema(self._to_stored_types(columns), token)
        assert schema is not None
        if self._replaced is not None:
            _, updates = self._replacement(self._replaced, self._arguments(schema))
            try:
                self._place.commit(self._replaced, require_unchanged(self._replaced), updates)
            except CommitFailedException as error:
                raise self._conflict_error() from error
            return answer_row(True, self._cursor.with_notes(f"{self._place}: is replaced"))
        source, arguments = self._place.source, self._arguments(schema)
        with self._cursor.statement.at(self._token), failures_of(source, *_REFUSED, changing=True), source.turn:
            try:
                source.catalog.create_table(self._place.identifier, **arguments)
            except _REFUSED as error:
                raise self._translate_error(error) from error
        return answer_row(True, self._cursor.with_notes(f"{self._place}: is created"))

    def explain(self, query: Statement | None, token: Token | None) -> pa.Table:
        """Returns the lines of EXPLAIN: where ``query`` runs, the new table, and what is fetched from each table."""
        schema, lines = self._made.schema, ["Run on this machine: only the table's metadata is written"]
        if query is not None and token is not None:
            self._require_one_commit(token)
        if query is not None and token is not None and (engine := self._cursor.statement.engine) is not None:
            rows = engine.query_rows(self._target, query.text)
            schema, lines = self._schema(self._to_stored_types(rows.columns), token), list(rows.lines)
        elif query is not None and token is not None:
            relations = Relations(self._target)
            schema = self._schema(self._to_stored_types(columns_of(query, relations)), token)
            lines = [divide_query(self._target, query, relations).line, *fetch_lines(query, relations)]
        assert schema is not None
        self._arguments(schema)
        columns = ", ".join(f"{field.name} {field.field_type}" for field in schema.fields)
        return pa.table({"plan": pa.array([lines[0], f"Create {self._place} ({columns})", *lines[1:]], pa.string())})

    def of_query(self, query: Statement, token: Token) -> pa.Table:
        """Create it with the rows of ``query``."""
        self._require_one_commit(token)
        if (engine := self._cursor.statement.engine) is not None:
            rows = engine.query_rows(self._target, query.text)
            return self._create(rows.columns, partial(insert_queried, rows), token, f", by {rows.engine.name}")
        relations = Relations(self._target)
        division = divide_query(self._target, query, relations)
        if isinstance(division, Division):
            write = partial(insert_by_tasks, division)
            return self._create(division.columns, write, token, f", by tasks of the engine {division.engine.name}")
        with streamed_rows(query, relations) as streamed:
            return self._create(streamed.schema, partial(insert_rows, streamed.batches), token)

    def _replacement(self, replaced: Table, arguments: dict[str, Any]) -> tuple[Table, Sequence[TableUpdate]]:
        """Returns the table that replaces ``replaced``, and the updates that make it."""
        updates = replacing(
            replaced.metadata,
            self._made.format_version,
            arguments["schema"],
            arguments["partition_spec"],
            arguments["sort_order"],
            self._made.location,
            self._made.properties,
        )
        return replaced_table(replaced, updates), updates

    def _stage(self, arguments: dict[str, Any]) -> tuple[Table, Sequence[TableUpdate]]:
        """Returns the table with ``arguments``, and the updates that create it, or replace the present one."""
        if self._replaced is not None:
            return self._replacement(self._replaced, arguments)
        source = self._place.source
        with self._cursor.statement.at(self._token), failures_of(source, *_REFUSED), source.turn:
            try:
                transaction = source.catalog.create_table_transaction(self._place.identifier, **arguments)
            except _REFUSED as error:
                raise self._translate_error(error) from error
        staged = transaction._table  # noqa: SLF001 - the transaction offers no other access to the table that it stages
        return staged, pending(transaction)[1]

    def _create(self, columns: pa.Schema, write: _Write, token: Token, by: str = "") -> pa.Table:
        """Write rows, then create the table with them in one commit; files of a failed one are removed."""
        stored = self._to_stored_types(columns)
        staged, updates = self._stage(self._arguments(self._schema(stored, token)))
        writer = TableWriter(job_of(str(self._place), staged.metadata, staged.io))
        schema = staged.metadata.schema()
        values = InsertValues(schema, range(len(schema.fields)), {}, "", stored)
        try:
            files, count = write(values, writer)
            now_ms = self._target.metastore.clock.now_ms()
            with writer.committing():
                publish_creation(self._place, staged, updates, now_ms, files, self._replaced)
        except CommitFailedException as error:
            writer.remove()
            if self._replaced is not None or self._place.newest_pointer() is None:
                raise self._conflict_error() from error
            raise self._cursor.statement.error(f"table {self._place} exists already", self._token) from error
        except BaseException:
            writer.remove()
            raise
        done_so = "created" if self._replaced is None else "replaced"
        return answer_row(True, f"{self._place}: is {done_so} with {count} rows{by}")

    def _conflict_error(self) -> ConflictError:
        change = "created" if self._replaced is None else "replaced"
        return ConflictError(f"{self._place} was not {change}, because another writer was faster; try again")

    def _require_one_commit(self, token: Token) -> None:
        source = self._place.source
        if source.settings.type == "filesystem" and self._replaced is None:
            raise self._cursor.statement.error(
                f"{source} cannot create a table and its rows at once: CREATE TABLE first, then INSERT INTO", token
            )

    def _to_stored_types(self, columns: pa.Schema) -> pa.Schema:
        """Returns the columns of a query in types that the table's format version has, none of them narrower."""
        nanoseconds = self._made.format_version >= VERSION_OF_NANOSECONDS
        return pa.schema([each.with_type(_stored_type(each.type, nanoseconds=nanoseconds)) for each in columns])

    def _schema(self, columns: pa.Schema, token: Token) -> Schema:
        """Returns the table's columns for those of the query, which begins at ``token``."""
        if "" in columns.names:
            raise self._cursor.statement.error(
                "the query returns a column without a name: name all, as in FROM t AS t(a, b)", token
            )
        try:
            return schema_of_columns(columns, self._made.format_version)
        except (TypeError, ValueError, UnsupportedPyArrowTypeException) as error:
            raise self._cursor.statement.error(
                f"the query returns a type that Iceberg does not support: {error}", token
            ) from error

    def _arguments(self, schema: Schema) -> dict[str, Any]:
        """What the catalog gets: ids of a replaced table's columns stay, and the metadata is valid for any reader."""
        if self._replaced is not None:
            schema = with_ids_of(self._replaced.metadata, schema)
        try:
            if self._made.format_version >= VERSION_OF_LINEAGE:
                with_lineage(schema)
            spec = self._made.spec(self._cursor, schema)
            order = self._made.order(self._cursor, str(self._place), schema)
            require_valid(
                str(self._place),
                None,
                (
                    UpgradeFormatVersionUpdate(format_version=self._made.format_version),
                    AddSchemaUpdate(schema_=schema),
                    AddPartitionSpecUpdate(spec=spec),
                    AddSortOrderUpdate(sort_order=order),
                ),
            )
        except InvalidRequestError:
            raise
        except (ValueError, ValidationError) as error:
            raise self._cursor.statement.error(str(error), self._token) from error
        properties = {**self._made.properties, "format-version": str(self._made.format_version)}
        return {
            "schema": schema,
            "location": self._made.location,
            "partition_spec": spec,
            "sort_order": order,
            "properties": properties,
        }

    def _translate_error(self, error: Exception) -> MetastoreError:
        if isinstance(error, MetastoreError):
            return error
        if isinstance(error, TableAlreadyExistsError):
            return InvalidRequestError(f"table {self._place} exists already")
        if isinstance(error, NoSuchNamespaceError):
            return _no_schema(self._place)
        return InvalidRequestError(f"{self._place} cannot be created: {error}")


def _require_schema(target: StatementTarget, place: TargetTable) -> None:
    """Raises NotFoundError without the schema; a catalog of type filesystem makes its folder with the table."""
    if place.schema_name in target.catalogs.schemas(place.catalog_name):
        return
    try:
        target.catalogs.tables(place.catalog_name, place.schema_name)
    except NotFoundError as error:
        raise _no_schema(place, str(error)) from error
    if place.source.settings.type != "filesystem":
        raise _no_schema(place)


def _no_schema(place: TargetTable, problem: str = "") -> NotFoundError:
    """Returns the error for a schema that is not there; ``problem`` may end with a question about its name."""
    name = f"{place.catalog_name}.{place.schema_name}"
    problem = problem or f"schema {name} does not exist"
    return NotFoundError(f"{problem}{' If not, run' if problem.endswith('?') else ': run'} CREATE SCHEMA {name}")


_REFUSED: Final = (TableAlreadyExistsError, NoSuchNamespaceError, ValueError, ValidationError)


def _stored_type(kind: Any, *, nanoseconds: bool) -> Any:
    types = pa.types
    if types.is_timestamp(kind) and not (nanoseconds and kind.unit == "ns"):
        return pa.timestamp("us", kind.tz)
    if types.is_integer(kind):
        if types.is_uint64(kind):
            return pa.decimal128(20, 0)
        return pa.int64() if kind.bit_width == 64 or types.is_uint32(kind) else pa.int32()
    return kind


HANDLERS: Final = {
    ("CREATE", "TABLE"): create_table,
    ("CREATE", "OR", "REPLACE", "TABLE"): create_table,
    ("REPLACE", "TABLE"): create_table,
    **{
        ("EXPLAIN", *words, "TABLE"): lambda target, statement: create_table(target, statement.without_explain())
        for words in (("CREATE",), ("CREATE", "OR", "REPLACE"), ("REPLACE",))
    },
}
"""Handlers by the first words of their statements."""
