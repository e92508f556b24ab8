"""``_file``, ``_pos``, ``_partition``, ``_spec_id`` and lineage in SQL: what they say is in the files themselves."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from support.lake_table import TABLE, Lake

from metastore.errors import InvalidRequestError

PLACES = "_file, _pos, _partition, _spec_id"
LINEAGE = "_row_id, _last_updated_sequence_number"


@pytest.fixture(params=["merge-on-read", "copy-on-write"])
def changed(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    """A table of version 3 with deleted and updated rows, and two partition specs."""
    lake.create(3, "PARTITIONED BY (k)")
    lake.modes(request.param)
    lake.sql(f"DELETE FROM {TABLE} WHERE id IN (0, 4)")
    lake.sql(f"UPDATE {TABLE} SET n = 7 WHERE id IN (2, 6)")
    lake.sql(f"ALTER TABLE {TABLE} REPLACE PARTITION FIELD k WITH bucket(2, id) AS b")
    lake.sql(f"INSERT INTO {TABLE} VALUES (20, 'a', 0)")
    lake.sql("USE lake.db")
    return lake


def found(lake: Lake, query: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    return lake.session.sql(query).to_pylist()


def test_a_row_is_where_it_is_said_to_be(changed: Lake) -> None:
    """In the file, at the position, deleted rows counted; the partition is that of the file's entry."""
    entries = {live.path: live.file for live in changed.live.data}
    rows = found(changed, f"SELECT id, {PLACES} FROM t")
    assert len(rows) == 9
    for row in rows:
        stored = pq.read_table(row["_file"].removeprefix("file://")).column("id").to_pylist()
        assert stored[row["_pos"]] == row["id"]
        entry = entries[row["_file"]]
        assert row["_spec_id"] == entry.spec_id
        assert row["_partition"] == {"k": None, "b": None} | {["k", "b"][entry.spec_id]: entry.partition[0]}


def test_a_condition_does_not_move_a_row(changed: Lake) -> None:
    """Rows that a condition leaves out are counted, whatever Arrow could skip."""
    places = {row["id"]: row for row in found(changed, f"SELECT id, _pos, {LINEAGE} FROM t")}
    for row in found(changed, f"SELECT id, _pos, {LINEAGE} FROM t WHERE id > 2 AND n < 7"):
        assert row == places[row["id"]]
    assert found(changed, "SELECT _pos FROM t WHERE id = 8") == [{"_pos": places[8]["_pos"]}]


def test_lineage_follows_a_row(changed: Lake) -> None:
    """A changed row keeps its id, and has the number of the commit that changed it."""
    before = {row["id"]: row for row in found(changed, f"SELECT id, {LINEAGE} FROM t")}
    assert len({row["_row_id"] for row in before.values()}) == 9
    changed.sql("UPDATE t SET n = 8 WHERE id = 5")
    number = changed.load().snapshots()[-1].sequence_number
    after = {row["id"]: row for row in found(changed, f"SELECT id, {LINEAGE} FROM t")}
    assert after == before | {5: before[5] | {"_last_updated_sequence_number": number}}


def test_files_are_skipped_by_their_columns(changed: Lake) -> None:
    """A condition on the file or its spec opens no other file."""
    [row] = found(changed, "SELECT _file, _spec_id FROM t WHERE id = 20")
    for condition in (f"_file = '{row['_file']}'", f"_spec_id = {row['_spec_id']}"):
        lines = [each["plan"] for each in found(changed, f"EXPLAIN SELECT id FROM t WHERE {condition}")]
        assert lines[1].startswith("  files: 1 of ")
        assert found(changed, f"SELECT id FROM t WHERE {condition}") == [{"id": 20}]


def test_the_partition_is_no_column_of_the_table(changed: Lake) -> None:
    """Its field is NULL in files of other specs, though the column of that name is not."""
    assert found(changed, "SELECT id FROM t WHERE _partition.k IS NULL") == [{"id": 20}]
    assert found(changed, "SELECT t._partition.b IS NOT NULL AS b FROM t WHERE t.id = 20") == [{"b": True}]


def test_rows_are_changed_by_their_places(changed: Lake) -> None:
    """Statements name them, too; a star does not show them."""
    [row] = found(changed, "SELECT _file, _pos FROM t WHERE id = 3")
    assert changed.sql(f"DELETE FROM t WHERE _file = '{row['_file']}' AND _pos = {row['_pos']}")["deleted"] == 1
    assert changed.ids == [1, 2, 5, 6, 7, 8, 9, 20]
    assert list(found(changed, "SELECT *, _pos FROM t LIMIT 1")[0]) == ["id", "k", "n", "_pos"]


def test_a_table_without_them(lake: Lake) -> None:
    """Rows of version 2 have no ids; a table that was never partitioned has no partition."""
    lake.create(2, files=1)
    assert found(lake, f"SELECT DISTINCT {LINEAGE} FROM {TABLE}") == [
        {"_row_id": None, "_last_updated_sequence_number": None}
    ]
    with pytest.raises(InvalidRequestError, match="no column _partition: the table was never partitioned"):
        lake.sql(f"SELECT _partition FROM {TABLE}")
