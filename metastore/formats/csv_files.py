"""CSV and TSV files as Arrow: names from the first line, types from all values, or those that were declared.

A column is BIGINT, DOUBLE, BOOLEAN, DATE or TIMESTAMP if every one of its values reads as one, tried in this order;
else text. Nothing is guessed from a first part: a file is gone through once to find the types and once for the values,
so that no later line can contradict. An empty field is null; a quoted empty field is the empty text. So Spark has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from metastore.errors import FormatError
from metastore.formats.arrow_schema import arrow_schema
from metastore.model.column_path import repeated_names
from metastore.model.tuple_schema import TupleSchema
from metastore.sketches.hashing import ArrowValues

_BLOCK: Final = 4 << 20

_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int64(): r"^-?\d{1,19}$",
    pa.float64(): r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$",
    pa.bool_(): r"^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$",
    pa.date32(): r"^\d{4}-\d{2}-\d{2}$",
    pa.timestamp("us"): r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?$",
}
"""What a type's values look like; that they are in range, the cast tells."""


def open_csv(
    source: Callable[[], Any], declared: TupleSchema | None, delimiter: str
) -> tuple[pa.Schema, Callable[[Sequence[str]], Iterator[pa.RecordBatch]], Sequence[str]]:
    """The columns of a delimited file, its batches, and the names of columns that were not declared.

    ``source`` opens the file anew each time.
    """
    names = _names(source, delimiter)
    if declared is None:
        schema = _inferred(_texts(source, delimiter, names, names), names)
    else:
        wanted = arrow_schema(declared)
        schema = pa.schema([field for field in wanted if field.name in names])

    def batches(chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
        fields = [schema.field(name) for name in chosen]
        for batch in _texts(source, delimiter, names, list(chosen)):
            columns = [_cast(batch.column(field.name), field) for field in fields]
            yield pa.record_batch(columns, schema=pa.schema(fields))

    return schema, batches, [name for name in names if name not in schema.names]


def _names(source: Callable[[], Any], delimiter: str) -> list[str]:
    with _reader(source, delimiter, csv.ConvertOptions()) as reader:
        names = list(reader.schema.names)
    if names.count("") > 1:
        places = ", ".join(str(place) for place, name in enumerate(names, start=1) if not name)
        raise FormatError(f"its first line leaves columns {places} without a name; name them, or take them out")
    if repeated := repeated_names(names):
        raise FormatError(f"its first line names {repeated} more than once")
    return names


def _texts(
    source: Callable[[], Any], delimiter: str, names: Sequence[str], wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=list(wanted),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    if not wanted:  # pyarrow would take an empty list for all; one column counts the rows
        options.include_columns = list(names[:1])
    with _reader(source, delimiter, options) as reader:
        yield from reader


def _reader(source: Callable[[], Any], delimiter: str, options: csv.ConvertOptions) -> csv.CSVStreamingReader:
    return csv.open_csv(
        source(),
        csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        options,
    )


def _inferred(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> pa.Schema:
    possible = {name: list(_TYPES) for name in names}
    held = dict.fromkeys(names, False)
    for batch in batches:
        for name in names:
            values = batch.column(name).drop_null()
            if len(values):
                held[name] = True
                possible[name] = [type_ for type_ in possible[name] if _reads_as(values, type_)]
    return pa.schema([(name, (possible[name] or [pa.string()])[0] if held[name] else pa.null()) for name in names])


def _reads_as(values: ArrowValues, type_: pa.DataType) -> bool:
    if not pc.all(pc.match_substring_regex(values, _TYPES[type_])).as_py():
        return False
    try:
        _converted(values, type_)
    except pa.ArrowInvalid:
        return False
    return True


def _cast(values: ArrowValues, field: Any) -> ArrowValues:
    if pa.types.is_null(field.type):
        return pa.nulls(len(values))
    try:
        return _converted(values, field.type)
    except pa.ArrowException as error:
        raise FormatError(f"column {field.name} holds a value that is no {field.type}: {error}") from error


def _converted(values: ArrowValues, type_: pa.DataType) -> ArrowValues:
    if pa.types.is_boolean(type_):
        values = pc.utf8_lower(values)
    return pc.cast(values, type_)
