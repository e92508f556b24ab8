"""Data of a file under its table's names: columns are renamed, and columns that the table lacks are left out.

Place in the flow: ANALYZE measures this data, so that statistics have the table's names. Types stay the file's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.file_format import FileData, FooterStatistics
from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import DrillType
from metastore.model.statistics import ColumnStatistics
from metastore.sources.table_columns import TableColumns, as_kept


def rename_columns(data: FileData, columns: TableColumns) -> FileData:
    """Returns ``data`` with the names of ``columns``. Raises FormatError if a file has two columns for one."""
    kept = as_kept(columns, tuple_schema(data.schema)[0])
    places = {name: place for place, name in kept.names.items()}
    fields = []
    for column in kept.schema.columns:
        own = data.schema.field(places[column.name])
        fields.append(own.with_name(column.name).with_type(_type_by(own.type, kept.types[column.name])))
    schema = pa.schema(fields)

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked = [places[name] for name in names] or data.schema.names[:1]
        for batch in data.batches(asked):
            arrays = [_by(batch.column(places[name]), schema.field(name).type) for name in names]
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))
            else:
                yield batch

    def footer() -> FooterStatistics | None:
        known = data.footer()
        if known is None:
            return None

        def by_path(columns: Mapping[ColumnPath, ColumnStatistics]) -> Mapping[ColumnPath, ColumnStatistics]:
            found = ((kept.path(path), statistics) for path, statistics in columns.items())
            return {path: statistics for path, statistics in found if path is not None}

        return FooterStatistics(known.rows, by_path(known.columns), by_path(known.others), by_path(known.elements))

    return FileData(schema, batches, data.undeclared, kept.schema.properties, footer)


def _type_by(own: Any, wanted_type: DrillType) -> Any:
    """Returns a file's type with fields of structs renamed like those of ``wanted_type`` that differ in case only."""
    if not pa.types.is_struct(own):
        return own
    names = {field.name.lower(): field for field in wanted_type.fields}
    fields = []
    for place in range(own.num_fields):
        field = own.field(place)
        same = names.get(field.name.lower())
        fields.append(field if same is None else field.with_name(same.name).with_type(_type_by(field.type, same.type)))
    return pa.struct(fields)


def _by(values: Any, type_: Any) -> Any:
    """Returns ``values`` with the field names of ``type_``."""
    if not pa.types.is_struct(type_) or values.type == type_:
        return values
    children = [_by(values.field(place), type_.field(place).type) for place in range(type_.num_fields)]
    fields = [type_.field(place) for place in range(type_.num_fields)]
    mask: Any = values.is_null()
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
