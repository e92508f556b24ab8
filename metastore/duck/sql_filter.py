"""Rows that satisfy ``where``, judged by DuckDB: for questions that Arrow has no exact expression for.

DuckDB is asked for the numbers of the rows that pass, and is shown only the columns that the question names, under
names that it can tell apart. So rows keep their order and their types, those that DuckDB lacks among them, and columns
and fields may differ by case only. The text of a question is anybody's: it is run closed off from the machine.
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

from metastore.duck.optional import library
from metastore.duck.session import close_off, connection, relation
from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words, missing_function
from metastore.duck.spark_texts import define_what
from metastore.duck.value_kinds import mark
from metastore.duck.words import phrase
from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.number_grid import NumberGrid
from metastore.predicates.spark_sql import condition_of
from metastore.predicates.sql_predicate import COMPARISONS

_ROWS: Final = 1 << 17
"""As many are judged at once: small files would cost a query each."""

_NUMBER: Final = "row number"

_AS_WRITTEN: Final = "SET disabled_optimizers = 'expression_rewriter'"
"""Else DuckDB makes ``i < -1`` of ``i + 1 < 0``: where Spark fails or finds more, rows would be missing in silence."""


def filtered(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, where: str, columns: Columns, zone: tzinfo
) -> Iterator[pa.RecordBatch]:
    """The rows of ``batches`` (of ``schema``) that satisfy the Spark SQL predicate ``where``, in order.

    ``columns`` are those that it may name. Raises InvalidRequestError for what DuckDB cannot judge, and without
    DuckDB; what reading raises, as it is.
    """
    question = _Question.of(where, columns, schema, zone)
    failure: type[Exception] = library("duckdb", "sql").Error
    with connection(zone) as engine:
        engine.execute(_AS_WRITTEN)
        define_what(question.text, engine)
        close_off(engine)
        for rows in _gathered(batches, schema):
            try:
                passing = question.numbers(engine, rows)
            except failure as error:
                said = str(error).partition("\n")[0]  # what follows is the query as it is put to DuckDB
                why = missing_function(said) or said
                raise InvalidRequestError(f"the predicate {where!r} fails: {why}") from error
            yield from rows.take(passing).to_batches()


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """``batches`` in tables of some size."""
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
    """The columns of a table that a Spark SQL predicate names, fields of structs by their column's name.

    None where a subquery may mean any. InvalidRequestError for a name that is none of ``columns``.
    """
    tree = condition_of(where)
    if tree.find(exp.Query) is not None:
        return None
    paths = [tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column)]
    return frozenset(columns.resolve(path, f" of {where!r}").path[0] for path in paths)


@dataclass(frozen=True)
class _Question:
    """A predicate in DuckDB's words, and the columns that it names, or fields: our paths -> DuckDB's names."""

    text: str
    names: dict[ColumnPath, str]

    @classmethod
    def of(cls, where: str, columns: Columns, schema: pa.Schema, zone: tzinfo) -> _Question:
        tree = condition_of(where)
        if tree.find(exp.Query) is not None:
            raise InvalidRequestError(f"a scan asks one table, without subqueries: {where!r}; ask that in a SELECT")
        tree = _with_decimals_that_fit(tree, columns, where)
        names: dict[ColumnPath, str] = {}
        for node in list(tree.find_all(exp.Column)):
            path = tuple(part.name for part in node.parts)
            column = columns.resolve(path, f" of {where!r}")
            shown = _shown(column.path, schema)
            if shown not in names:
                names[shown] = _free(shown[-1], {_NUMBER, *names.values()})
            said = _said(names[shown], column, len(shown), path[len(column.path) :], schema)
            tree = said if node is tree else tree
            node.replace(said)
        try:
            return cls(SparkInDuckDb().generate(in_duckdbs_words(tree)), names)
        except SqlglotError as error:
            raise InvalidRequestError(f"the predicate {where!r} cannot be said in DuckDB's SQL: {error}") from error

    def numbers(self, engine: Any, rows: pa.Table) -> pa.Array[Any]:
        """The numbers of the ``rows`` that satisfy the question, ascending."""
        asked = [_at(rows, path) for path in self.names]
        numbered = pa.table([*asked, pa.array(np.arange(rows.num_rows))], [*self.names.values(), _NUMBER])
        passing = relation(engine, numbered).filter(self.text).project(f'"{_NUMBER}"').to_arrow_table()
        numbers: pa.Array[Any] = passing.column(0).combine_chunks().sort()
        return numbers


def _with_decimals_that_fit(tree: exp.Expr, columns: Columns, where: str) -> exp.Expr:
    """``tree`` with literals beside columns of decimals in the column's own digits.

    DuckDB casts both sides to one type, and fails where that would have more than 38 digits.
    """

    def fitting(node: exp.Expr) -> exp.Expr:
        operator = COMPARISONS.get(type(node))
        if operator is None or not isinstance(node.this, exp.Column):
            return node
        column = columns.resolve(tuple(part.name for part in node.this.parts), f" of {where!r}")
        number = _number_of(node.expression)
        if column.type.name != "DECIMAL" or number is None or len(column.type.arguments) != 2:
            return node
        aligned = NumberGrid.of_decimal(*column.type.arguments).aligned(operator, number)
        if isinstance(aligned, bool):
            known = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
            return exp.paren(exp.Case(ifs=[exp.If(this=known, true=exp.Boolean(this=aligned))]))
        fitted = node.copy()
        fitted.set("expression", exp.paren(exp.Literal.number(f"{aligned:f}")))
        return fitted

    return tree.transform(fitting)


def _number_of(node: exp.Expr) -> Decimal | None:
    """The whole or decimal number that ``node`` writes in digits."""
    inner = node.unnest()
    negative = isinstance(inner, exp.Neg)
    inner = inner.this.unnest() if negative else inner
    if not isinstance(inner, exp.Literal) or inner.is_string or "e" in inner.name.lower():
        return None
    number = Decimal(inner.name)
    return number.copy_negate() if negative else number


def _free(name: str, taken: set[str]) -> str:
    """``name``, or one like it that differs from all that are ``taken`` by more than case."""
    lowered = {one.lower() for one in taken}
    number = 1
    free = name
    while free.lower() in lowered:
        number += 1
        free = f"{name}_{number}"
    return free


def _said(name: str, column: PredicateColumn, shown: int, rest: tuple[str, ...], schema: pa.Schema) -> exp.Expr:
    """A column, a field of it, or what a path leads to inside a list or a map.

    ``name`` is what DuckDB calls what the first ``shown`` names of the column's path lead to.
    """
    said: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
    for field in column.path[shown:]:
        said = exp.Anonymous(this="struct_extract", expressions=[said, exp.Literal.string(field)])
    if column.type.name == "VARCHAR":
        said.type = exp.DataType.build("TEXT")
    if column.type.name == "FLOAT" and not rest:
        # Beside decimals Spark compares as DOUBLE, DuckDB as FLOAT, to which 0.1 is the FLOAT next to it.
        return phrase("CAST(:it AS DOUBLE)", it=said)
    for field in rest:
        said = exp.Dot(this=said, expression=exp.to_identifier(field, quoted=True))
    if not rest and (type_ := _arrow_type(column, schema)) is not None:
        mark(said, type_)
    return said


def _arrow_type(column: PredicateColumn, schema: pa.Schema) -> pa.DataType | None:
    """The type that ``column`` has in rows of ``schema``."""
    if column.path[0] not in schema.names:
        return None
    type_: pa.DataType = schema.field(column.path[0]).type
    for name in column.path[1:]:
        if not isinstance(type_, pa.StructType) or type_.get_field_index(name) < 0:
            return None
        type_ = type_.field(name).type
    return type_


def _shown(path: ColumnPath, schema: pa.Schema) -> ColumnPath:
    """The part of ``path`` that DuckDB is shown as a column: up to the last field that only case tells from another."""
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


def _at(rows: pa.Table, path: ColumnPath) -> pa.ChunkedArray[Any]:
    """The values at ``path``, null where a struct around them is null."""
    column = rows.column(path[0])
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))
