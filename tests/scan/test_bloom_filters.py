"""Scans skip row groups by bloom filters where statistics cannot, and give the same rows at every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables_of_kinds import settings_of_kinds

from metastore.predicates.columns import Columns
from metastore.scan.probes import probes_of
from metastore.scan.rows import read_rows
from metastore.session import Session, connect

ROWS = pa.table({"id": pa.array([(each * 7919) % 20_011 * 2 for each in range(4000)], pa.int64())})
TABLE = ROWS.append_column("key", pa.array([f"k{each}" for each in ROWS["id"].to_pylist()]))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A table of two files of four row groups, all of whose bounds reach from end to end."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    options: Any = {"bloom_filter_options": {"id": True, "key": True}}
    for number in range(2):
        part = TABLE.slice(2000 * number, 2000)
        pq.write_table(part, place / f"{number}.parquet", row_group_size=500, **options)
    with connect(settings_of_kinds(tmp_path)) as made:
        made.analyze("dfs.w.t")
        yield made


def groups_read(session: Session, where: str) -> int:
    """Row groups that a scan reads after bounds and filters; where it has row ids, too."""
    scan = session.tables.scan("dfs.w.t", where)
    dataset = scan._dataset(["id"])
    return sum(len(part.row_groups) for part in dataset.get_fragments())


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("id = 7", 0),
        ("id = 15838", 1),
        ("key = 'k15838'", 1),
        ("key IN ('k15838', 'nothing', 'k31676') AND id > 0", 2),
        ("id = 15838 OR key = 'nothing'", 8),
        ("id <> 15838", 8),
        ("NOT (id = 15838)", 8),
    ],
)
def test_every_door_gives_the_rows(session: Session, where: str, most: int) -> None:
    """Of few row groups where one value is asked for, and of all where another condition would do."""
    scan = session.tables.scan("dfs.w.t", where)
    assert groups_read(session, where) <= most + 1
    expected = session.sql(f"SELECT id FROM dfs.w.t WHERE {where} ORDER BY id")["id"].to_pylist()
    python = [row for row in TABLE.to_pylist() if _passes(where, row)]
    assert expected == sorted(row["id"] for row in python)
    in_tasks = [row for batch in read_rows(scan.chunk) for row in batch.to_pylist()]
    for rows in (
        scan.to_arrow().to_pylist(),
        scan.to_arrow_dataset().to_table().select(["id"]).to_pylist(),
        scan.to_polars().to_arrow().to_pylist(),
        session.tables.scan("dfs.w.t", where, row_id=True).to_arrow().to_pylist(),
        in_tasks,
    ):
        assert sorted(row["id"] for row in rows) == expected
    assert scan.count() == len(expected)


def _passes(where: str, row: dict[str, Any]) -> bool:
    conditions: dict[str, bool] = {
        "id = 7": row["id"] == 7,
        "id = 15838": row["id"] == 15838,
        "key = 'k15838'": row["key"] == "k15838",
        "key IN ('k15838', 'nothing', 'k31676') AND id > 0": row["key"] in ("k15838", "k31676") and row["id"] > 0,
        "id = 15838 OR key = 'nothing'": row["id"] == 15838,
    }
    return bool(conditions.get(where, row["id"] != 15838))


def test_a_question_says_which_values_rows_must_have(session: Session) -> None:
    """Only what every row that passes has: not one side of an OR, no range, and no value of another type."""
    columns: Columns = session.tables.scan("dfs.w.t").plan.columns
    for where, expected in {
        "id = 5": {"id": (5,)},
        "id = 5 AND key = 'a'": {"id": (5,), "key": ("a",)},
        "id = 5 OR key = 'a'": {},
        "id > 5 AND key >= 'a'": {},
        "id = 1.5": {},
        "key LIKE 'a%'": {},
        "key = 5": {},
        "id IS NULL": {},
    }.items():
        assert probes_of(where, columns) == expected, where
    assert set(probes_of("id IN (3, 1)", columns)["id"]) == {1, 3}
    assert probes_of(None, columns) == {}
