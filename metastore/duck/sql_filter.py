"""Filters rows by ``where`` in DuckDB, for conditions without an exact expression in Arrow.

DuckDB returns the numbers of the matching rows. It gets only the columns that the condition names, under names that
differ in more than case. So rows keep their order and their types, including types that DuckDB lacks, and names of
columns and fields may differ only in case. The text of a condition may come from anyone, so it runs sandboxed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import SqlglotError

from metastore.duck.session import close_off, connection, relation
from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words, missing_function
from metastore.duck.spark_texts import define_what
from metastore.duck.value_kinds import mark
from metastore.errors import InvalidRequestError
from metastore.ground.optional import library
from metastore.model.column_path import ColumnPath
from metastore.model.tuple_schema import LOGICAL_TYPE
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.condition import COMPARISONS
from metastore.predicates.literals import UUIDS
from metastore.predicates.number_grid import NumberGrid
from metastore.predicates.spark_sql import condition_of
from metastore.predicates.uuid_texts import with_uuids

_ROWS: Final = 1 << 17
"""Rows that are filtered at once; otherwise each small file would cost a query."""

_NUMBER: Final = "row number"

_AS_WRITTEN: Final = "SET disabled_optimizers = 'expression_rewriter'"
"""Otherwise DuckDB rewrites ``i + 1 < 0`` to ``i < -1``, and silently loses rows for which Spark fails or matches."""


def filter_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, where: str, columns: Columns, zone: tzinfo
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``batches`` (of ``schema``) that satisfy the Spark SQL predicate ``where``, in order.

    ``columns`` are those that it may name. Raises InvalidRequestError for a predicate that DuckDB cannot evaluate, and
    without DuckDB; errors of reading pass unchanged.
    """
    question = _Question.of(where, columns, schema, zone)
    failure: type[Exception] = library("duckdb", "sql").Error
    with connection(zone) as engine:
        engine.execute(_AS_WRITTEN)
        define_what(question.text, engine)
        close_off(engine)
        for rows in _combine_batches(batches, schema):
            try:
                passing = question.numbers(engine, rows)
            except failure as error:
                message = str(error).partition("\n")[0]  # the rest is the query as DuckDB gets it
                why = missing_function(message) or message
                raise InvalidRequestError(f"the predicate {where!r} fails: {why}") from error
            yield from rows.take(passing).to_batches()


def _combine_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields ``batches`` combined into larger tables."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def named_by(where: str, columns: Columns) -> frozenset[str] | None:
    """Returns the columns of a table that a Spark SQL predicate names; a field of a struct counts as its column.

    Returns None if a subquery may use any column. Raises InvalidRequestError for a name that is not in ``columns``.
    """
    tree = condition_of(where)
    if tree.find(exp.Query) is not None:
        return None
    paths = [tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column)]
    return frozenset(columns.resolve(path, f" of {where!r}").path[0] for path in paths)


@dataclass(frozen=True)
class _Question:
    """A predicate in DuckDB's SQL, and the columns or fields that it names: our paths -> DuckDB's names."""

    text: str
    names: dict[ColumnPath, str]

    @classmethod
    def of(cls, where: str, columns: Columns, schema: pa.Schema, zone: tzinfo) -> _Question:
        """The condition for DuckDB. InvalidRequestError for a subquery, and for a column that ``columns`` lacks."""
        tree = condition_of(where).copy()
        if tree.find(exp.Query) is not None:
            raise InvalidRequestError(
                f"a condition of a scan uses one table and no subqueries: {where!r}; use a SELECT"
            )
        tree = with_uuids(tree, columns, lambda each: exp.cast(exp.Literal.string(str(each)), "uuid")) or tree
        tree = _with_decimals_that_fit(tree, columns, where)
        _leave_keys_as_written(tree, columns, where)
        names: dict[ColumnPath, str] = {}
        for node in list(tree.find_all(exp.Column)):
            path = tuple(part.name for part in node.parts)
            column = columns.resolve(path, f" of {where!r}")
            shown = _visible_path(column.path, schema)
            if shown not in names:
                names[shown] = _free(shown[-1], {_NUMBER, *names.values()})
            column_sql = _column_sql(names[shown], column, len(shown), path[len(column.path) :], schema)
            tree = column_sql if node is tree else tree
            node.replace(column_sql)
        try:
            return cls(SparkInDuckDb().generate(in_duckdbs_words(tree)), names)
        except SqlglotError as error:
            raise InvalidRequestError(f"the predicate {where!r} cannot be written in DuckDB's SQL: {error}") from error

    def numbers(self, engine: Any, rows: pa.Table) -> pa.Array[Any]:
        """Returns the numbers of the ``rows`` that satisfy the predicate, ascending."""
        asked: list[Any] = [_at(rows, path) for path in self.names]
        fields = [_field_at(rows.schema, path).with_name(name) for path, name in self.names.items()]
        every: Any = pa.array(np.arange(rows.num_rows))
        schema = pa.schema([*fields, pa.field(_NUMBER, every.type)])
        numbered = pa.Table.from_arrays([*asked, every], schema=schema)
        passing = relation(engine, numbered).filter(self.text).project(f'"{_NUMBER}"').to_arrow_table()
        numbers: pa.Array[Any] = passing.column(0).combine_chunks().sort()
        return numbers


def _leave_keys_as_written(tree: exp.Expr, columns: Columns, where: str) -> None:
    """Marks keys of maps in ``tree``: positions in lists count from 0 in Spark and from 1 in DuckDB, keys do not."""
    for node in tree.find_all(exp.Bracket):
        column = node.this.unnest()
        if isinstance(column, exp.Column):
            path = tuple(part.name for part in column.parts)
            if columns.resolve(path, f" of {where!r}").type.name == "MAP":
                node.set("offset", 1)


def _with_decimals_that_fit(tree: exp.Expr, columns: Columns, where: str) -> exp.Expr:
    """Returns ``tree`` with literals that are compared to decimal columns in the column's own digits.

    DuckDB casts both sides to one type, and fails if that type has more than 38 digits.
    """

    def fitting(node: exp.Expr) -> exp.Expr:
        operator = COMPARISONS.get(type(node))
        if operator is None or not isinstance(node.this, exp.Column):
            return node
        column = columns.resolve(tuple(part.name for part in node.this.parts), f" of {where!r}")
        number = _number_of(node.expression)
        if column.type.name != "DECIMAL" or number is None or len(column.type.arguments) != 2:
            return node
        aligned = NumberGrid.of_decimal(*column.type.arguments).align(operator, number)
        if isinstance(aligned, bool):
            known = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
            return exp.paren(exp.Case(ifs=[exp.If(this=known, true=exp.Boolean(this=aligned))]))
        fitted = node.copy()
        fitted.set("expression", exp.paren(exp.Literal.number(f"{aligned:f}")))
        return fitted

    return tree.transform(fitting)


def _number_of(node: exp.Expr) -> Decimal | None:
    """Returns the whole or decimal number that ``node`` writes in digits."""
    inner = node.unnest()
    negative = isinstance(inner, exp.Neg)
    inner = inner.this.unnest() if negative else inner
    if not isinstance(inner, exp.Literal) or inner.is_string or "e" in inner.name.lower():
        return None
    number = Decimal(inner.name)
    return number.copy_negate() if negative else number


def _free(name: str, taken: set[str]) -> str:
    """Returns ``name``, or a similar name that differs from all that are ``taken`` by more than case."""
    lowered = {one.lower() for one in taken}
    number = 1
    free = name
    while free.lower() in lowered:
        number += 1
        free = f"{name}_{number}"
    return free


def _column_sql(name: str, column: PredicateColumn, shown: int, rest: tuple[str, ...], schema: pa.Schema) -> exp.Expr:
    """Returns the SQL for a column, a field of it, or a path into a list or a map.

    ``name`` is DuckDB's name for the value that the first ``shown`` names of the column's path denote.
    """
    expression: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
    for field in column.path[shown:]:
        expression = exp.Anonymous(this="struct_extract", expressions=[expression, exp.Literal.string(field)])
    if column.type.name == "VARCHAR":
        expression.type = exp.DataType.build("TEXT")
    for field in rest:
        expression = exp.Dot(this=expression, expression=exp.to_identifier(field, quoted=True))
    if not rest and (type_ := _arrow_type(column, schema)) is not None:
        mark(expression, type_)
    return expression


def _arrow_type(column: PredicateColumn, schema: pa.Schema) -> pa.DataType | None:
    """Returns the type of ``column`` in rows of ``schema``."""
    if column.path[0] not in schema.names:
        return None
    type_: pa.DataType = schema.field(column.path[0]).type
    for name in column.path[1:]:
        if not isinstance(type_, pa.StructType) or type_.get_field_index(name) < 0:
            return None
        type_ = type_.field(name).type
    return type_


def _visible_path(path: ColumnPath, schema: pa.Schema) -> ColumnPath:
    """Returns the part of ``path`` that DuckDB gets as a column: up to the last field with a namesake in other case."""
    place = schema.get_field_index(path[0])
    type_: Any = None if place < 0 else schema.field(place).type
    shown = path[:1]
    for depth, name in enumerate(path[1:], 2):
        if not isinstance(type_, pa.StructType):
            break
        if sum(field.name.lower() == name.lower() for field in type_.fields) > 1:
            shown = path[:depth]
        type_ = type_.field(name).type
    return shown


def _field_at(schema: pa.Schema, path: ColumnPath) -> pa.Field[Any]:
    """Returns the field at ``path``; JSON and times are what they are in Spark, texts and local times."""
    field: pa.Field[Any] = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    is_uuid = (field.metadata or {}).get(LOGICAL_TYPE.encode()) == UUIDS.encode()
    return (
        field
        if is_uuid or not (pa.types.is_time(field.type) or pa.types.is_string(field.type))
        else field.remove_metadata()
    )


def _at(rows: pa.Table, path: ColumnPath) -> pa.ChunkedArray[Any]:
    """Returns the values at ``path``, null if a struct around a value is null."""
    column = rows.column(path[0])
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))
