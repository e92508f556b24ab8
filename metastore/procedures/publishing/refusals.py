"""What the schema of one file has that some engine reads wrong over Iceberg, or not at all.

Place in the flow: :mod:`metastore.procedures.publishing.columns` asks it of every leaf of every distinct schema, before
anything is made. What is refused was tried on engines (docs/design/036). Pure functions of what ANALYZE has stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import DrillType
from metastore.model.tuple_schema import (
    FIELD_IDS,
    FIXED_LENGTH,
    IN_NANOSECONDS,
    IN_UTC,
    LOGICAL_TYPE,
    MILLISECONDS,
    REFUSED,
    TIME_ZONE,
    TWIN,
    TWIN_FIELDS,
    SchemaColumn,
    TupleSchema,
)

_PLAIN: Final[dict[str, PrimitiveType]] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": IntegerType(),
    "SMALLINT": IntegerType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "DATE": DateType(),
}
_UNSIGNED: Final = frozenset({"UINT1", "UINT2", "UINT4", "UINT8"})
_MOST_DIGITS: Final = 38


class UnfitError(Exception):
    """A column cannot be published; the text says why, and names the column."""


def faults_of_file(schema: TupleSchema) -> Iterator[str]:
    """Yields why a file with this schema cannot be published, apart from the types of its columns."""
    if FIELD_IDS not in schema.properties:
        yield (
            "its metadata does not say whether it is Parquet without field ids: only Parquet is published, and files "
            "that an earlier release analyzed are analyzed anew after ANALYZE TABLE … DROP METADATA"
        )
    if REFUSED in schema.properties:
        yield "Arrow refuses to open it"
    for column in schema.columns:
        if TWIN in column.properties or TWIN_FIELDS in column.properties:
            yield f"column {column.name} has a twin, whose name differs only in case: most engines mix them up"


def leaf_type(type_: DrillType, column: SchemaColumn, path: ColumnPath, *, milliseconds: bool) -> PrimitiveType:
    """Returns Iceberg's type of the leaf at ``path`` of a file's ``column``. Raises UnfitError.

    ``milliseconds`` accepts times in milliseconds, which Iceberg for Java reads wrong.
    """
    name, logical = ".".join(path), column.leaf_property(LOGICAL_TYPE, path) or ""
    if type_.name in ("TIMESTAMP", "TIME"):
        return _type_of_times(type_, column, path, logical, milliseconds=milliseconds)
    if type_.name in _UNSIGNED:
        raise UnfitError(f"column {name} is unsigned ({type_}), which Iceberg has not: write it as a wider type")
    if logical == "float16":
        raise UnfitError(f"column {name} is FLOAT16, which Iceberg has not: write it as FLOAT")
    match type_.name:
        case "DECIMAL" if type_.arguments:
            digits, scale = (*type_.arguments, 0)[:2]
            if digits > _MOST_DIGITS:
                raise UnfitError(f"column {name} is {type_}, and Iceberg holds {_MOST_DIGITS} digits")
            return DecimalType(digits, scale)
        case "VARCHAR" if logical in ("", "json"):
            return StringType()
        case "VARBINARY" if logical == "uuid":
            return UUIDType()
        case "VARBINARY" if not logical:
            length = column.leaf_property(FIXED_LENGTH, path)
            return BinaryType() if length is None else FixedType(int(length))
    plain = _PLAIN.get(type_.name)
    if plain is None or logical:
        what = "of no type: all its values are null" if type_.name == "NULL" else f"{type_} {logical}".strip()
        raise UnfitError(f"column {name} is {what}, which no type of Iceberg holds for all engines")
    return plain


def _type_of_times(
    type_: DrillType, column: SchemaColumn, path: ColumnPath, logical: str, *, milliseconds: bool
) -> PrimitiveType:
    """Iceberg's type of a TIME or TIMESTAMP; UnfitError for a unit or zone that some engine misreads."""
    name = ".".join(path)
    if logical == "int96":
        raise UnfitError(f"column {name} is INT96, which has no meaning in Iceberg: write it as TIMESTAMP")
    if logical in IN_NANOSECONDS:
        raise UnfitError(f"column {name} is in nanoseconds, which engines read wrong or not: write it in microseconds")
    in_milliseconds = column.leaf_property(MILLISECONDS, path) is not None
    if type_.name == "TIMESTAMP":
        if in_milliseconds and not milliseconds:
            raise UnfitError(
                f"column {name} is TIMESTAMP in milliseconds, of which Iceberg for Java on Spark makes 1970 "
                "(iceberg#17135): write it in microseconds, or pass milliseconds => true"
            )
        return TimestampType() if column.leaf_property(TIME_ZONE, path) is None else TimestamptzType()
    if in_milliseconds:
        raise UnfitError(f"column {name} is TIME in milliseconds, which PyIceberg refuses")
    if logical == IN_UTC:
        raise UnfitError(f"column {name} is TIME adjusted to UTC, which Iceberg has not")
    return TimeType()


def wider(one: PrimitiveType, other: PrimitiveType, name: str) -> PrimitiveType:
    """Returns the type that holds both as all engines read it. Raises UnfitError if there is none."""
    if one == other:
        return one
    for narrow, wide in ((IntegerType(), LongType()), (FloatType(), DoubleType())):
        if {one, other} == {narrow, wide}:
            return wide
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        if one.scale == other.scale:
            return max(one, other, key=lambda kind: kind.precision)
        raise UnfitError(f"column {name} is {one} and {other}: Spark reads other scales wrong (0.15 for 1.5)")
    raise UnfitError(f"column {name} is {one} and {other}, which engines do not read as one type")
