"""Column counts and bounds of one partition's rows, for manifest entries.

Only the unit's ``bounded_columns`` get bounds, because common listings filter by them (names, owners, times). Without
the other columns, manifests stay small and fast to decode. Bounds are never truncated: a text over ``LONGEST_BOUND``
bytes gets none, so the bounds of a file with one row are always its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from metastore.model.fields import Unit
from metastore.model.mapping.segment_digest import DIGEST_ID, digest_of

LONGEST_BOUND: Final = 256
_FEW_ROWS: Final = 32
"""Up to this number of rows, Python's values cost less than a call of Arrow."""


@dataclass(frozen=True)
class ColumnBounds:
    """Maps from Iceberg field id; a field without usable bounds has only counts."""

    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]


@dataclass(frozen=True)
class BoundedColumns:
    """The bounded columns of a unit: name, field id and type of each; ``digested`` if a segment gets a digest."""

    columns: tuple[tuple[str, int, PrimitiveType], ...]
    digested: bool

    @classmethod
    def of(cls, unit_type: type[Unit], schema: Schema) -> BoundedColumns:
        """Returns those of ``unit_type`` in a table with ``schema``."""
        columns = []
        for field in map(schema.find_field, unit_type.bounded_columns):
            assert isinstance(field.field_type, PrimitiveType)
            columns.append((field.name, field.field_id, field.field_type))
        return cls(tuple(columns), unit_type.digested)

    def bounds(self, rows: pa.Table) -> ColumnBounds:
        """Returns counts and bounds of ``rows``, at least one, and the digest of a single segment."""
        found = ColumnBounds({}, {}, {}, {})
        for name, field_id, type_ in self.columns:
            column = rows.column(name)
            found.value_counts[field_id] = rows.num_rows
            found.null_value_counts[field_id] = column.null_count
            if column.null_count == rows.num_rows:
                continue
            lower, upper = (to_bytes(type_, bound) for bound in _extremes(column))
            if max(len(lower), len(upper)) <= LONGEST_BOUND:
                found.lower_bounds[field_id] = lower
                found.upper_bounds[field_id] = upper
        if self.digested and (digest := digest_of(rows)) is not None:
            found.lower_bounds[DIGEST_ID] = digest
        return found


def _extremes(column: pa.ChunkedArray[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest value; there is one."""
    if len(column) <= _FEW_ROWS:
        values = [value for value in column.to_pylist() if value is not None]
        return min(values), max(values)
    both: Any = pc.min_max(column).as_py()
    return both["min"], both["max"]
