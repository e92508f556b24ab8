"""A parsed condition: its syntax tree, its source text, and the dialect of the text.

Place in the flow: every entry point parses its text into a :class:`Condition`;
:mod:`metastore.predicates.sql_predicate` interprets it. Scans, ``prune``, views and procedures use Spark's dialect;
SELECT uses DuckDB's.

A node of the tree is understood if its kind and all of its arguments are known here (:data:`ARGUMENTS`). If a new
version of the parser adds an argument to a node, such as a negation, the node becomes unknown instead of being misread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect as SqlglotDialect
from sqlglot.dialects.duckdb import DuckDB

from metastore.model.column_path import ColumnPath
from metastore.predicates.spark_sql import SparkSql, condition_of, texts_of

DType = exp.DType


@dataclass(frozen=True)
class Dialect:
    """The meaning of a text's words where dialects differ.

    ``instants`` are types whose literals are points in time, in the session's zone if they have none. ``local_times``
    are types whose literals are local clock times. Literals of ``fine_times`` may have nanoseconds. With
    ``substring_starts_at_zero``, position 0 of a text is its first letter, as position 1 is. With
    ``between_has_one_type``, the value and both ends of BETWEEN get one type.
    """

    name: str
    sql: type[SqlglotDialect]
    instants: frozenset[exp.DType]
    local_times: frozenset[exp.DType]
    fine_times: frozenset[exp.DType]
    backslash_escapes: bool
    substring_starts_at_zero: bool
    between_has_one_type: bool

    def text_of(self, node: exp.Expr) -> str:
        """The text of ``node`` for messages."""
        return node.sql(dialect=self.sql)


SPARK: Final = Dialect(
    "Spark",
    SparkSql,
    frozenset({DType.TIMESTAMP, DType.TIMESTAMPTZ, DType.TIMESTAMPLTZ}),
    frozenset({DType.TIMESTAMPNTZ}),
    frozenset({DType.TIMESTAMP, DType.TIMESTAMPTZ, DType.TIMESTAMPLTZ, DType.TIMESTAMPNTZ}),
    backslash_escapes=True,
    substring_starts_at_zero=True,
    between_has_one_type=False,
)
DUCKDB: Final = Dialect(
    "DuckDB",
    DuckDB,
    frozenset({DType.TIMESTAMPTZ}),
    frozenset({DType.TIMESTAMP, DType.TIMESTAMPNTZ, DType.TIMESTAMP_NS}),
    frozenset({DType.TIMESTAMP_NS}),
    backslash_escapes=False,
    substring_starts_at_zero=False,
    between_has_one_type=True,
)


class SparkCondition(str):
    """A Spark SQL condition whose texts in double quotes are texts, as Spark has it, also if a column has that name.

    In a plain ``str`` a double-quoted text that is a column's name is an error: SQL reads the column, Spark the text.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Condition:
    """A tree of ``dialect``, parsed from ``text``.

    ``alias`` is the query's name for the condition's table; None if there is no query. ``alone`` means that unqualified
    names cannot belong to another table.
    """

    tree: exp.Expr
    text: str
    dialect: Dialect
    alias: str | None = None
    alone: bool = True

    @classmethod
    def of_spark(cls, text: str) -> Condition:
        """Parses ``text`` as one Spark predicate.

        Raises InvalidRequestError, with line and column, for anything else.
        """
        return cls(condition_of(text), text, SPARK)

    def __str__(self) -> str:
        return self.text

    @cached_property
    def quoted_text(self) -> str:
        """The text as shown in errors."""
        return repr(self.text)

    @property
    def of_query(self) -> bool:
        """Whether names may belong to other tables, about which nothing is known here."""
        return self.alias is not None

    @cached_property
    def escaped_texts(self) -> frozenset[str]:
        """Text literals written with a backslash, which engines read differently."""
        if not self.dialect.backslash_escapes:
            return frozenset()
        return frozenset(value for literal, value in texts_of(self.text).items() if "\\" in literal)

    def path_of(self, node: exp.Expr) -> ColumnPath:
        """The column or field of this table that ``node`` names.

        Empty if there is none, or it may be another table's.
        """
        path = path_of(node)
        if self.alias is None or not path:
            return path
        if len(path) > 1 and path[0].lower() == self.alias:
            return path[1:]
        return path if self.alone else ()


@dataclass(frozen=True)
class AllOf:
    """Conditions, each in its own dialect, all of which rows must satisfy."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" for part in self.parts)


def path_of(node: exp.Expr) -> ColumnPath:
    """The names of a column or of a field reached by dots; empty if an array or a map is on the path."""
    if isinstance(node, exp.Dot):
        before = path_of(node.this)
        return (*before, node.expression.name) if before and isinstance(node.expression, exp.Identifier) else ()
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        return ()
    return tuple(part.name for part in node.parts)


COMPARISONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The sign of each comparison."""
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The sign of the same comparison with its sides exchanged."""

_TWO_SIDES: Final = frozenset({"this", "expression"})
_ONE: Final = frozenset({"this"})
_NEGATABLE: Final = _TWO_SIDES | {"negate"}
ARGUMENTS: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _TWO_SIDES),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape, exp.Add, exp.Sub, exp.Mul), _TWO_SIDES),
    **dict.fromkeys((exp.Is, exp.Like, exp.StartsWith), _NEGATABLE),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.Date, exp.Year, exp.IsNan), _ONE),
    **dict.fromkeys((exp.Month, exp.Quarter, exp.DayOfMonth, exp.Day, exp.Var, exp.DataTypeParam), _ONE),
    exp.Null: frozenset(),
    exp.Between: frozenset({"this", "low", "high", "negate"}),
    exp.In: frozenset({"this", "expressions", "negate"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Dot: _TWO_SIDES,
    exp.Literal: frozenset({"this", "is_string"}),
    exp.HexString: _ONE,
    exp.DataType: frozenset({"this", "expressions"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe", "requires_string"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.TsOrDsToDate: frozenset({"this", "safe"}),
    exp.Extract: _TWO_SIDES,
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.DateTrunc: frozenset({"this", "unit"}),
    exp.Left: _TWO_SIDES,
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias"}),
    exp.TableAlias: _ONE,
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Select: frozenset({"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having"})
    | {"qualify", "windows", "order", "limit", "offset"},
}
"""The known arguments of each kind of node; a node with any other argument is not understood."""


def is_understood(node: Any, *kinds: type[exp.Expr]) -> bool:
    """Whether ``node`` is of one of ``kinds`` (default: any known kind) and has only known arguments."""
    if kinds and type(node) not in kinds:
        return False
    known = ARGUMENTS.get(type(node))
    return known is not None and all(name in known for name, value in node.args.items() if value)


def has_unknown_arguments(node: exp.Expr) -> bool:
    """Whether ``node`` is of a known kind and has an argument that is not known here."""
    known = ARGUMENTS.get(type(node))
    return known is not None and any(name not in known for name, value in node.args.items() if value)
