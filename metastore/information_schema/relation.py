"""How one table of INFORMATION_SCHEMA is made of metadata units. Pure: units in, rows out.

A relation has columns, and sources: kinds of units of one component, with a :class:`Value` for each column that they
have something to say about. A value names the unit columns that it is made of, so that nothing else is read, and the
unit column that a condition on it can be passed to, so that files without a match are not opened.
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
from metastore.mapping.recorded_numbers import exact_row_counts, recorded_numbers, with_nulls
from metastore.model.vocabulary import MetadataType

CATALOG: Final = "DRILL"
"""The one catalog, by the name that Drill gives it: queries written for Drill find what they look for."""

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

    ``make`` computes it from the unit columns ``needs``. A condition on the column holds just when it holds for the
    unit column ``same_as``, or for the ``constant`` that all rows have.
    """

    make: Make
    needs: tuple[str, ...] = ()
    same_as: str | None = None
    constant: str | None = None


def same(column: str) -> Value:
    """The unit column itself."""
    return Value(lambda units: units[column], (column,), same_as=column)


def constant(text: str) -> Value:
    """One text in all rows."""
    return Value(lambda units: pa.repeat(pa.scalar(text, TEXT), units.num_rows), constant=text)


def moment(column: str) -> Value:
    """A unit column of epoch milliseconds, as a point in time."""

    def make(units: pa.Table) -> Array:
        return units[column].cast(pa.timestamp("ms", "UTC")).cast(MOMENT)

    return Value(make, (column,), same_as=column)


def holder(name: str) -> Value:
    """A whole number among the metadata statistics; null where it is not known."""

    def make(units: pa.Table) -> Array:
        return with_nulls(recorded_numbers(units["metadataStatistics"].combine_chunks(), name))

    return Value(make, ("metadataStatistics",))


def row_count() -> Value:
    """The number of rows; null where it is not exact, as of files that others delete rows of."""

    def make(units: pa.Table) -> Array:
        return exact_row_counts(units["metadataStatistics"].combine_chunks())

    return Value(make, ("metadataStatistics",))


def _schema_names(units: pa.Table) -> Array:
    join: Any = pc.binary_join_element_wise  # the stubs know no texts among its arguments
    joined: Array = join(units["storagePlugin"], units["workspace"], ".")
    return joined


SCHEMA_PARTS: Final = ("storagePlugin", "workspace")
"""The unit columns that the name of a schema, ``plugin.workspace``, is made of."""


def table_names(column: str) -> dict[str, Value]:
    """Catalog, schema and name of what a unit is of; ``column`` is the unit's column for the name."""
    return {
        "TABLE_CATALOG": constant(CATALOG),
        "TABLE_SCHEMA": Value(_schema_names, SCHEMA_PARTS),
        "TABLE_NAME": same(column),
    }


OWN_SCHEMAS: Final = "schemas"
OWN_TABLES: Final = "own tables"
"""Made-up components, whose units stand in no file: every schema, and the tables that the metastore itself offers."""


def own_names() -> dict[str, Value]:
    """Catalog, schema and name of :data:`OWN_TABLES`."""
    return {"TABLE_CATALOG": constant(CATALOG), "TABLE_SCHEMA": same("schemaName"), "TABLE_NAME": same("tableName")}


Exploded = tuple[Sequence[int], Mapping[str, Sequence[Any]]]
"""For each row the position of its unit, and the values of columns that differ among the rows of a unit."""


@dataclass(frozen=True)
class Source:
    """Units of ``kinds`` of ``component`` as rows; a column without a value is null.

    A unit is one row, or the rows that ``explode`` returns. ``explode`` gets the names of its columns that are wanted.
    ``exploded`` lists these columns, each with the unit columns that it needs. ``explode_needs`` are needed in any
    case.
    """

    component: str
    kinds: tuple[MetadataType, ...]
    values: Mapping[str, Value]
    explode: Callable[[pa.Table, frozenset[str]], Exploded] | None = None
    exploded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    explode_needs: tuple[str, ...] = ()

    def units_needed(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The unit columns that rows with ``columns`` are made of; never none, since rows are to be counted."""
        needed = dict.fromkeys(self.explode_needs)
        for column in columns:
            value = self.values.get(column)
            needed |= dict.fromkeys(value.needs if value else self.exploded.get(column, ()))
        return tuple(needed) or SCHEMA_PARTS[:1]

    def rows(self, units: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of ``schema`` made of ``units``."""
        own: Mapping[str, Sequence[Any]] = {}
        positions: Sequence[int] = range(units.num_rows)
        if self.explode is not None:
            positions, own = self.explode(units, frozenset(schema.names) & self.exploded.keys())
        # Only what is told is repeated: once for each of 2,000 columns, the schema of their table fills no array.
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
class Relation:
    """One table of INFORMATION_SCHEMA: its name, what it lists, its columns, and where their rows come from."""

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
        """The same for conditions, which are PyIceberg's."""
        return Schema(
            *(
                NestedField(position, name, _ICEBERG[type_], required=False)
                for position, (name, type_) in enumerate(self.columns.items(), start=1)
            )
        )

    def canonical(self, columns: Iterable[str] | None) -> tuple[str, ...]:
        """The columns as they are spelled here; all for None. InvalidRequestError for one that there is not."""
        if columns is None:
            return tuple(self.columns)
        asked = [columns] if isinstance(columns, str) else list(columns)
        if unknown := [name for name in asked if name.upper() not in self.columns]:
            raise InvalidRequestError(
                f"INFORMATION_SCHEMA.{self.name} has no column {', '.join(unknown)}; it has {', '.join(self.columns)}"
            )
        return tuple(dict.fromkeys(name.upper() for name in asked))
