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

from metastore.mapping.segment_digest import DIGEST_ID, digest_of
from metastore.model.fields import Unit

LONGEST_BOUND: Final = 256


@dataclass(frozen=True)
class ColumnBounds:
    """Maps from Iceberg field id; a field without usable bounds has only counts."""

    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]


def bounds_of(unit_type: type[Unit], schema: Schema, rows: pa.Table) -> ColumnBounds:
    """Returns counts and bounds of ``rows`` for the unit's bounded columns, and the digest of a single segment."""
    found = ColumnBounds({}, {}, {}, {})
    for name in unit_type.bounded_columns:
        field = schema.find_field(name)
        column = rows.column(name)
        found.value_counts[field.field_id] = rows.num_rows
        found.null_value_counts[field.field_id] = column.null_count
        if column.null_count == rows.num_rows:
            continue
        if rows.num_rows == 1:
            low = high = column[0].as_py()
        else:
            both: Any = pc.min_max(column).as_py()
            low, high = both["min"], both["max"]
        assert isinstance(field.field_type, PrimitiveType)
        lower, upper = to_bytes(field.field_type, low), to_bytes(field.field_type, high)
        if max(len(lower), len(upper)) <= LONGEST_BOUND:
            found.lower_bounds[field.field_id] = lower
            found.upper_bounds[field.field_id] = upper
    if unit_type.digested and (digest := digest_of(rows)) is not None:
        found.lower_bounds[DIGEST_ID] = digest
    return found
