"""COLUMNS: one row for each column of every object with a schema, with the statistics of ANALYZE.

A struct is followed by its fields, which are named by their path and marked as nested. They have the position of their
top-level column, as in Drill. Bounds are texts, because one column holds those of all types. A bound may be wider than
the data if the statistics are not exact, but never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from metastore.components.information_schema.relation import (
    DOUBLE,
    FLAG,
    INT,
    LONG,
    OWN_TABLES,
    TEXT,
    Exploded,
    SchemaRelation,
    Source,
    own_names,
    table_names,
)
from metastore.components.information_schema.tables import NAMED
from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import INTEGER_TYPES, DrillType, parse_type
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.statistics_json import read_column_holders
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import MetadataType

_BINARY_DIGITS: Final = {
    "TINYINT": 8,
    "SMALLINT": 16,
    "INT": 32,
    "BIGINT": 64,
    "UINT1": 8,
    "UINT2": 16,
    "UINT4": 32,
    "UINT8": 64,
    "FLOAT": 24,
    "DOUBLE": 53,
}
_FRACTION_DIGITS: Final = {"DATE": 0, "TIME": 6, "TIMESTAMP": 6}
_DEFAULT, _FORMAT = "drill.default", "drill.format"
_DISTINCT, _NON_NULLS = "approx_count_distinct", "nonnullrowcount"


@dataclass(frozen=True)
class _ColumnRow:
    """One column or nested field at ``path``, inside of ``top``. ``json`` has its statistics."""

    top: SchemaColumn
    position: int
    path: ColumnPath
    type: DrillType
    required: bool
    json: str | None

    @property
    def is_nested(self) -> bool:
        return len(self.path) > 1


_FACTS: Final[Mapping[str, Callable[[_ColumnRow], Any]]] = {
    "COLUMN_NAME": lambda each: ".".join(each.path),
    "ORDINAL_POSITION": lambda each: each.position,
    "COLUMN_DEFAULT": lambda each: None if each.is_nested else each.top.properties.get(_DEFAULT),
    "IS_NULLABLE": lambda each: "NO" if each.required else "YES",
    "DATA_TYPE": lambda each: each.type.name if each.type.arguments else str(each.type),
    "NUMERIC_PRECISION": lambda each: _decimal(each, 0, _BINARY_DIGITS.get(each.type.name)),
    "NUMERIC_PRECISION_RADIX": lambda each: _radix(each.type.name),
    "NUMERIC_SCALE": lambda each: _decimal(each, 1, 0 if each.type.name in INTEGER_TYPES else None),
    "DATETIME_PRECISION": lambda each: _FRACTION_DIGITS.get(each.type.name),
    "COLUMN_FORMAT": lambda each: None if each.is_nested else each.top.properties.get(_FORMAT),
    "IS_NESTED": lambda each: each.is_nested,
}
"""Values from the schema of a column."""

_KNOWN: Final[Mapping[str, Callable[[ColumnStatistics], Any]]] = {
    "NUM_NULLS": lambda known: known.nulls,
    "MIN_VAL": lambda known: _text(known.min),
    "MAX_VAL": lambda known: _text(known.max),
}
"""Values from a column's statistics."""

_ESTIMATED: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "NDV": lambda holders: _number(holders.get(_DISTINCT)),
    "EST_NUM_NON_NULLS": lambda holders: _number(holders.get(_NON_NULLS, holders.get("nonNullValuesCount"))),
}
"""Values from Drill's statistics holders that are not part of :class:`ColumnStatistics`."""


def _of_schema(units: pa.Table, columns: frozenset[str]) -> Exploded:
    statistics = (
        units["columnsStatistics"].to_pylist() if "columnsStatistics" in units.schema.names else [None] * units.num_rows
    )
    positions: list[int] = []
    found: dict[str, list[Any]] = {name: [] for name in columns}
    makers = [(values, _maker(name)) for name, values in found.items()]
    for position, (text, pairs) in enumerate(zip(units["schema"].to_pylist(), statistics, strict=True)):
        for described in _describe_columns(text, dict(pairs or ())):
            positions.append(position)
            for values, make in makers:
                values.append(make(described))
    return positions, found


def _maker(name: str) -> Callable[[_ColumnRow], Any]:
    if fact := _FACTS.get(name):
        return fact
    if known := _KNOWN.get(name):
        return lambda each: None if each.json is None else known(ColumnStatistics.from_json(each.json))
    estimate = _ESTIMATED[name]
    return lambda each: None if each.json is None else estimate(read_column_holders(each.json))


def _describe_columns(schema: str | None, statistics: Mapping[str, str]) -> Iterator[_ColumnRow]:
    known = TupleSchema.from_json(schema) if schema else TupleSchema()
    statistics = {**known.directory_statistics, **statistics}
    for position, column in enumerate(known.columns, start=1):

        def walk(
            path: ColumnPath, type_: DrillType, required: bool, top: SchemaColumn = column, position: int = position
        ) -> Iterator[_ColumnRow]:
            yield _ColumnRow(top, position, path, type_, required, statistics.get(quote(path)))
            for inner in type_.fields:
                yield from walk((*path, inner.name), inner.type, inner.required)

        yield from walk((column.name,), parse_type(column.type), column.required)


def _decimal(described: _ColumnRow, position: int, otherwise: int | None) -> int | None:
    """Returns the precision (position 0) or scale (1) of a DECIMAL, whose default scale is 0; else ``otherwise``."""
    if described.type.name != "DECIMAL":
        return otherwise
    return (*described.type.arguments, *(38, 0)[len(described.type.arguments) :])[position]


def _radix(type_: str) -> int | None:
    return 10 if type_ == "DECIMAL" else 2 if type_ in _BINARY_DIGITS else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float, Decimal)) else None


def _text(value: Value | None) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value + 0.0)  # the lower bound of zero may be -0.0
        case date() | time():
            return value.isoformat()
    return str(value)


_COLUMN: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(_FACTS, ())
_ANALYZED_COLUMN: Final = {**_COLUMN, **dict.fromkeys((*_KNOWN, *_ESTIMATED), ("columnsStatistics",))}


def _source(component: str, kind: MetadataType, name: str) -> Source:
    return Source(component, (kind,), table_names(name), _of_schema, _COLUMN, ("schema",))


COLUMNS: Final = SchemaRelation(
    "COLUMNS",
    "Every column of the analyzed tables and of views, with what ANALYZE has found out about its values.",
    {
        **NAMED,
        "COLUMN_NAME": TEXT,
        "ORDINAL_POSITION": INT,
        "COLUMN_DEFAULT": TEXT,
        "IS_NULLABLE": TEXT,
        "DATA_TYPE": TEXT,
        "NUMERIC_PRECISION": INT,
        "NUMERIC_PRECISION_RADIX": INT,
        "NUMERIC_SCALE": INT,
        "DATETIME_PRECISION": INT,
        "COLUMN_FORMAT": TEXT,
        "NUM_NULLS": LONG,
        "MIN_VAL": TEXT,
        "MAX_VAL": TEXT,
        "NDV": DOUBLE,
        "EST_NUM_NON_NULLS": DOUBLE,
        "IS_NESTED": FLAG,
    },
    (
        Source("tables", (MetadataType.TABLE,), table_names("tableName"), _of_schema, _ANALYZED_COLUMN, ("schema",)),
        _source("views", MetadataType.VIEW, "name"),
        _source("materialized_views", MetadataType.MATERIALIZED_VIEW, "name"),
        Source(OWN_TABLES, (), own_names(), _of_schema, _COLUMN, ("schema",)),
    ),
)
