"""Data and delete files as rows of metadata tables: the columns that ``$files`` and ``$entries`` share."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from metastore.lake.iceberg.columns.version_3_fields import (
    content_offset,
    content_size,
    first_row_id,
    referenced_data_file,
)
from metastore.lake.inspection.column_metrics import ReadableMetrics
from metastore.lake.inspection.partition_columns import PartitionColumn

_INTEGER: Final[pa.DataType] = pa.int32()
_LONG: Final[pa.DataType] = pa.int64()
_TEXT: Final[pa.DataType] = pa.string()
_COUNTS: Final[pa.DataType] = pa.map_(_TEXT, _LONG)
_TEXTS: Final[pa.DataType] = pa.map_(_TEXT, _TEXT)
_CONTENT: Final = {
    DataFileContent.DATA: "DATA",
    DataFileContent.POSITION_DELETES: "POSITION_DELETES",
    DataFileContent.EQUALITY_DELETES: "EQUALITY_DELETES",
}


class FileRows:
    """Shows the files of one table. ``fields`` are the columns of a file, without ``readable_metrics``."""

    def __init__(self, table: Table) -> None:
        self.partition: Final = PartitionColumn(table.metadata)
        self.metrics: Final = ReadableMetrics(table.schema())
        self.fields: list[pa.Field[Any]] = [
            pa.field("content", _TEXT),
            pa.field("file_path", _TEXT),
            pa.field("file_format", _TEXT),
            pa.field("spec_id", _INTEGER),
            *self.partition.fields,
            pa.field("record_count", _LONG),
            pa.field("file_size_in_bytes", _LONG),
            *(pa.field(name, _COUNTS) for name in ("column_sizes", "value_counts")),
            *(pa.field(name, _COUNTS) for name in ("null_value_counts", "nan_value_counts")),
            *(pa.field(name, _TEXTS) for name in ("lower_bounds", "upper_bounds")),
            pa.field("key_metadata", pa.binary()),
            pa.field("split_offsets", pa.list_(_LONG)),
            pa.field("equality_ids", pa.list_(_INTEGER)),
            pa.field("sort_order_id", _INTEGER),
            pa.field("first_row_id", _LONG),
            pa.field("referenced_data_file", _TEXT),
            pa.field("content_offset", _LONG),
            pa.field("content_size_in_bytes", _LONG),
        ]

    def row(self, file: DataFile) -> dict[str, Any]:
        """Returns the values of ``fields``."""
        return {
            "content": _CONTENT[file.content],
            "file_path": file.file_path,
            "file_format": str(file.file_format.value),
            "spec_id": file.spec_id,
            **self.partition.of(file),
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "column_sizes": self.metrics.counts(file.column_sizes),
            "value_counts": self.metrics.counts(file.value_counts),
            "null_value_counts": self.metrics.counts(file.null_value_counts),
            "nan_value_counts": self.metrics.counts(file.nan_value_counts),
            "lower_bounds": self.metrics.bounds(file.lower_bounds),
            "upper_bounds": self.metrics.bounds(file.upper_bounds),
            "key_metadata": file.key_metadata,
            "split_offsets": file.split_offsets,
            "equality_ids": file.equality_ids,
            "sort_order_id": file.sort_order_id,
            "first_row_id": first_row_id(file),
            "referenced_data_file": referenced_data_file(file),
            "content_offset": content_offset(file),
            "content_size_in_bytes": content_size(file),
        }
