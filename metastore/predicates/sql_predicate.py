"""Spark SQL text -> a condition, by way of sqlglot's syntax tree.

NOT is carried down to the leaves. What is not a comparison of a column with literals is left out with a note. String
literals with a backslash are left out too: Spark reads an escape there, DuckDB a plain character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal, InvalidOperation

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.leaves import Leaves
from metastore.predicates.literals import Literal, SessionTime
from metastore.predicates.spark_sql import SparkSql, condition_of, texts_of
from metastore.predicates.written_times import date_of, time_of, timestamp_of


def translate(text: str, columns: Columns, leaves: Leaves) -> BooleanExpression:
    """The condition for ``text``; raises InvalidRequestError with the position of a syntax error or unknown column."""
    try:
        tree = condition_of(text)
        return _Translator(text, columns, leaves).translate(tree)
    except RecursionError as error:
        raise InvalidRequestError("the predicate is nested too deeply; use IN for a list of alternatives") from error


_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LIKE_SPECIAL = "%_\\"


class _NotConstant(Exception):  # noqa: N818 - no error of the user's: the part is left out, and a note says so
    """A part that should be a literal is none, or one that engines read differently."""


class _Translator:
    def __init__(self, text: str, columns: Columns, leaves: Leaves) -> None:
        self._text = text
        self._columns = columns
        self._leaves = leaves
        self._escaped = {said for literal, said in texts_of(text).items() if "\\" in literal}

    def translate(self, tree: exp.Expr) -> BooleanExpression:
        # A mistyped name is an error wherever it stands; inside a subquery names belong to other tables.
        for column in tree.find_all(exp.Column):
            if column.find_ancestor(exp.Query) is None:
                self._resolve(column)
        return self._condition(tree, inverted=False)

    def _condition(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        node = node.unnest()
        inverted = inverted is not bool(node.args.get("negate"))
        try:
            if isinstance(node, exp.Not):
                return self._condition(node.this, inverted=not inverted)
            if isinstance(node, (exp.And, exp.Or)):
                return self._junction(node, inverted=inverted)
            if isinstance(node, exp.Boolean):
                return AlwaysTrue() if node.this is not inverted else AlwaysFalse()
            if isinstance(node, exp.Null):
                return AlwaysFalse()
            return self._leaf(node, inverted=inverted)
        except _NotConstant:
            compared = node.this if isinstance(node, exp.Escape) else node
            column = self._column(compared.this) if _never_passes_null(compared) else None
            if column is None:
                return self._leaves.unknown(self._shown(node))
            return self._leaves.not_null(column, self._shown(node))

    def _junction(self, node: exp.And | exp.Or, *, inverted: bool) -> BooleanExpression:
        parts = [self._condition(part, inverted=inverted) for part in node.flatten()]
        return And(*parts) if isinstance(node, exp.And) is not inverted else Or(*parts)

    def _leaf(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        if isinstance(node, exp.Column):
            return self._boolean(self._required_column(node), inverted=inverted)
        if operator := _COMPARISONS.get(type(node)):
            return self._comparison(node, operator, inverted=inverted)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            return self._null_safe(node, inverted=inverted is not isinstance(node, exp.NullSafeNEQ))
        if isinstance(node, exp.Is):
            return self._is(node, inverted=inverted)
        if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
            return self._in(node, inverted=inverted)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            return self._between(node, inverted=inverted)
        if isinstance(node, exp.Escape):
            # NOT LIKE … ESCAPE says its NOT inside.
            inverted = inverted is not bool(node.this.args.get("negate"))
            return self._like(node.this, self._constant(node.expression), inverted=inverted)
        if isinstance(node, exp.Like):
            return self._like(node, "", inverted=inverted)
        raise _NotConstant

    def _boolean(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        return self._leaves.compare(column, "=", True, ".".join(column.path), inverted=inverted)

    def _comparison(self, node: exp.Expr, operator: str, *, inverted: bool) -> BooleanExpression:
        column, other = self._column(node.this), node.expression
        if column is None:
            column, other, operator = self._required_column(node.expression), node.this, _MIRRORED[operator]
        literal = self._constant(other)
        if literal is None:
            return AlwaysFalse()  # neither a comparison with NULL nor its negation is ever true
        return self._leaves.compare(column, operator, literal, self._shown(node), inverted=inverted)

    def _null_safe(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        literal = self._constant(node.expression)
        if literal is None:
            return self._leaves.is_null(column, inverted=inverted)
        return self._or_null(
            self._leaves.compare(column, "=", literal, self._shown(node), inverted=inverted), column, inverted=inverted
        )

    def _is(self, node: exp.Is, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        if isinstance(node.expression, exp.Null):
            return self._leaves.is_null(column, inverted=inverted)
        if not isinstance(node.expression, exp.Boolean):
            raise _NotConstant
        asked = self._leaves.compare(column, "=", bool(node.expression.this), self._shown(node), inverted=inverted)
        return self._or_null(asked, column, inverted=inverted)

    def _or_null(self, condition: BooleanExpression, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``IS NOT TRUE`` and ``IS DISTINCT FROM`` are true for nulls, unlike the comparisons they negate."""
        return Or(condition, self._leaves.is_null(column, inverted=False)) if inverted else condition

    def _in(self, node: exp.In, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        literals = [self._constant(item) for item in node.expressions]
        present = [literal for literal in literals if literal is not None]
        # NOT IN with a NULL among the values is never true; IN ignores it.
        if not present or (inverted and len(present) < len(literals)):
            return AlwaysFalse()
        return self._leaves.contain(column, present, self._shown(node), inverted=inverted)

    def _between(self, node: exp.Between, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        ends = ((">=", self._constant(node.args["low"])), ("<=", self._constant(node.args["high"])))
        parts = [
            self._leaves.compare(column, operator, end, self._shown(node), inverted=inverted)
            if end is not None
            else AlwaysFalse()
            for operator, end in ends
        ]
        return Or(*parts) if inverted else And(*parts)

    def _like(self, node: exp.Expr, escape: Literal | None, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        pattern = self._constant(node.expression)
        # Beside anything else the pattern is compared with a spelling of the value, in which engines differ.
        if column.type.name != "VARCHAR" or not isinstance(pattern, str) or not isinstance(escape, str):
            raise _NotConstant
        # The escape character ends the usable prefix like a wildcard does: engines differ in which one is the default.
        special = next((i for i, c in enumerate(pattern) if c in _LIKE_SPECIAL or c == escape), len(pattern))
        prefix, rest = pattern[:special], pattern[special:]
        if not rest:
            return self._leaves.compare(column, "=", pattern, self._shown(node), inverted=inverted)
        if rest == "%" and escape != "%":
            return self._leaves.start_with(column, prefix, inverted=inverted)
        if inverted or not prefix:
            raise _NotConstant
        return self._leaves.may_match(column, prefix)

    def _column(self, node: exp.Expr) -> PredicateColumn | None:
        node = node.unnest()
        return self._resolve(node) if isinstance(node, (exp.Column, exp.Dot)) and _path(node) else None

    def _required_column(self, node: exp.Expr) -> PredicateColumn:
        column = self._column(node)
        if column is None:
            raise _NotConstant
        return column

    def _resolve(self, node: exp.Expr) -> PredicateColumn:
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            node = node.parent
        path = _path(node) or _path(next(node.find_all(exp.Column)))
        start = next(node.find_all(exp.Column)).parts[0].meta.get("start")
        return self._columns.resolve(path, "" if start is None else f" at position {start + 1} of {self._text!r}")

    def _constant(self, node: exp.Expr) -> Literal | None:
        """The value of a literal, None for NULL; raises _NotConstant for anything else."""
        node = node.unnest()
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            return _negated(self._constant(node.this))
        if isinstance(node, exp.HexString):
            return _bytes(node)
        if isinstance(node, exp.Cast):
            return _cast(self._constant(node.this), node.to)
        if not isinstance(node, exp.Literal) or (node.is_string and node.this in self._escaped):
            raise _NotConstant
        return str(node.this) if node.is_string else _number(node.this)

    def _shown(self, node: exp.Expr) -> str:
        return node.sql(dialect=SparkSql)


def _never_passes_null(node: exp.Expr) -> bool:
    """True if a null on the left makes ``node`` NULL; with a subquery it need not, since that may be empty."""
    if isinstance(node, exp.In):
        return bool(node.expressions)
    return isinstance(node, (*_COMPARISONS, exp.Like, exp.ILike, exp.Between))


def _path(node: exp.Expr) -> ColumnPath:
    """The names of a column or of a field reached by dots; empty where an array or a map lies on the way."""
    if isinstance(node, exp.Dot):
        before = _path(node.this)
        return (*before, node.expression.name) if before and isinstance(node.expression, exp.Identifier) else ()
    return tuple(part.name for part in node.parts) if isinstance(node, exp.Column) else ()


def _negated(value: Literal | None) -> Literal | None:
    """``-value``; not of the least integer of a type, which without ANSI mode stays what it is in Spark."""
    if type(value) not in (int, float, Decimal) or value in _LEAST:
        raise _NotConstant
    return -value  # type: ignore[operator]


def _bytes(node: exp.HexString) -> bytes:
    try:
        return bytes.fromhex(node.this)
    except ValueError as error:
        raise _NotConstant from error


def _number(text: str) -> int | float | Decimal:
    """Spark's reading: digits are an integer, a point makes a decimal, an exponent a double."""
    try:
        if "e" in text.lower():
            return float(text)
        return Decimal(text) if "." in text else int(text)
    except (ValueError, InvalidOperation) as error:
        raise _NotConstant from error


_INTEGER_BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_LEAST = frozenset(-(1 << bits - 1) for bits in _INTEGER_BITS.values())
_DECIMAL_TEXT = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)
_DECIMAL_DEFAULT = (10, 0)
"""Digits, and those behind the point, of a DECIMAL that names none."""

INSTANTS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ})
"""What the parser calls Spark's TIMESTAMP."""

_READERS: Mapping[exp.DType, Callable[[str], date | time | None]] = {exp.DType.DATE: date_of, exp.DType.TIME: time_of}


def _cast(value: Literal | None, to: exp.DataType) -> Literal | None:
    """A typed literal (``DATE '…'``, ``5L``, ``1.5BD``), or a cast of a literal that loses nothing."""
    kind = to.this
    if kind in _INTEGER_BITS and type(value) is int and -(limit := 1 << _INTEGER_BITS[kind] - 1) <= value < limit:
        return value
    if kind is exp.DType.DOUBLE and type(value) in (int, float, Decimal):
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError as error:
            raise _NotConstant from error
    if not isinstance(value, str):
        raise _NotConstant
    if kind is exp.DType.DECIMAL:
        return _decimal(value, to)
    if kind in _READERS and (read := _READERS[kind](value)) is not None:
        return read
    moment = timestamp_of(value)
    if moment is not None and kind is exp.DType.TIMESTAMPNTZ and moment.tzinfo is None:
        return moment
    if moment is not None and kind in INSTANTS:
        return SessionTime(moment) if moment.tzinfo is None else moment
    raise _NotConstant


def _decimal(text: str, to: exp.DataType) -> Decimal:
    """The number that ``text`` writes in plain digits, with all digits of its type, none of which it may lack."""
    match = _DECIMAL_TEXT.fullmatch(text)
    arguments = [parameter.name for parameter in to.expressions]
    if match is None or not all(argument.isdecimal() for argument in arguments):
        raise _NotConstant
    precision, scale = (*map(int, arguments), *_DECIMAL_DEFAULT[len(arguments) :])
    sign, whole, fraction = match.group(1), match.group(2).lstrip("0"), (match.group(3) or "").rstrip("0")
    if len(fraction) > scale or len(whole) > precision - scale:
        raise _NotConstant
    return Decimal(f"{sign}{whole or 0}.{fraction.ljust(scale, '0')}")
