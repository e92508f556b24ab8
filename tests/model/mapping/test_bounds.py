"""Counts and bounds of a partition's rows: they contain the rows, and where they cannot be exact there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import PrimitiveType

from metastore.model.mapping.bounds import LONGEST_BOUND, BoundedColumns, ColumnBounds
from metastore.model.mapping.rows import to_arrow
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit

MakeUnit = Callable[..., TableMetadataUnit]
SCHEMA = iceberg_schema(TableMetadataUnit)
CONVERTED = BoundedColumns.of(TableMetadataUnit, SCHEMA)
BOUNDED = TableMetadataUnit.bounded_columns

_text = st.text(max_size=6) | st.text("aé🗼", min_size=80, max_size=130)
_units = st.lists(
    st.builds(
        TableMetadataUnit,
        owner=st.none() | _text,
        table_type=st.none() | st.sampled_from(["PARQUET", "CSV"]),
        metadata_type=st.none(),
        location=st.none() | _text,
        last_modified_time=st.none() | st.integers(-(2**63), 2**63 - 1),
        path=_text,
    ),
    min_size=1,
    max_size=6,
)


def limits(bounds: ColumnBounds, name: str) -> tuple[Any, Any] | None:
    """Lower and upper bound of a column as values; None when it has none."""
    field = SCHEMA.find_field(name)
    assert isinstance(field.field_type, PrimitiveType)
    found = [side.get(field.field_id) for side in (bounds.lower_bounds, bounds.upper_bounds)]
    if found == [None, None]:
        return None
    lower, upper = (from_bytes(field.field_type, side) for side in found if side is not None)
    return lower, upper


def size(value: str | int) -> int:
    """Bytes of a value as a bound."""
    return len(value.encode()) if isinstance(value, str) else 8


@given(_units, st.integers(0, 6))
def test_bounds_are_the_least_and_the_greatest_value(units: list[TableMetadataUnit], cut: int) -> None:
    """Of each bounded column, unless one is too long or all are null; however the rows are chunked."""
    rows = to_arrow(TableMetadataUnit, units)
    bounds = CONVERTED.bounds(pa.concat_tables([rows.slice(0, cut), rows.slice(cut)]))
    for name in BOUNDED:
        # Iceberg orders texts by their UTF-8 bytes, which is the order of code points, which is Python's.
        values = sorted(v for v in rows.column(name).to_pylist() if v is not None)
        number = SCHEMA.find_field(name).field_id
        assert bounds.value_counts[number] == len(units)
        assert bounds.null_value_counts[number] == len(units) - len(values)
        exact = (values[0], values[-1]) if values and max(size(values[0]), size(values[-1])) <= LONGEST_BOUND else None
        assert limits(bounds, name) == exact
    bounded = {SCHEMA.find_field(name).field_id for name in BOUNDED}
    assert set(bounds.value_counts) == set(bounds.null_value_counts) == bounded
    assert set(bounds.lower_bounds) == set(bounds.upper_bounds) <= bounded


@given(_units)
def test_equal_bounds_of_a_single_row_are_its_value(units: list[TableMetadataUnit]) -> None:
    """A reader may take them for it; where there are none, the value is null by its count, or long."""
    for unit in units:
        bounds = CONVERTED.bounds(to_arrow(TableMetadataUnit, [unit]))
        for name, value in unit.to_columns().items():
            if name in BOUNDED:
                null = bounds.null_value_counts[SCHEMA.find_field(name).field_id] == 1
                assert null == (value is None)
                found = limits(bounds, name)
                assert found == (value, value) if found else null or size(value) > LONGEST_BOUND


@pytest.mark.parametrize("letter", ["a", "é", "🗼"])
@pytest.mark.parametrize(("more", "has"), [(0, True), (1, False)], ids=["longest", "longer"])
def test_a_long_text_has_no_bounds(unit: MakeUnit, letter: str, more: int, has: bool) -> None:
    """By its bytes; nor has a column of which only the greatest or the least value is long. Counts are there still."""
    text = letter * (LONGEST_BOUND // len(letter.encode())) + "b" * more
    for owners in ([text], ["A", text], [text, "\U0010ffff"], ["A", text, None]):
        rows = to_arrow(TableMetadataUnit, [unit(owner=owner) for owner in owners])
        bounds = CONVERTED.bounds(rows)
        given_owners = sorted(filter(None, owners))
        assert limits(bounds, "owner") == ((given_owners[0], given_owners[-1]) if has else None)
        assert limits(bounds, "metadataType") == ("TABLE", "TABLE")
        assert bounds.value_counts[SCHEMA.find_field("owner").field_id] == len(owners)


def test_a_long_text_between_others_does_not_matter(unit: MakeUnit) -> None:
    """The bounds of the others contain it."""
    rows = to_arrow(TableMetadataUnit, [unit(owner=owner) for owner in ("a", "b" * 1_000, "c")])
    assert limits(CONVERTED.bounds(rows), "owner") == ("a", "c")
