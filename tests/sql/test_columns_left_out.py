"""Scans read the other columns of a table with variants, by one rule; geometries are read as their bytes.

What SQL does with variants of a catalog's tables is tested in ``test_variants.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.variant_lake import readable_rows, table_with_variants

from metastore.errors import InvalidRequestError
from metastore.session import Session

OTHERS = "SELECT id, place, globe, nothing FROM lake.db.t ORDER BY id"
REASON = r"it is of type variant, whose values only SQL reads, by the table's name in its catalog \(with DuckDB 2\)"


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """What the readable columns of the table hold."""
    return readable_rows()


@pytest.fixture(scope="module")
def ms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """``lake.db.t``, analyzed as ``p.db.t``."""
    with table_with_variants(tmp_path_factory.mktemp("variants")) as session:
        session.analyze("p.db.t")
        yield session


def test_a_star_means_the_columns_that_can_be_read(ms: Session, rows: pa.Table) -> None:
    """Also of a struct with a variant nothing is read; a column of unknown type is NULL."""
    assert ms.sql("SELECT * FROM p.db.t ORDER BY id").to_pylist() == rows.to_pylist()
    assert ms.sql("SELECT count(*) AS n FROM p.db.t").to_pylist() == [{"n": 10}]


def test_descriptions_name_columns_that_reads_leave_out(ms: Session, rows: pa.Table) -> None:
    """Behind the others, with the reason as their comment; none of them is lost."""
    found = ms.sql("DESCRIBE p.db.t").to_pylist()
    assert [row["COLUMN_NAME"] for row in found] == [*rows.column_names, "v", "s"]
    assert [str(row["COMMENT"]).partition(" of type ")[0] for row in found[-2:]] == ["left out of all reads: it is"] * 2
    assert "variant, whose values only SQL reads" in found[-2]["COMMENT"]
    assert ms.sql("SHOW COLUMNS FROM p.db.t LIKE 'v'").to_pylist() == [found[-2]]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("place = '\\x01\\x04'::BLOB", lambda row: row["place"] == b"\x01\x04"),
        ("place > '\\x01\\x04'::BLOB", lambda row: row["place"] is not None and row["place"] > b"\x01\x04"),
        ("place IS NULL AND id > 4", lambda row: row["place"] is None and row["id"] > 4),
        ("nothing IS NULL AND id < 3", lambda row: row["id"] < 3),
        ("nothing = 1", lambda _: False),
    ],
)
def test_conditions_have_the_answer_of_the_whole_table(
    ms: Session, rows: pa.Table, condition: str, wanted: Callable[[dict[str, Any]], bool]
) -> None:
    """By bytes of geometries, whose bounds are points and prove nothing about bytes; and on NULL."""
    found = ms.sql(f"SELECT id FROM p.db.t WHERE {condition} ORDER BY id")["id"].to_pylist()
    assert found == [row["id"] for row in rows.to_pylist() if wanted(row)]


@pytest.mark.parametrize(
    "query",
    ["SELECT v FROM {}", "SELECT id FROM {} WHERE v IS NULL", "SELECT x.V FROM {0} x JOIN {0} y ON x.id = y.id"],
)
def test_naming_such_a_column_is_an_error(ms: Session, query: str) -> None:
    """With its type; a struct that contains one is another such column."""
    with pytest.raises(InvalidRequestError, match=f"Column v is left out of all reads: {REASON}"):
        ms.sql(query.format("p.db.t"))
    with pytest.raises(InvalidRequestError, match="Column s is left out of all reads: it is of type struct<.*variant"):
        ms.sql("SELECT s.a FROM p.db.t")


def test_a_name_of_the_query_is_no_such_column(ms: Session) -> None:
    """Only the table's own column is left out."""
    assert ms.sql("SELECT v FROM (SELECT id AS v FROM lake.db.t) WHERE v = 3").to_pylist() == [{"v": 3}]


def test_analyze_and_pruning_say_why(ms: Session) -> None:
    """The column has no bounds, with the reason; a condition on it is refused."""
    ms.drop_metadata("p.db.t")
    told = ms.analyze("p.db.t").without_bounds
    assert told["v"] == REASON.replace("\\", "")
    assert told["s"].startswith("it is of type struct<")
    with pytest.raises(InvalidRequestError, match=f"there is no column v .* here: {REASON}"):
        ms.prune("p.db.t", "v IS NULL")
    with pytest.raises(InvalidRequestError, match="v"):
        ms.analyze("p.db.t", columns=["v"])
    assert len(ms.prune("p.db.t", "id > 7").paths) == 1


def test_a_scan_leaves_it_out(ms: Session, rows: pa.Table) -> None:
    """And refuses it by name."""
    found = ms.tables.scan("p.db.t").to_arrow().sort_by("id")
    assert found.to_pylist() == rows.to_pylist()
    with pytest.raises(InvalidRequestError, match=f"there is no column v .*here: {REASON}"):
        ms.tables.scan("p.db.t", columns=["v"])


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("INSERT INTO lake.db.t (id, place) VALUES (1, 'a'::BLOB)", "place is of type geometry"),
        ("UPDATE lake.db.t SET globe = 'a'::BLOB WHERE id = 2", "globe is of type geography"),
        ("UPDATE lake.db.t SET s = {'a': 1, 'v': NULL} WHERE id = 2", "s is of type struct<"),
    ],
)
def test_values_of_such_columns_are_not_made(ms: Session, statement: str, column: str) -> None:
    """Each statement is refused before it writes, and names the column."""
    before = ms.sql('SELECT * FROM lake.db."t$snapshots"')
    with pytest.raises(InvalidRequestError, match=f"column {column}.* whose values cannot be made here"):
        ms.sql(statement)
    assert ms.sql('SELECT * FROM lake.db."t$snapshots"').equals(before)


STORED = ("id", "place", "globe", "v", "s")


def stored(session: Session) -> dict[int, dict[str, Any]]:
    """The rows as Parquet holds them, by their number; deleted rows count."""
    found = session.sql('SELECT file_path FROM lake.db."t$data_files"').to_pylist()
    tables = [pq.ParquetFile(row["file_path"].removeprefix("file://")).read(columns=list(STORED)) for row in found]
    return {row["id"]: row for table in tables for row in table.to_pylist()}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lake.db.t SET id = id + 100 WHERE id IN (2, 7)",
        "MERGE INTO lake.db.t t USING (VALUES (2), (7)) s(k) ON t.id = s.k WHEN MATCHED THEN UPDATE SET id = k + 100",
    ],
)
def test_updated_rows_keep_their_variants(tmp_path: Path, mode: str, statement: str) -> None:
    """And their geometries, byte by byte, in both modes; only the assigned column changes."""
    with table_with_variants(tmp_path) as session:
        for kind in ("update", "merge"):
            session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES write.{kind}.mode = '{mode}'")
        before = stored(session)
        assert session.sql(statement).to_pylist()[0]["updated"] == 2
        after = stored(session)
        for old in before:
            new = old + 100 if old in (2, 7) else old
            assert after[new] == {**before[old], "id": new}
        assert session.sql("SELECT count(*) AS n FROM lake.db.t WHERE id > 100").to_pylist() == [{"n": 2}]


def test_new_rows_have_no_variants(tmp_path: Path) -> None:
    """A column without a value is NULL, as in every table; its file has the marks of all columns."""
    with table_with_variants(tmp_path) as session:
        session.sql("ALTER TABLE lake.db.t SET PROPERTIES write.update.mode = 'copy-on-write'")
        session.sql("INSERT INTO lake.db.t (id, v) VALUES (50, NULL), (51, NULL)")
        session.sql("UPDATE lake.db.t SET v = NULL WHERE id = 1")
        found = stored(session)
        assert found[50] == {"id": 50, "place": None, "globe": None, "v": None, "s": None}
        assert found[1]["v"] is None
        assert found[1]["s"] is not None
        assert session.sql("SELECT id FROM lake.db.t WHERE place IS NULL AND id > 40 ORDER BY id")[
            "id"
        ].to_pylist() == [
            50,
            51,
        ]


@pytest.mark.parametrize(
    "kind", ["files", "data_files", "delete_files", "entries", "all_files", "manifests", "partitions"]
)
def test_metadata_tables_have_no_metrics_of_variants(ms: Session, kind: str) -> None:
    """Other columns have theirs."""
    found = ms.sql(f'SELECT * FROM lake.db."t${kind}"')
    if "readable_metrics" in found.column_names:
        metrics: Any = found.schema.field("readable_metrics").type
        assert {field.name for field in metrics} == {"id", "place", "globe", "nothing", "s.a"}


def test_columns_are_counted_except_those(ms: Session) -> None:
    """All others by default; by name it is refused."""
    with pytest.raises(InvalidRequestError, match=f"column v cannot be counted: {REASON}"):
        ms.sql("CALL lake.system.compute_table_stats(schema => 'db', table_name => 't', columns => ARRAY['v'])")
    found = ms.sql("CALL lake.system.compute_table_stats('db', 't')").to_pylist()[0]["columns"]
    assert {each["column"]: each["ndv"] for each in found} == {"id": 10, "place": 6, "globe": 10}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lake.db.t WHERE id IN (1, 7)",
        "MERGE INTO lake.db.t AS t USING (VALUES (1), (7)) AS s(k) ON t.id = s.k WHEN MATCHED THEN DELETE",
    ],
)
def test_rows_are_deleted_beside_their_variants(tmp_path: Path, rows: pa.Table, statement: str) -> None:
    """Merge-on-read leaves the data files as they are; copy-on-write carries the other rows into new ones."""
    expected = [row for row in rows.to_pylist() if row["id"] not in (1, 7)]
    for mode in ("merge-on-read", "copy-on-write"):
        (tmp_path / mode).mkdir()
        with table_with_variants(tmp_path / mode) as session:
            data = session.sql('SELECT file_path FROM lake.db."t$data_files" ORDER BY ALL').to_pylist()
            before = stored(session)
            for kind in ("delete", "merge"):
                session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES write.{kind}.mode = '{mode}'")
            assert session.sql(statement).to_pylist()[0]["deleted"] == 2
            assert session.sql(OTHERS).to_pylist() == expected
            now = session.sql('SELECT file_path FROM lake.db."t$data_files" ORDER BY ALL').to_pylist()
            assert (now == data) == (mode == "merge-on-read")
            after = stored(session)
            assert {row["id"]: after[row["id"]] for row in expected} == {
                row["id"]: before[row["id"]] for row in expected
            }


def test_whole_files_are_deleted_by_metadata(tmp_path: Path, rows: pa.Table) -> None:
    """This writes no row, so no value is lost."""
    with table_with_variants(tmp_path) as session:
        assert session.sql("DELETE FROM lake.db.t WHERE id < 5").to_pylist()[0]["deleted"] == 5
        assert session.sql(OTHERS).to_pylist() == rows.slice(5).to_pylist()
        held = session.catalogs.open("lake").load_table("db.t").metadata_location
        types = {
            field["name"]: field["type"] for field in json.loads(Path(held[7:]).read_text())["schemas"][-1]["fields"]
        }
        assert (types["v"], types["place"], types["nothing"]) == ("variant", "geometry(srid:3857)", "unknown")


@pytest.mark.parametrize("field", ["v", "place", "globe", "nothing", "bucket(4, v)"])
def test_no_rows_are_partitioned_by_such_columns(ms: Session, field: str) -> None:
    """Iceberg forbids it for all four types."""
    with pytest.raises(InvalidRequestError, match=r"is no partition field: the column is of type"):
        ms.sql(f"ALTER TABLE lake.db.t ADD PARTITION FIELD {field}")


def test_what_a_writer_stored_for_an_unknown_column_is_ignored(tmp_path: Path) -> None:
    """It is NULL for every condition, as the specification says, even if a file has numbers there."""
    with table_with_variants(tmp_path, unknown="id2") as session:
        assert session.sql("SELECT id, id2 FROM lake.db.t WHERE id2 IS NULL ORDER BY id").to_pylist() == [
            {"id": each, "id2": None} for each in range(10)
        ]
        assert session.sql("SELECT id FROM lake.db.t WHERE id2 = 3").num_rows == 0
        session.analyze("p.db.t")
        assert session.sql("SELECT count(*) AS n FROM p.db.t WHERE id2 IS NULL").to_pylist() == [{"n": 10}]
        assert session.sql("SELECT count(id2) AS n FROM p.db.t").to_pylist() == [{"n": 0}]
        assert session.tables.scan("p.db.t", "id2 IS NULL").count() == 10
        assert session.tables.scan("p.db.t", "id2 IS NOT NULL").count() == 0


def test_columns_change_beside_geometries(tmp_path: Path) -> None:
    """The new schema spells the types as the specification does, whose other columns stay as they are."""
    with table_with_variants(tmp_path, nested=True) as session:
        session.sql("ALTER TABLE lake.db.t ADD COLUMN late BIGINT")
        session.sql("ALTER TABLE lake.db.t DROP COLUMN nothing")
        held = session.catalogs.open("lake").load_table("db.t").metadata_location
        fields = json.loads(Path(held[7:]).read_text())["schemas"][-1]["fields"]
        types = {field["name"]: field["type"] for field in fields}
        assert (types["place"], types["globe"]) == ("geometry(srid:3857)", "geography(OGC:CRS84, karney)")
        assert (types["v"], types["late"], types["lv"]["element"]) == ("variant", "long", "variant")
