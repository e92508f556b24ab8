"""Values of partition fields, computed from Arrow rows in the form that manifests have.

Place in the flow: the writer divides rows into files by them, and statements find the partition of a row.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform

from metastore.lake.writes.transforms import Column, apply_transform, column


def partition_column(field: PartitionField, schema: Schema, rows: pa.RecordBatch | pa.Table) -> Column | None:
    """Returns the transformed values of ``field``; ``rows`` have the columns of ``schema``.

    Returns None for a void field: it has no value, and its column may have been dropped.
    """
    if isinstance(field.transform, VoidTransform):
        return None
    return apply_transform(field.transform, schema.find_type(field.source_id), column(schema, field.source_id, rows))


def partition_value(field: PartitionField, value: Any, schema: Schema) -> Any:
    """Returns one transformed ``value`` in the form of a manifest. Only identity values need conversion."""
    is_of_the_column = isinstance(field.transform, IdentityTransform)
    return partition_record_value(field, value, schema) if is_of_the_column else value
