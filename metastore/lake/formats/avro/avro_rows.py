"""Rows of an Avro data file as Arrow batches, decoded by fastavro (extra ``avro``).

fastavro decodes the bytes, and this module applies the types. fastavro would return Python's dates and times, which end
in the year 9999; here they stay the numbers in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.avro.avro_header import PlainHeader, fastavro, require_whole
from metastore.lake.formats.avro.avro_schema import arrow_schema_of

_BATCH_ROWS: Final = 16_384

_Decode = Callable[[Any], Any]


class AvroRows:
    """One Avro file: its schema, and its rows from the first to the last.

    Raises EngineError without fastavro, FormatError for a file that is not Avro.
    """

    def __init__(self, source: Any) -> None:
        """``source`` is a binary file at its beginning; it must stay open until the rows are read."""
        self._fastavro = fastavro()
        try:
            self._blocks = self._fastavro.block_reader(PlainHeader(source))
            written = json.loads(self._blocks.metadata["avro.schema"])
        except _NOT_AVRO as error:
            raise FormatError(f"it is not an Avro file: {error}") from error
        self.schema: Final = arrow_schema_of(written)
        """The columns, with column ids where the file has them."""
        self._stored = self._fastavro.parse_schema(_without_logical_types(written))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in the file's order. Raises FormatError for a damaged file."""
        row_type: Any = pa.struct(list(self.schema))
        decode = _decoder(row_type)
        rows: list[Any] = []
        for record in self._records():
            rows.append(record if decode is None else decode(record))
            if len(rows) == _BATCH_ROWS:
                yield pa.RecordBatch.from_struct_array(pa.array(rows, row_type))
                rows = []
        if rows:
            yield pa.RecordBatch.from_struct_array(pa.array(rows, row_type))

    def _records(self) -> Iterator[Any]:
        try:
            for block in self._blocks:
                if block.num_records < 1:
                    require_whole(block)
                for left in reversed(range(block.num_records)):
                    record = self._fastavro.schemaless_reader(block.bytes_, self._stored, None)
                    if not left:  # before the last one is used, since callers may stop after it
                        require_whole(block)
                    yield record
        except _NOT_AVRO as error:
            raise FormatError(f"it is damaged, or a block has fewer rows than it says: {error!r}") from error


_NOT_AVRO: Final = (RecursionError, ValueError, EOFError, LookupError, TypeError, IndexError, AssertionError)
"""The exceptions of fastavro for bytes that do not match the schema."""


def _without_logical_types(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_logical_types(each) for each in avro]
    if isinstance(avro, Mapping):
        return {key: _without_logical_types(value) for key, value in avro.items() if key != "logicalType"}
    return avro


def _decoder(type_: Any) -> _Decode | None:
    """Returns a function that converts a value of fastavro (without logical types) for Arrow.

    Returns None if none is needed.
    """
    if pa.types.is_decimal(type_):
        return lambda stored: None if stored is None else _decimal(stored, type_.scale)
    if pa.types.is_struct(type_):
        return _of_struct(type_)
    if pa.types.is_map(type_):
        return _of_map(type_)
    if pa.types.is_list(type_) and (inside := _decoder(type_.value_type)) is not None:
        return lambda stored: None if stored is None else [inside(each) for each in stored]
    return None


def _of_struct(type_: Any) -> _Decode | None:
    fields = [type_.field(index) for index in range(type_.num_fields)]
    inside = {field.name: decode for field in fields if (decode := _decoder(field.type)) is not None}
    if not inside:
        return None

    def decode_fields(stored: Any) -> Any:
        if stored is not None:
            stored |= {name: each(stored[name]) for name, each in inside.items()}
        return stored

    return decode_fields


def _of_map(type_: Any) -> _Decode:
    key, item = (_decoder(part) or _keep_value for part in (type_.key_type, type_.item_type))

    def decode_pairs(stored: Any) -> Any:
        if stored is None:
            return None
        pairs = stored.items() if isinstance(stored, Mapping) else (each.values() for each in stored)
        return [(key(left), item(right)) for left, right in pairs]

    return decode_pairs


def _keep_value(stored: Any) -> Any:
    return stored


def _decimal(stored: bytes, scale: int) -> Decimal:
    unscaled = int.from_bytes(stored, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))
