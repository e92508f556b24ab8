"""Elements of lists, and keys and values of maps, in Arrow schemas and batches.

Place in the flow: ANALYZE measures them where it reads the data of lists and maps
(:mod:`metastore.lake.formats.parquet.leaf_measures`). :mod:`metastore.model.elements` says what their paths and
statistics mean.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import ArrowField, ArrowLeaf, is_opaque, tuple_schema
from metastore.lake.formats.parquet.leaf_measures import leaf_array
from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import minor_type, parse_type
from metastore.model.elements import KEY, VALUE, elements_of
from metastore.model.sketches.hashing import ArrowValues


def element_leaves(schema: pa.Schema) -> list[ArrowLeaf]:
    """Returns what lists and maps of plain values hold, for those types that have bounds."""
    columns = [field for field in schema if not _holds_several_kinds(field)]
    leaves = tuple_schema(pa.schema(columns))[0].leaves()
    return [
        ArrowLeaf(inside, minor_type(str(type_)))
        for path, container in leaves
        for inside, type_ in elements_of(path, parse_type(container))
    ]


def element_values(batch: pa.RecordBatch, path: ColumnPath) -> ArrowValues:
    """Returns the elements, keys or values at ``path`` in all rows; null and empty containers have none.

    Raises FormatError if the batch has something else there: some readers of ANALYZE leave lists and maps out.
    """
    *container, segment = path
    held: Any = leaf_array(batch, tuple(container))
    if pa.types.is_map(held.type):
        # The children of a sliced map are not sliced; those of a list are.
        as_list = held.cast(pa.list_(pa.struct([held.type.key_field, held.type.item_field])))
        values = as_list.flatten().field(_PLACES[segment])
    elif pa.types.is_nested(held.type) and not pa.types.is_struct(held.type):
        values = held.flatten()
    else:
        raise FormatError(f"{'.'.join(container)} is no list and no map, but {held.type}")
    return values.storage if isinstance(values, pa.ExtensionArray) else values


_PLACES: Final = {KEY: 0, VALUE: 1}


def _holds_several_kinds(field: ArrowField) -> bool:
    """Whether some part of a field has values of several types."""
    if is_opaque(field):
        return True
    type_ = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_map(type_):
        return _holds_several_kinds(type_.key_field) or _holds_several_kinds(type_.item_field)
    return pa.types.is_nested(type_) and any(
        _holds_several_kinds(type_.field(place)) for place in range(type_.num_fields)
    )
