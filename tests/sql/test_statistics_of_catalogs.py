"""ANALYZE of a catalog's table, and SHOW STATS of a query; PyIceberg reads the statistics file's place."""

from __future__ import annotations

from typing import Any

import pytest
from support.lake_table import TABLE, Lake

from metastore.errors import InvalidRequestError, MetastoreError

ALL = [("id", 10), ("k", 2), ("n", 1)]


def distinct(lake: Lake) -> dict[str, Any]:
    """The distinct values that SHOW STATS knows, by column."""
    rows = lake.session.sql(f"SHOW STATS FOR {TABLE}").to_pylist()
    return {row["column_name"]: row["distinct_values_count"] for row in rows if row["column_name"]}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"ANALYZE TABLE {TABLE}", ALL),
        ("ANALYZE t", ALL),
        ("ANALYZE TABLE db.t COMPUTE STATISTICS", ALL),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", ALL),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id, k", ALL[:2]),
        ("ANALYZE t WITH (columns = ARRAY['n'])", ALL[2:]),
    ],
)
def test_distinct_values_are_stored_with_the_table(lake: Lake, statement: str, expected: list[tuple[str, int]]) -> None:
    """For the current snapshot, where SHOW STATS finds them."""
    lake.create(2)
    lake.sql("USE lake.db")
    row = lake.sql(statement)
    assert [(each["column"], each["ndv"]) for each in row["columns"]] == expected
    [stored] = lake.load().metadata.statistics
    assert (stored.snapshot_id, stored.statistics_path) == (row["snapshot_id"], row["statistics_file"])
    assert distinct(lake) == {"id": None, "k": None, "n": None} | dict(expected)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"ANALYZE TABLE {TABLE} COMPUTE STATISTICS FOR COLUMNS nope", "has no column nope"),
        (f"ANALYZE TABLE {TABLE} REFRESH METADATA", "line 1, column 25: COMPUTE STATISTICS or WITH"),
        ("ANALYZE TABLE lake.db.u", "table lake.db.u does not exist"),
        ("ANALYZE dfs.tmp.nothing_of_this_name", "there is no file or directory"),
    ],
)
def test_what_cannot_be_analyzed(lake: Lake, statement: str, message: str) -> None:
    """The error says what is wrong."""
    lake.create(2, files=1)
    with pytest.raises(MetastoreError, match=message):
        lake.sql(statement)


def test_statistics_of_a_query(lake: Lake) -> None:
    """They are those of its rows: numbers are exact, also beside deletes."""
    lake.create(2)
    lake.sql(f"DELETE FROM {TABLE} WHERE id = 9")
    rows = lake.session.sql(f"SHOW STATS FOR (SELECT id, nullif(k, 'a') AS k FROM {TABLE} WHERE id > 5)").to_pylist()
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert kept == [
        {
            "column_name": "id",
            "distinct_values_count": 3,
            "nulls_fraction": 0.0,
            "low_value": "6",
            "high_value": "8",
        },
        {
            "column_name": "k",
            "distinct_values_count": 1,
            "nulls_fraction": 2 / 3,
            "low_value": "b",
            "high_value": "b",
        },
        {"row_count": 3},
    ]
    with pytest.raises(InvalidRequestError, match="there is no column nope"):
        lake.sql(f"SHOW STATS FOR (SELECT nope FROM {TABLE})")
