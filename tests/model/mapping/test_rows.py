"""Units as Arrow rows and back, and rows grouped into partitions: nothing is lost, added or moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError
from metastore.model.fields import ColumnType, column_names, columns_of
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.rows import by_partition, conform, from_arrow, rows_of, to_arrow
from metastore.model.table_unit import TableMetadataUnit

MakeUnit = Callable[..., TableMetadataUnit]
COLUMNS = columns_of(TableMetadataUnit)
KEYS = ("storage_plugin", "workspace", "table_name", "metadata_key")

_text = st.text(max_size=8)
_values: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.STRING: _text,
    ColumnType.LONG: st.integers(-(2**63), 2**63 - 1),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.STRING_LIST: st.lists(st.none() | _text, max_size=3),
    ColumnType.STRING_MAP: st.dictionaries(_text, st.none() | _text, max_size=3),
    ColumnType.FLOAT_MAP: st.dictionaries(_text, st.none() | st.floats(width=32, allow_nan=False), max_size=3),
}
any_units = st.lists(
    st.builds(TableMetadataUnit, **{c.attribute: st.none() | _values[c.type] for c in COLUMNS}), max_size=6
)
keyed_units = st.lists(
    st.builds(TableMetadataUnit, **dict.fromkeys(KEYS, st.sampled_from("ab")), owner=st.text(max_size=2)), max_size=20
)


def key_of(unit: TableMetadataUnit) -> tuple[str | None, ...]:
    """The partition that a unit belongs to."""
    return tuple(getattr(unit, attribute) for attribute in KEYS)


@given(any_units)
def test_units_come_back_from_arrow_as_they_were(units: list[TableMetadataUnit]) -> None:
    """In every column: null, empty and edge values, nulls within lists and maps, and the order of units."""
    table = to_arrow(TableMetadataUnit, units)
    assert table.schema.equals(plain_arrow_schema(TableMetadataUnit), check_metadata=True)
    assert from_arrow(TableMetadataUnit, table) == units


@given(any_units, st.lists(st.sampled_from(COLUMNS), unique=True))
def test_columns_that_a_table_lacks_stay_none(units: list[TableMetadataUnit], columns: list[Any]) -> None:
    """Any choice of columns in any order, none at all included; as many units as rows."""
    table = to_arrow(TableMetadataUnit, units).select([c.name for c in columns])
    expected = [TableMetadataUnit(**{c.attribute: getattr(unit, c.attribute) for c in columns}) for unit in units]
    assert from_arrow(TableMetadataUnit, table) == expected


@given(any_units, st.lists(st.sampled_from(column_names(TableMetadataUnit)), min_size=1, unique=True))
def test_any_columns_conform_and_nothing_is_changed_twice(units: list[TableMetadataUnit], names: list[str]) -> None:
    """Absent columns become null, order becomes the component's; what conforms is given back as it is."""
    given_rows = to_arrow(TableMetadataUnit, units).select(names)
    rows = conform(TableMetadataUnit, given_rows)
    assert rows.schema.equals(plain_arrow_schema(TableMetadataUnit))
    assert rows.select(names).equals(given_rows)
    assert all(rows.column(name).null_count == len(units) for name in rows.schema.names if name not in names)
    assert conform(TableMetadataUnit, rows) is rows


@given(keyed_units, st.lists(st.integers(0, 20), max_size=3))
def test_grouping_keeps_every_row_once(units: list[TableMetadataUnit], cuts: list[int]) -> None:
    """Groups are as a dictionary makes them: by first appearance, rows in their order; however the rows are chunked."""
    expected: dict[tuple[str | None, ...], list[TableMetadataUnit]] = {}
    for unit in units:
        expected.setdefault(key_of(unit), []).append(unit)
    ends = [*sorted(cuts), len(units)]
    whole = to_arrow(TableMetadataUnit, units)
    chunks = [whole.slice(start, max(end - start, 0)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    groups = by_partition(TableMetadataUnit, pa.concat_tables(chunks))
    assert [(group.key, from_arrow(TableMetadataUnit, group.rows)) for group in groups] == list(expected.items())
    assert all(group.rows.schema.equals(whole.schema) for group in groups)


@given(st.data(), keyed_units)
def test_the_order_of_rows_changes_no_group(data: st.DataObject, units: list[TableMetadataUnit]) -> None:
    """Mixed in any other order, the same rows end in the same partitions."""

    def grouped(given_units: list[TableMetadataUnit]) -> dict[tuple[str, ...], list[str]]:
        groups = by_partition(TableMetadataUnit, to_arrow(TableMetadataUnit, given_units))
        return {group.key: sorted(map(repr, group.rows.to_pylist())) for group in groups}

    assert grouped(units) == grouped(data.draw(st.permutations(units)))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("last_modified_time", 1.5),
        ("last_modified_time", float("nan")),
        ("row_group_index", -0.5),
        ("interesting_columns", "`a`"),
        ("locations", b"/data"),
    ],
)
def test_a_value_is_refused_rather_than_changed(unit: MakeUnit, attribute: str, value: object) -> None:
    """No fraction is cut off, no text becomes the list of its characters; also in the midst of good units."""
    name = next(c.name for c in COLUMNS if c.attribute == attribute)
    with pytest.raises(InvalidRequestError, match=f"{name!r} is not a"):
        to_arrow(TableMetadataUnit, [unit(), unit(**{attribute: value}), unit()])


def test_a_null_key_among_good_ones_is_refused(unit: MakeUnit) -> None:
    """In any row, with the column's name."""
    rows = to_arrow(TableMetadataUnit, [unit("a"), unit("b", workspace=None), unit("a")])
    with pytest.raises(InvalidRequestError, match="'workspace' must not be null"):
        by_partition(TableMetadataUnit, rows)


def test_units_may_come_from_anything_that_is_walked_once(unit: MakeUnit) -> None:
    """A generator is as good as a list."""
    assert rows_of(TableMetadataUnit, (unit(name) for name in "abc")).column("tableName").to_pylist() == ["a", "b", "c"]
