"""Tables of format version 3 that are written here keep the id of every row; judged by the specification itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from support.row_lineage import Row, Version3, version_3

import metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.writes.publication import publish_change
from metastore.session import Session


class Lake:
    """A session whose catalog ``lake`` has the table ``db.t``."""

    def __init__(self, folder: Path, kind: str, uri: str = "") -> None:
        self.schema = f"db_{folder.name}" if uri else "db"
        catalog = {"type": kind, "uri": uri} if uri else {"type": kind, "warehouse": f"{folder}/wh"}
        if kind == "sql":
            catalog |= {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        settings = {
            "iceberg.location.base_path": str(folder / "m"),
            "catalogs.lake": catalog,
            "engine.processes": 1,
        }
        self.session: Session = metastore.connect(Settings.from_mapping({"drill.metastore": settings}, environ={}))
        self.run(f"CREATE SCHEMA lake.{self.schema}")

    def run(self, *statements: str) -> None:
        """Run statements on the table ``{t}``."""
        for statement in statements:
            self.session.sql(statement.format(t=f"lake.{self.schema}.t"))

    def call(self, name: str, **arguments: Any) -> dict[str, object]:
        """Call a procedure on the table; its row."""
        [row] = self.session.call(f"lake.system.{name}", schema=self.schema, table_name="t", **arguments).to_pylist()
        return dict(row)

    def read(self) -> Version3:
        """The newest version, as the specification reads it; SELECT must have the same rows."""
        found = version_3(self.session.catalogs.target("lake", self.schema, "t").load().metadata_location)
        ids: list[Any] = self.session.sql(f"SELECT id FROM lake.{self.schema}.t")["id"].to_pylist()
        assert sorted(ids) == sorted(found.rows)
        return found

    @property
    def rows(self) -> dict[int, Row]:
        """Each row's lineage."""
        return self.read().rows


@pytest.fixture(params=["sql", "filesystem", pytest.param("rest", marks=pytest.mark.rest)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """Both kinds of catalog whose metadata this package writes, and a server that writes it itself."""
    made = Lake(tmp_path, request.param, request.getfixturevalue("rest_catalog") if request.param == "rest" else "")
    with made.session:
        yield made


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """Two files in each of two partitions: ids 0 to 9 of the first commit, 10 to 13 of the second."""
    lake.run(
        "CREATE TABLE {t} (id BIGINT, k VARCHAR) WITH (format_version = 3, partitioning = ARRAY['truncate(1, k)'])",
        "INSERT INTO {t} SELECT i, ['a', 'b'][i % 2 + 1] FROM range(10) r(i)",
        "INSERT INTO {t} SELECT i, ['a', 'b'][i % 2 + 1] FROM range(10, 14) r(i)",
    )
    return lake


def test_rows_get_ids_in_the_order_of_files(filled: Lake) -> None:
    """Each commit's rows have the next ids and its number; the table counts them."""
    found = filled.read()
    assert sorted(row for row, _ in found.rows.values()) == list(range(14))
    assert {number for key, (_, number) in found.rows.items() if key < 10} == {1}
    assert {number for key, (_, number) in found.rows.items() if key >= 10} == {2}
    assert (found.metadata["format-version"], found.metadata["next-row-id"]) == (3, 14)


@pytest.mark.parametrize("order", [None, ["id DESC"]])
def test_rewriting_keeps_lineage(filled: Lake, order: list[str] | None) -> None:
    """Data files, sorted anew or not; rewritten ones once more; manifests; and after a change of the spec."""
    before = filled.rows
    for _ in range(2):
        done = filled.call("rewrite_data_files", options={"rewrite-all": "true"}, sorted_by=order)
        assert done["rewritten_data_files_count"]
        assert filled.rows == before
    filled.run("INSERT INTO {t} VALUES (20, 'c')")
    before = filled.rows
    filled.call("rewrite_manifests")
    assert filled.rows == before
    filled.run("ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['bucket(2, id)']")
    filled.call("rewrite_data_files", options={"rewrite-all": "true"})
    assert filled.rows == before


def test_changed_rows_keep_their_ids(filled: Lake) -> None:
    """Rows beside them keep all; the number of changed rows is the commit's; new rows have new ids."""
    before = filled.rows
    filled.run("DELETE FROM {t} WHERE id = 4", "UPDATE {t} SET k = 'bb' WHERE id IN (6, 12)")
    expected = {key: row for key, row in before.items() if key != 4} | {key: (before[key][0], 4) for key in (6, 12)}
    assert filled.rows == expected
    filled.run(
        "MERGE INTO {t} AS t USING (SELECT unnest([6, 8, 30]) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 8 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'a')"
    )
    after = filled.rows
    assert after.pop(30)[1] == 5
    del expected[8]
    assert after == expected | {6: (before[6][0], 5)}


def test_a_pick_and_added_files(filled: Lake, tmp_path: Path) -> None:
    """Files that are appended without being written here get ids as others do; what was there keeps its own."""
    before = filled.rows
    pq.write_table(pa.table({"id": [50, 51], "k": ["a", "a"]}), tmp_path / "f.parquet")
    filled.call("add_files", files=[str(tmp_path / "f.parquet")])
    added = filled.read()
    assert {key: added.rows[key] for key in before} == before
    [*_, old, new] = added.metadata["snapshots"]
    filled.call("rollback_to_snapshot", snapshot_id=old["snapshot-id"])
    filled.run("INSERT INTO {t} VALUES (60, 'b')")
    filled.call("cherrypick_snapshot", snapshot_id=new["snapshot-id"])
    picked = filled.rows
    assert {key: picked[key] for key in before} == before
    assert sorted(picked.keys() - before.keys()) == [50, 51, 60]
    assert min(picked[key][0] for key in (50, 51)) >= added.metadata["next-row-id"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("by", ["ALTER TABLE {t} SET PROPERTIES format_version = 3", "upgrade_format_version"])
def test_an_upgrade_gives_ids_with_the_next_commit(lake: Lake, version: int, by: str) -> None:
    """Every row gets one, and keeps the number of the commit that added it."""
    lake.run(
        f"CREATE TABLE {{t}} (id BIGINT, k VARCHAR) WITH (format_version = {version})",
        "INSERT INTO {t} SELECT i, 'a' FROM range(5) r(i)",
        "INSERT INTO {t} VALUES (10, 'b')",
    )
    if by.startswith("ALTER"):
        lake.run(by)
    else:
        dry = lake.call(by, dry_run=True)
        assert (dry["previous_version"], dry["current_version"]) == (version, version)
        assert "Apache Drill" in str(dry["message"])
        assert lake.call(by)["current_version"] == 3
    lake.run("DELETE FROM {t} WHERE id = 2")
    before = lake.rows
    assert sorted(before) == [0, 1, 3, 4, 10]
    lake.call("rewrite_data_files", options={"rewrite-all": "true"})
    assert lake.rows == before
    with pytest.raises(InvalidRequestError, match="cannot be lowered"):
        lake.run("ALTER TABLE {t} SET PROPERTIES format_version = 2")


def test_others_on_another_branch_take_ids_first(filled: Lake) -> None:
    """A commit that was planned before theirs is a lost race, though its own branch has not moved; nothing is left."""
    filled.call("create_branch", branch="other")
    target = filled.session.catalogs.target("lake", filled.schema, "t")
    stale = target.load()
    filled.run("INSERT INTO {t} VALUES (70, 'a')")
    filled.call("fast_forward", branch="other", to="main")
    ref = stale.metadata.refs["main"].snapshot_id
    filled.call("rollback_to_snapshot", snapshot_id=ref)
    before, files = filled.read(), sorted(Path(stale.location().removeprefix("file://")).rglob("*.avro"))
    with pytest.raises(CommitFailedException):
        publish_change(target, stale, stale.metadata.last_updated_ms + 1, [], [])
    assert sorted(Path(stale.location().removeprefix("file://")).rglob("*.avro")) == files
    assert filled.rows == before.rows
    filled.run("INSERT INTO {t} VALUES (71, 'a')")
    assert filled.rows[71][0] >= before.metadata["next-row-id"]


def test_reserved_names_are_refused(lake: Lake) -> None:
    """A column of the table would be mistaken for lineage."""
    with pytest.raises(InvalidRequestError, match="_row_id has a name that format version 3 reserves"):
        lake.run("CREATE TABLE {t} (_row_id BIGINT) WITH (format_version = 3)")
    lake.run("CREATE TABLE {t} (_row_id BIGINT) WITH (format_version = 2)")
    for raise_it in (
        lambda: lake.run("ALTER TABLE {t} SET PROPERTIES format_version = 3"),
        lambda: lake.call("upgrade_format_version"),
    ):
        with pytest.raises(InvalidRequestError, match="_row_id has a name that format version 3 reserves"):
            raise_it()


def test_an_encrypted_table_is_not_written(filled: Lake) -> None:
    """Its new files would not be encrypted."""
    filled.run("ALTER TABLE {t} SET PROPERTIES \"encryption.key-id\" = 'k'")
    before = filled.rows
    for call in ("rewrite_data_files", "rewrite_manifests"):
        with pytest.raises(ProcedureError, match="is encrypted"):
            filled.call(call)
    with pytest.raises(ProcedureError, match="is encrypted"):
        filled.run("DELETE FROM {t}")
    assert filled.rows == before
