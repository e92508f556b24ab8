"""The definition of a table of INFORMATION_SCHEMA, and how its rows are made from metadata units. Pure functions.

A relation has columns and sources. A source is a kind of units of one component, with a :class:`Value` for each column
that it provides. A value names the unit columns that it needs, so that no others are read. It also names the unit
column that takes a condition on it, so that files without a match are not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from metastore.errors import InvalidRequestError
from metastore.model.bounds.unit_facts import columns_for
from metastore.model.mapping.recorded_numbers import recorded_numbers, with_nulls
from metastore.model.vocabulary import MetadataType, Statistic

CATALOG: Final = "DRILL"
"""The only catalog, with Drill's name, so that queries for Drill work."""

TEXT: Final = pa.string()
LONG: Final = pa.int64()
INT: Final = pa.int32()
DOUBLE: Final = pa.float64()
FLAG: Final = pa.bool_()
MOMENT: Final = pa.timestamp("us", "UTC")

_ICEBERG: Final[Mapping[pa.DataType, IcebergType]] = {
    TEXT: StringType(),
    LONG: LongType(),
    INT: IntegerType(),
    DOUBLE: DoubleType(),
    FLAG: BooleanType(),
    MOMENT: TimestamptzType(),
}

Array: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Make = Callable[[pa.Table], Array]


@dataclass(frozen=True)
class Value:
    """A column in the rows of one source.

    ``make`` computes it from the unit columns ``needs``. A condition on the column holds exactly if it holds for the
    unit column ``same_as``, or for the ``constant`` of all rows.
    """

    make: Make
    needs: tuple[str, ...] = ()
    same_as: str | None = None
    constant: str | None = None


def same(column: str) -> Value:
    """Returns a value that is the unit column itself."""
    return Value(lambda units: units[column], (column,), same_as=column)


def constant(text: str) -> Value:
    """Returns a value with one text in all rows."""
    return Value(lambda units: pa.repeat(pa.scalar(text, TEXT), units.num_rows), constant=text)


def moment(column: str) -> Value:
    """Returns a value that is a unit column of epoch milliseconds, as a timestamp."""

    def make(units: pa.Table) -> Array:
        return units[column].cast(pa.timestamp("ms", "UTC")).cast(MOMENT)

    return Value(make, (column,), same_as=column)


def number(fact: str) -> Value:
    """Returns a value that is a number among a unit's facts, which no unit column has."""
    return Value(lambda units: units[fact], (fact,))


def row_count() -> Value:
    """Returns a value that is the number of rows; null if it is not exact, for example with delete files."""

    def make(units: pa.Table) -> Array:
        return with_nulls(*recorded_numbers(units["metadataStatistics"].combine_chunks(), Statistic.ROW_COUNT))

    return Value(make, ("metadataStatistics",))


def _schema_names(units: pa.Table) -> Array:
    join: Any = pc.binary_join_element_wise  # the stubs do not allow texts as arguments
    joined: Array = join(units["storagePlugin"], units["workspace"], ".")
    return joined


SCHEMA_PARTS: Final = ("storagePlugin", "workspace")
"""The unit columns of a schema's name, ``plugin.workspace``."""


def table_names(column: str) -> dict[str, Value]:
    """Returns the values for catalog, schema and name of a unit's table; ``column`` is the unit's name column."""
    return {
        "TABLE_CATALOG": constant(CATALOG),
        "TABLE_SCHEMA": Value(_schema_names, SCHEMA_PARTS),
        "TABLE_NAME": same(column),
    }


OWN_SCHEMAS: Final = "schemas"
OWN_TABLES: Final = "own tables"
"""A pseudo-component whose units are in no file: every schema, and the metastore's own tables."""


def own_names() -> dict[str, Value]:
    """Returns the values for catalog, schema and name of :data:`OWN_TABLES`."""
    return {"TABLE_CATALOG": constant(CATALOG), "TABLE_SCHEMA": same("schemaName"), "TABLE_NAME": same("tableName")}


Exploded = tuple[Sequence[int], Mapping[str, Sequence[Any]]]
"""For each row, the position of its unit, and the values of the columns that differ between a unit's rows."""


@dataclass(frozen=True)
class Source:
    """Units of ``kinds`` of ``component`` as rows; a column without a value is null.

    A unit is one row, or the rows that ``explode`` returns. ``explode`` takes the names of its requested columns.
    ``exploded`` lists these columns, each with the unit columns that it needs; ``explode_needs`` are always needed.
    With ``of_facts``, units are given by their facts (:mod:`metastore.model.bounds.unit_facts`), which lists read
    fastest.
    """

    component: str
    kinds: tuple[MetadataType, ...]
    values: Mapping[str, Value]
    explode: Callable[[pa.Table, frozenset[str]], Exploded] | None = None
    exploded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    explode_needs: tuple[str, ...] = ()
    of_facts: bool = False

    def stored_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Returns the on-disk columns that rows with ``columns`` are made from."""
        needed = self.units_needed(columns)
        return columns_for(needed) if self.of_facts else needed

    def units_needed(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Returns the unit columns, or facts, that ``columns`` need; at least one, because rows must be counted."""
        needed = dict.fromkeys(self.explode_needs)
        for column in columns:
            value = self.values.get(column)
            needed |= dict.fromkeys(value.needs if value else self.exploded.get(column, ()))
        return tuple(needed) or SCHEMA_PARTS[:1]

    def rows(self, units: pa.Table, schema: pa.Schema) -> pa.Table:
        """Returns rows of ``schema`` made of ``units``."""
        own: Mapping[str, Sequence[Any]] = {}
        positions: Sequence[int] = range(units.num_rows)
        if self.explode is not None:
            positions, own = self.explode(units, frozenset(schema.names) & self.exploded.keys())
        # Only needed columns are repeated: a schema text for each of its 2,000 columns would exceed an Arrow array.
        repeated = None if self.explode is None else pa.array(positions, pa.int64())
        columns: list[Array] = []
        for wanted in schema:
            if wanted.name in own:
                columns.append(pa.array(own[wanted.name], wanted.type))
            elif wanted.name in self.values:
                made = self.values[wanted.name].make(units)
                columns.append(made if repeated is None else made.take(repeated))
            else:
                columns.append(pa.nulls(len(positions), wanted.type))
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class SchemaRelation:
    """One table of INFORMATION_SCHEMA: its name, its description, its columns, and the sources of its rows."""

    name: str
    description: str
    columns: Mapping[str, pa.DataType]
    sources: tuple[Source, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, in order."""
        return pa.schema(list(self.columns.items()))

    @cached_property
    def iceberg_schema(self) -> Schema:
        """The same schema in PyIceberg, for conditions."""
        return Schema(
            *(
                NestedField(position, name, _ICEBERG[type_], required=False)
                for position, (name, type_) in enumerate(self.columns.items(), start=1)
            )
        )

    def canonical(self, columns: Iterable[str] | None) -> tuple[str, ...]:
        """Returns the columns with their spelling here; None means all.

        Raises InvalidRequestError for an unknown one.
        """
        if columns is None:
            return tuple(self.columns)
        asked = [columns] if isinstance(columns, str) else list(columns)
        if unknown := [name for name in asked if name.upper() not in self.columns]:
            raise InvalidRequestError(
                f"INFORMATION_SCHEMA.{self.name} has no column {', '.join(unknown)}; it has {', '.join(self.columns)}"
            )
        return tuple(dict.fromkeys(name.upper() for name in asked))
