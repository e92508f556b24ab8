"""Values that directories give: names, escapes, null, and a type only where every engine infers it."""

from __future__ import annotations

from datetime import date

import pytest

from metastore.model.statistics import ColumnStatistics
from metastore.sources.directories import DirectoryColumns, directories_of


def column(values: list[str]) -> tuple[str, bool]:
    """Type and usability of ``k`` when its directories have ``values``."""
    columns = DirectoryColumns([(f"k={value}",) for value in values])
    found = next(c for c in columns.columns if c.path == ("k",))
    return found.type.name, found.usable


def value(directory: str, *others: str) -> ColumnStatistics | None:
    """What ``k=directory`` says beside other values."""
    return DirectoryColumns([(f"k={v}",) for v in (directory, *others)]).statistics("`k`", (f"k={directory}",))


@pytest.mark.parametrize(
    ("values", "type_", "usable"),
    [
        (["1", "02", "-3"], "INT", True),
        (["1", "3000000000"], "BIGINT", True),
        (["1", "1.5"], "DOUBLE", True),
        (["2020-02-29"], "DATE", True),
        (["AA", "9E", "10"], "VARCHAR", True),
        (["__HIVE_DEFAULT_PARTITION__"], "VARCHAR", True),
        (["1", "__HIVE_DEFAULT_PARTITION__"], "INT", True),
        (["1e5"], "DECIMAL", False),
        (["NaN"], "DOUBLE", False),
        (["2020-02-30"], "VARCHAR", False),
        (["2020-01-01 10:00:00"], "VARCHAR", False),
        (["1", "2020-01-01"], "VARCHAR", False),
        (["12345678901234567890"], "DECIMAL", False),
        (["2024-1-5", "2024-01-06"], "VARCHAR", False),
        (["+5", "7"], "INT", False),
        (["M%C3%BCnchen"], "VARCHAR", False),
    ],
)
def test_types_are_inferred_over_all_values(values: list[str], type_: str, usable: bool) -> None:
    """The type is the one that Spark infers; where another engine infers another, the column prunes nothing."""
    assert column(values) == (type_, usable)


def test_values_are_unescaped_and_typed() -> None:
    """Percent escapes of ASCII, numbers with leading zeros, dates; the reserved name is null; empty is unknown."""
    assert value("a%2Fb%20c") == ColumnStatistics("VARCHAR", "a/b c", "a/b c", nulls=0, nans=0)
    assert value("06") == ColumnStatistics("INT", 6, 6, nulls=0, nans=0)
    assert value("2020-02-29") == ColumnStatistics("DATE", date(2020, 2, 29), date(2020, 2, 29), nulls=0, nans=0)
    null = value("__HIVE_DEFAULT_PARTITION__", "1")
    assert null is not None
    assert null.all_null
    assert value("", "a") is None


def test_levels_are_columns_of_text() -> None:
    """dir0, dir1, … are the directories' names as they stand; a level that a path lacks says nothing."""
    columns = DirectoryColumns([("1994", "Q1"), ("1995",)])
    assert [c.path for c in columns.columns] == [("dir0",), ("dir1",)]
    assert columns.statistics("`dir0`", ("1994", "Q1")) == ColumnStatistics("VARCHAR", "1994", "1994", nulls=0, nans=0)
    assert columns.statistics("`dir1`", ("1995",)) is None


@pytest.mark.parametrize(
    ("path", "root", "directories"),
    [
        ("/t/a/b/f.parquet", "/t", ("a", "b")),
        ("/t/f.parquet", "/t/", ()),
        ("/tt/a/f.parquet", "/t", ()),
        ("s3://b/t/k=1/f.parquet", "s3://b/t", ("k=1",)),
    ],
)
def test_directories_lie_between_root_and_file(path: str, root: str, directories: tuple[str, ...]) -> None:
    """A path elsewhere has none."""
    assert directories_of(path, root) == directories


def test_a_name_is_a_column_before_a_level_is() -> None:
    """``dir0=a`` gives ``dir0`` the value a, the upper one of two of a name counts, and columns of files stay so."""
    columns = DirectoryColumns([("k=1", "dir0=a", "k=2"), ("k=3", "dir0=b", "x")], of_files={"dir2"})
    assert sorted(c.path[0] for c in columns.columns) == ["dir0", "dir1", "k"]
    named = columns.statistics("`dir0`", ("k=1", "dir0=a", "k=2"))
    assert named == ColumnStatistics("VARCHAR", "a", "a", nulls=0, nans=0)
    upper = columns.statistics("`k`", ("k=1", "dir0=a", "k=2"))
    assert upper == ColumnStatistics("INT", 1, 1, nulls=0, nans=0)
    assert "`dir2`" not in columns
