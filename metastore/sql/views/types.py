"""Types of a query's columns, in Drill's spelling, derived where the rules of all engines agree.

A type is derived for columns, casts, literals, aggregates, comparisons, integer arithmetic and plain text functions.
All other types are :data:`UNKNOWN`, Drill's marker for a column whose type is determined while it is read. So a type is
correct or unknown, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from metastore.errors import FormatError
from metastore.model.drill_types import INTEGER_TYPES, DrillType, StructField, parse_type

UNKNOWN: Final = "ANY"

_MOST_DIGITS: Final = 38
_SUM_DIGITS: Final = 10
"""The number of digits by which a sum of decimals is wider than its values, in Spark and in Drill."""

_FROM_SQLGLOT: Final = {
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INT",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.TEXT: "VARCHAR",
    exp.DType.VARCHAR: "VARCHAR",
    exp.DType.CHAR: "VARCHAR",
    exp.DType.NVARCHAR: "VARCHAR",
    exp.DType.BINARY: "VARBINARY",
    exp.DType.VARBINARY: "VARBINARY",
    exp.DType.DATE: "DATE",
    exp.DType.TIME: "TIME",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
    exp.DType.DATETIME: "TIMESTAMP",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP",
}
_TO_SQLGLOT: Final = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "BIGINT": "BIGINT",
    "UINT1": "SMALLINT",
    "UINT2": "INT",
    "UINT4": "BIGINT",
    "UINT8": "DECIMAL(20, 0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "TEXT",
    "VARBINARY": "VARBINARY",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMPNTZ",
}
_TEXTS: Final = (exp.Upper, exp.Lower, exp.Trim, exp.Substring, exp.Concat, exp.DPipe, exp.Replace)
_TRUTHS: Final = (exp.Predicate, exp.Not, exp.And, exp.Or, exp.Boolean)

TypeOf = Callable[[exp.Column], str]
"""Returns the type of a column of one of the query's sources."""


def to_sqlglot(type_: str, *, utc: bool = False) -> exp.DataType:
    """Returns Drill's SQL type as sqlglot's; ``utc`` for a TIMESTAMP adjusted to UTC.

    Types without a counterpart are unknown.
    """
    try:
        return _datatype(parse_type(type_), utc=utc)
    except FormatError:
        return exp.DataType(this=exp.DType.UNKNOWN)


def from_sqlglot(type_: exp.DataType) -> str:
    """Returns sqlglot's type in Drill's spelling; UNKNOWN if Drill has none, or if digits or parts are missing."""
    if type_.this == exp.DType.DECIMAL:
        digits = [parameter.name for parameter in type_.expressions]
        return f"DECIMAL({digits[0]}, {digits[1] if len(digits) > 1 else 0})" if digits else UNKNOWN
    if type_.this == exp.DType.ARRAY and len(type_.expressions) == 1:
        inner = from_sqlglot(type_.expressions[0])
        return UNKNOWN if inner == UNKNOWN else f"ARRAY<{inner}>"
    return _FROM_SQLGLOT.get(type_.this, UNKNOWN)


def type_of(node: exp.Expr, column: TypeOf) -> str:
    """Returns the type of an expression's values, or UNKNOWN."""
    match node:
        case exp.Alias() | exp.Paren() | exp.Min() | exp.Max() | exp.Neg():
            return type_of(node.this, column)
        case exp.Column():
            return column(node)
        case exp.Cast():
            return from_sqlglot(node.to)
        case exp.Count():
            return "BIGINT"
        case exp.Literal():
            return _literal(node)
        case exp.Sum():
            return sum_type(type_of(node.this, column))
        case exp.Avg():
            inner = parse_type(type_of(node.this, column))
            return "DOUBLE" if inner.name in INTEGER_TYPES or inner.name in ("FLOAT", "DOUBLE") else UNKNOWN
        case exp.Coalesce():
            return _common_type([type_of(each, column) for each in (node.this, *node.expressions)])
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            other = node.args.get("default")
            return _common_type([type_of(each, column) for each in (*values, *([other] if other else []))])
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(type_of(node.this, column), type_of(node.expression, column))
        case _:
            if isinstance(node, _TEXTS):
                return "VARCHAR"
            return "BOOLEAN" if isinstance(node, _TRUTHS) else UNKNOWN


def sum_type(type_: str) -> str:
    """Returns the type of a sum of values of ``type_``."""
    parsed = parse_type(type_)
    if parsed.name in INTEGER_TYPES - {"UINT8"}:
        return "BIGINT"
    if parsed.name in ("FLOAT", "DOUBLE"):
        return "DOUBLE"
    if parsed.name == "DECIMAL" and len(parsed.arguments) == 2:
        precision, scale = parsed.arguments
        return f"DECIMAL({min(_MOST_DIGITS, precision + _SUM_DIGITS)}, {scale})"
    return UNKNOWN


def _datatype(type_: DrillType, *, utc: bool) -> exp.DataType:
    if type_.name == "DECIMAL":
        return exp.DataType.build(str(type_))
    if type_.name == "STRUCT":
        fields = [_field(each) for each in type_.fields]
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    if type_.name in ("ARRAY", "MAP"):
        parts = [_datatype(part, utc=False) for part in type_.parts]
        return exp.DataType(this=exp.DType[type_.name], expressions=parts, nested=True)
    if type_.name == "TIMESTAMP" and utc:
        return exp.DataType(this=exp.DType.TIMESTAMPTZ)
    known = _TO_SQLGLOT.get(type_.name)
    return exp.DataType.build(known) if known else exp.DataType(this=exp.DType.UNKNOWN)


def _field(field: StructField) -> exp.ColumnDef:
    name = exp.to_identifier(field.name.lower(), quoted=True)
    return exp.ColumnDef(this=name, kind=_datatype(field.type, utc=False))


def _literal(node: exp.Literal) -> str:
    if node.is_string:
        return "VARCHAR"
    if not node.is_int:
        return UNKNOWN
    return "INT" if -(2**31) <= int(node.name) < 2**31 else "BIGINT"


def _common_type(types: list[str]) -> str:
    return types[0] if len(set(types)) == 1 else UNKNOWN


def _arithmetic(left: str, right: str) -> str:
    exact = ("INT", "BIGINT")
    if left in exact and right in exact:
        return "BIGINT" if "BIGINT" in (left, right) else "INT"
    return "DOUBLE" if {left, right} <= {*exact, "DOUBLE"} else UNKNOWN
