"""count, min and max: from statistics exactly where these are exact and speak for all rows asked for."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from support.scan_lake import Lake

from metastore.errors import InvalidRequestError, NotFoundError

TABLE = "dfs.tmp.t"


def unreadable(lake: Lake) -> None:
    """Take the files' data away and leave the metadata: what is answered now was answered without reading."""
    for path in lake.paths():
        lake.remove(path)


def answer(lake: Lake, *texts: str, where: Any = None, **options: Any) -> list[Any]:
    """The values of aggregates."""
    (row,) = lake.tables.aggregate(TABLE, texts, where, **options).to_pylist()
    assert list(row) == list(texts)
    return list(row.values())


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Two files in two directories; ``s`` has a null in the second."""
    lake.write("k=1/a.parquet", {"n": [3, 1, 2], "s": ["b", "a", "c"], "st": [{"v": 1.5}, None, {"v": 2.5}]})
    lake.write("k=2/b.parquet", {"n": [7, 9], "s": ["z", None], "st": [{"v": None}, {"v": 0.5}]})
    lake.analyze()
    return lake


def test_exact_statistics_answer_without_a_file(table: Lake) -> None:
    """Counts, bounds of numbers and text, of directories and of leaves of structs."""
    unreadable(table)
    texts = ["count(*)", "min(n)", "MAX( n )", "count(s)", "max(s)", "min(k)", "count(st.v)", "count(`k`)"]
    assert answer(table, *texts, list_files=False) == [5, 1, 9, 4, "z", 1, 3, 5]
    scan = table.scan(list_files=False)
    assert scan.count() == 5


def test_questions_that_hold_for_whole_files_are_answered_from_statistics(table: Lake) -> None:
    """A file is read only if some of its rows may fail, or may be null, in the question."""
    unreadable(table)
    for where, rows in (("k = 1", 3), ("n > 5", 2), ("n < 5 AND s >= 'a'", 3), ("n BETWEEN 1 AND 9", 5), ("n < 0", 0)):
        assert answer(table, "count(*)", where=where, list_files=False) == [rows], where
    for where in ("n > 1", "s >= 'a'", "n = NULL OR k = 1", "length(s) = 1", "s IS NOT NULL AND n > 5"):
        with pytest.raises(NotFoundError, match="gone"):
            answer(table, "count(*)", where=where, list_files=False)


def test_a_comparison_with_null_covers_nothing(table: Lake) -> None:
    """Neither it nor its negation is true, so statistics alone would take all rows for it."""
    for where, rows in (("n = NULL OR n = 3", 1), ("n IN (3, NULL)", 1), ("n NOT IN (3, NULL)", 0)):
        assert answer(table, "count(*)", where=where) == [rows], where


def test_changed_files_are_read(table: Lake) -> None:
    """New, changed and removed files count as they are now."""
    table.write("k=2/b.parquet", {"n": [100], "s": ["q"]})
    table.write("k=3/c.parquet", {"n": [-1], "s": [None]})
    assert answer(table, "count(*)", "min(n)", "max(n)", "count(s)", "max(k)") == [5, -1, 100, 4, 3]
    table.remove("k=1/a.parquet")
    assert answer(table, "count(*)", "min(n)", "count(s)") == [2, -1, 1]


@pytest.mark.parametrize("values", [[1.0, math.nan], [math.nan, math.nan], [None, 2.5], [-0.0, 0.0], [None, None]])
def test_nan_is_the_largest_number(lake: Lake, values: list[Any]) -> None:
    """Statistics pass over NaNs, so the data is asked; zero has no sign."""
    lake.write("a.parquet", {"f": pa.array(values, pa.float64())})
    lake.write("b.parquet", {"f": pa.array([None, 1.0])})
    lake.analyze()
    present = [value for value in [*values, 1.0] if value is not None]
    numbers = [value for value in present if not math.isnan(value)]
    largest = math.nan if len(numbers) < len(present) else max(numbers)
    found = answer(lake, "min(f)", "max(f)", "count(f)")
    assert (found[0], found[2]) == (min(numbers), len(present))
    assert found[1] == largest or math.isnan(found[1]) is math.isnan(largest) is True


def test_bounds_that_may_be_shortened_are_not_believed(lake: Lake) -> None:
    """Only one program is known to keep bounds of text whole; here the file says that another one wrote it."""
    path = lake.write("a.parquet", {"s": ["a" * 100, "b" * 100]})
    content = (lake.root / "a.parquet").read_bytes()
    lake.root.joinpath("a.parquet").write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-xyz-arrow"))
    lake.analyze()
    assert answer(lake, "min(s)", "max(s)") == ["a" * 100, "b" * 100]
    lake.remove(path)
    with pytest.raises(NotFoundError):
        answer(lake, "min(s)", list_files=False)


def test_columns_without_statistics_are_read(lake: Lake) -> None:
    """Analyzed for other columns only, or of a type that has no bounds."""
    lake.write("a.parquet", {"n": [1, 2], "m": [5, None], "l": [[1], None]})
    lake.analyze(columns=["n"])
    assert answer(lake, "max(n)", "max(m)", "count(m)", "count(l)") == [2, 5, 1, 1]


@pytest.mark.parametrize("text", ["sum(n)", "count()", "min(*)", "n", "max(n) + 1", "min(st)", "max(nope)"])
def test_other_expressions_are_refused(table: Lake, text: str) -> None:
    """By name, before anything is read."""
    unreadable(table)
    with pytest.raises(InvalidRequestError, match=r"is not supported|only count|no smallest|unknown column"):
        answer(table, text, list_files=False)


def test_what_files_say_has_extremes_too(table: Lake) -> None:
    """Of all files without reading one, and of the rows that a condition leaves."""
    assert answer(table, "max(filename)", "count(`$partition`)", where="n < 3") == ["a.parquet", 2]
    assert answer(table, "count(*)", where="filename = 'b.parquet' AND st.v IS NULL") == [1]
    with pytest.raises(InvalidRequestError, match="pass among=ids to a scan, or ask in a SELECT"):
        answer(table, "count(*)", where="`$row_id` IS NOT NULL")
    unreadable(table)
    assert answer(table, "min(filename)", "count(suffix)", list_files=False) == ["a.parquet", 5]
