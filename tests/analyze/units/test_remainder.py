"""What is left of a segment when files go: the same by subtraction as by adding up all that stay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metastore.analyze.tasks.file_rows import file_row
from metastore.analyze.units.parts import Part, file_parts
from metastore.analyze.units.remainder import Before
from metastore.analyze.units.unit_rows import to_batch
from metastore.formats.source_file import SourceFile
from metastore.mapping.arrow import plain_arrow_schema
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema

TABLE = TableInfo("dfs", "tmp", "t")
SCHEMA = plain_arrow_schema(TableMetadataUnit)
OF_FILES = TupleSchema((SchemaColumn("n", "INT"), SchemaColumn("f", "DOUBLE")))
ROWS = 4


@st.composite
def statistics(draw: st.DrawFn, type_: str, value: Any) -> ColumnStatistics:
    """Statistics of a column over ``ROWS`` rows, with whatever may be unknown."""
    non_nulls = draw(st.integers(0, ROWS))
    nans = draw(st.none() | st.integers(0, non_nulls)) if type_ == "FLOAT8" and non_nulls else None
    if type_ == "FLOAT8" and not non_nulls:
        nans = 0
    counts = draw(st.sampled_from([(ROWS - non_nulls, non_nulls)] * 4 + [(None, None)]))
    low = high = None
    if non_nulls and nans != non_nulls and draw(st.integers(0, 9)):
        low, high = sorted([value(draw(st.integers(0, 3))), value(draw(st.integers(0, 3)))])
    exact = [draw(st.booleans()) or bound is None for bound in (low, high)]
    return ColumnStatistics(type_, low, high, *exact, *counts, None if counts[0] is not None else ROWS, nans)


FILES = st.lists(st.tuples(statistics("INT", int), statistics("FLOAT8", float), st.booleans()), min_size=1, max_size=8)


def counted(type_: str, low: Any, high: Any, nans: int | None = None) -> ColumnStatistics:
    """Statistics of ``ROWS`` values without nulls."""
    return ColumnStatistics(type_, low, high, nulls=0, non_nulls=ROWS, nans=nans)


# The one file that may hold NaNs goes.
@example(
    [
        (counted("INT", 1, 1), counted("FLOAT8", 1.0, 1.0), True),
        (counted("INT", 0, 2), counted("FLOAT8", 0.5, 2.0, 0), False),
    ]
)
@settings(max_examples=150)
@given(FILES)
def test_subtracting_gives_what_adding_up_does(files: list[tuple[ColumnStatistics, ColumnStatistics, bool]]) -> None:
    """Whatever files go, and whatever is unknown of them, the part of the others is the same."""
    rows = []
    for number, (ints, floats, _) in enumerate(files):
        file = SourceFile(("d",), f"{number}.parquet", f"/lake/d/{number}.parquet", 10 + number, number * 10**6)
        rows.append(file_row(file, OF_FILES, {"`n`": ints.to_json(), "`f`": floats.to_json()}, ROWS))
    stored = pa.Table.from_batches([to_batch(SCHEMA, TABLE, rows)])
    goes = pa.array([leaves for _, _, leaves in files])
    kept, gone = stored.filter(pc.invert(goes)), stored.filter(goes)
    segment = Part.added(("d",), file_parts(stored, "/lake"))
    before = Before({"d": segment}, {"d": gone})
    assert before.remaining("d", kept, "/lake") == file_parts(kept, "/lake")
