"""Numbers of many units at once are those that the reader of one unit finds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.model.mapping.recorded_numbers import recorded_numbers, with_nulls
from metastore.model.statistics_json import holder_json, read_holders, read_row_count

NUMBERS = st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.sampled_from([0, 1, 10**18, 10**17])
HOLDERS = st.builds(
    holder_json, st.sampled_from(["rowCount", "length", "lengthOfAll", "modificationTimeNanos"]), NUMBERS, st.booleans()
) | st.sampled_from(
    [
        '{"statisticsValue":7,"statisticsKind":{"exact":true,"name":"rowCount"}}',
        '{"statisticsKind": {"name": "rowCount"}, "statisticsValue": 8}',
        '{"statisticsValue":"rowCount","statisticsKind":{"exact":true,"name":"analyzeLevel"}}',
    ]
)


@given(st.lists(st.none() | st.lists(HOLDERS, max_size=4), max_size=6))
def test_numbers_are_those_that_the_reader_of_one_finds(lists: list[list[str] | None]) -> None:
    """Of each name, the last one; of rows only exact ones."""
    column = pa.array(lists, pa.list_(pa.string()))
    rows, lengths = (with_nulls(found).to_pylist() for found in recorded_numbers(column, "rowCount", "length"))
    assert lengths == [read_holders(texts or ()).get("length") for texts in lists]
    assert rows == [read_row_count(texts) for texts in lists]


def test_rows_of_a_slice_are_its_own() -> None:
    """Arrow's lists may begin anywhere in their values."""
    column = pa.array([[holder_json("length", number)] for number in range(9)], pa.list_(pa.string()))
    assert recorded_numbers(column.slice(4, 2), "length")[0].tolist() == [4, 5]


def test_what_is_no_holder_is_an_error() -> None:
    """It would be one for the reader of one, too."""
    with pytest.raises(FormatError):
        recorded_numbers(pa.array([["length"]]), "length")
