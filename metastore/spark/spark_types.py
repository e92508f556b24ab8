"""Types of Arrow and Spark: the Spark type of each column, and the Arrow type in which Spark takes it.

Unsigned integers become the next wider signed type. Nanoseconds become microseconds. A time of day becomes text
(``12:30:00.000001``), because no type of Spark works with all of its readers. A column of nulls only becomes text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from metastore.errors import InvalidRequestError

_PLAIN: Final[Mapping[pa.DataType, tuple[spark.DataType, pa.DataType]]] = {
    pa.bool_(): (spark.BooleanType(), pa.bool_()),
    pa.int8(): (spark.ByteType(), pa.int8()),
    pa.int16(): (spark.ShortType(), pa.int16()),
    pa.int32(): (spark.IntegerType(), pa.int32()),
    pa.int64(): (spark.LongType(), pa.int64()),
    pa.uint8(): (spark.ShortType(), pa.int16()),
    pa.uint16(): (spark.IntegerType(), pa.int32()),
    pa.uint32(): (spark.LongType(), pa.int64()),
    pa.uint64(): (spark.DecimalType(20, 0), pa.decimal128(20, 0)),
    pa.float32(): (spark.FloatType(), pa.float32()),
    pa.float64(): (spark.DoubleType(), pa.float64()),
    pa.string(): (spark.StringType(), pa.string()),
    pa.binary(): (spark.BinaryType(), pa.binary()),
    pa.large_string(): (spark.StringType(), pa.string()),
    pa.large_binary(): (spark.BinaryType(), pa.binary()),
    pa.date32(): (spark.DateType(), pa.date32()),
    pa.null(): (spark.StringType(), pa.string()),
    pa.time64("us"): (spark.StringType(), pa.string()),
    pa.time64("ns"): (spark.StringType(), pa.string()),
}


def spark_schema(schema: pa.Schema) -> tuple[spark.StructType, pa.Schema]:
    """Returns ``schema`` as Spark's, and the Arrow schema that Spark takes for it.

    All columns are nullable, as in the table.
    """
    pairs = [(field.name, _types(field.type)) for field in schema]
    struct = spark.StructType([spark.StructField(name, type_) for name, (type_, _) in pairs])
    return struct, pa.schema([pa.field(name, arrow) for name, (_, arrow) in pairs])


def arrow_columns(struct: spark.StructType) -> pa.Schema:
    """Returns the Arrow schema in which tasks get rows of ``struct``; moments are in UTC."""
    return to_arrow_schema(struct, **_ZONE)


def arrow_rows(frame: Any) -> pa.Table:
    """Returns all rows of a DataFrame; before Spark 4 there is no public way. Raises the errors of Spark."""
    if hasattr(frame, "toArrow"):
        table: pa.Table = frame.toArrow()
        return table
    if hasattr(frame, "_to_table"):  # over Connect
        table, _ = frame._to_table()  # noqa: SLF001 - as above
        return table
    batches = frame._collect_as_arrow()  # noqa: SLF001 - as above
    return pa.Table.from_batches(batches, batches[0].schema if batches else arrow_columns(frame.schema))


_ZONE: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""Before Spark 4.2 the zone is always UTC."""


def require_digits(struct: spark.StructType) -> None:
    """Raises InvalidRequestError for a column with decimals of more digits than Spark holds."""
    for field in struct:
        if (type_ := too_wide(field.dataType)) is not None:
            raise InvalidRequestError(
                f"column {field.name!r} has DECIMAL({type_.precision}, {type_.scale}), Spark holds {MOST_DIGITS} "
                "digits: select the other columns, or take this one as Arrow"
            )


def too_wide(type_: spark.DataType) -> spark.DecimalType | None:
    """Returns a decimal in ``type_`` of more digits than Spark holds, if there is one."""
    return next((each for each in _decimals(type_) if each.precision > MOST_DIGITS), None)


def _decimals(type_: spark.DataType) -> Iterator[spark.DecimalType]:
    match type_:
        case spark.DecimalType():
            yield type_
        case spark.StructType():
            for field in type_:
                yield from _decimals(field.dataType)
        case spark.MapType():
            yield from _decimals(type_.keyType)
            yield from _decimals(type_.valueType)
        case spark.ArrayType():
            yield from _decimals(type_.elementType)
        case _:
            pass


MOST_DIGITS: Final = 38


def reads_natively(type_: pa.DataType) -> bool:
    """Whether Spark's own Parquet reader returns the same values as Arrow for a column of this type."""
    if pa.types.is_nested(type_):
        return all(reads_natively(type_.field(index).type) for index in range(type_.num_fields))
    if pa.types.is_timestamp(type_):
        return bool(type_.unit == "us")
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= MOST_DIGITS)
    return not (pa.types.is_time(type_) or pa.types.is_null(type_))


def _types(type_: Any) -> tuple[spark.DataType, pa.DataType]:
    """The type for Spark, and the Arrow type in which Spark takes the values; extension types by their storage."""
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_timestamp(type_):
        if type_.tz is None:
            return spark.TimestampNTZType(), pa.timestamp("us")
        return spark.TimestampType(), pa.timestamp("us", "UTC")
    if pa.types.is_decimal(type_):
        return spark.DecimalType(type_.precision, type_.scale), type_
    if pa.types.is_struct(type_):
        fields = [(field.name, _types(field.type)) for field in type_.fields]
        return (
            spark.StructType([spark.StructField(name, inner) for name, (inner, _) in fields]),
            pa.struct([pa.field(name, inner) for name, (_, inner) in fields]),
        )
    if pa.types.is_map(type_):
        key, value = _types(type_.key_type), _types(type_.item_type)
        return spark.MapType(key[0], value[0]), pa.map_(key[1], value[1])
    if pa.types.is_fixed_size_binary(type_):
        return spark.BinaryType(), pa.binary()
    if isinstance(type_, pa.BaseExtensionType):
        return _types(type_.storage_type)
    inner, arrow = _types(type_.value_type)
    return spark.ArrayType(inner), pa.list_(arrow)
