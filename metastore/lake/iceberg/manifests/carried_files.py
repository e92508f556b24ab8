"""Opens data files whose variants are carried into other files: each is read as a struct of ``metadata`` and ``value``.

Place in the flow: rewriting and statements read the rows that they write anew here. Shredded variants are put together
(:mod:`metastore.lake.formats.parquet.shredded_variants`), since each file may be shredded in another way. Other columns
are as :mod:`metastore.lake.iceberg.manifests.data_file` reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema

from metastore.errors import FormatError
from metastore.lake.formats.map_arrays import map_array
from metastore.lake.formats.parquet.shredded_variants import METADATA, TYPED, VALUE, assemble_variants
from metastore.lake.iceberg.columns.carried_columns import part_ids, variant_ids
from metastore.lake.iceberg.manifests.data_file import DataFileReader, open_data_file

_FIELD_ID: Final = b"PARQUET:field_id"
_PARTS: Final = (METADATA, VALUE)


def open_carried_file(source: Any, format_: FileFormat, location: str, schema: Schema) -> DataFileReader:
    """Open the file ``source`` at ``location`` of a table with the columns ``schema``.

    Its variants have the ids of :func:`metastore.lake.iceberg.columns.carried_columns.carried_schema` in their parts.
    Raises InvalidRequestError for an unsupported format, and FormatError if the file has no field ids, or stores a
    variant as what is none.
    """
    file = open_data_file(source, format_, location)
    variants = variant_ids(schema)
    if not variants:
        return file
    if not any(_id(field) for field in file.schema):
        raise FormatError(
            "its columns have no field ids, so nothing says which of them are variants; rewrite it with an engine that "
            "reads them"
        )
    carried = pa.schema([_carry_field(field, variants) for field in file.schema])
    changed = {field.name: field for field in file.schema if _has_variants(field, variants)}
    return _CarriedFile(file, carried, changed, variants)


@dataclass(frozen=True)
class _CarriedFile:
    """``changed`` are the columns of the file that contain variants."""

    file: DataFileReader
    schema: pa.Schema
    changed: Mapping[str, Any]
    variants: Collection[int]

    def batches(self, first: int, end: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """As the file's own."""
        return ((row, self._carry_batch(batch)) for row, batch in self.file.batches(first, end, columns))

    def matching(self, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """As the file's own."""
        return map(self._carry_batch, self.file.matching(condition, columns))

    def _carry_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for place, name in enumerate(batch.schema.names):
            if name in self.changed:
                made = _rebuilt(batch.column(place), self.changed[name], self.variants)
                batch = batch.set_column(place, self.schema.field(name), made)
        return batch


def _carry_field(field: Any, variants: Collection[int]) -> Any:
    """Return a column of a file with the parts that its variants have when they are carried."""
    kind = field.type
    if _id(field) in variants:
        return field.with_type(_variant(field))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_carry_field(part, variants) for part in _parts(kind)]))
    if pa.types.is_map(kind):
        map_: Any = pa.map_
        return field.with_type(map_(kind.key_field, _carry_field(kind.item_field, variants), kind.keys_sorted))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(_carry_field(kind.value_field, variants)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_carry_field(kind.value_field, variants)))
    return field


def _variant(field: Any) -> pa.DataType:
    parts = _parts(field.type) if pa.types.is_struct(field.type) else []
    names = [part.name for part in parts]
    if METADATA not in names or not {VALUE, TYPED} & {*names} or not {*names} <= {METADATA, VALUE, TYPED}:
        stored = f"parts {', '.join(names)}" if names else str(field.type)
        raise FormatError(
            f"variant {field.name} is stored as {stored}; a variant has the parts metadata, value and typed_value. "
            "Choose other files by filter, or rewrite the file with an engine that reads it"
        )
    ids = zip(_PARTS, part_ids(_id(field) or 0), strict=True)
    return pa.struct([pa.field(name, pa.binary(), False, {_FIELD_ID: str(own).encode()}) for name, own in ids])


def _has_variants(field: Any, variants: Collection[int]) -> bool:
    kind = field.type
    if _id(field) in variants:
        return True
    if pa.types.is_struct(kind):
        return any(_has_variants(part, variants) for part in _parts(kind))
    if pa.types.is_map(kind):
        return _has_variants(kind.item_field, variants)
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _has_variants(kind.value_field, variants)


def _rebuilt(array: Any, field: Any, variants: Collection[int]) -> Any:
    """Return values of the file's column ``field`` with its variants as they are carried. Raises FormatError."""
    wanted, kind = _carry_field(field, variants).type, array.type
    if not _has_variants(field, variants):
        return array
    if _id(field) in variants:
        return pa.StructArray.from_arrays([*assemble_variants(array)], fields=_parts(wanted), mask=array.is_null())
    if pa.types.is_struct(kind):
        made = [_rebuilt(array.field(place), part, variants) for place, part in enumerate(_parts(field.type))]
        return pa.StructArray.from_arrays(made, fields=_parts(wanted), mask=array.is_null())
    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pc.subtract(array.offsets, first)
    if pa.types.is_map(kind):
        items = _rebuilt(array.items.slice(first, end - first), field.type.item_field, variants)
        return map_array(offsets, array.keys.slice(first, end - first), items, wanted, array.is_null())
    values = _rebuilt(array.values.slice(first, end - first), field.type.value_field, variants)
    lists: Any = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(offsets, values, type=wanted, mask=array.is_null())


def _parts(kind: Any) -> list[Any]:
    return [kind.field(place) for place in range(kind.num_fields)]


def _id(field: Any) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    return None if text is None else int(text)
