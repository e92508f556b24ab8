"""SELECT: the answers of DuckDB over the same rows, whatever the table is; names, versions, errors and their places."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from support.delete_files import delete_where_equal
from support.sales_lake import Lake

from metastore.config import Settings
from metastore.errors import FormatError, InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.session import connect

TABLES = ("lake.default.sales", "dfs.shop.sales")

QUERIES = (
    "SELECT * FROM sales",
    "SELECT count(*), count(small), min(weight), max(name) FROM sales",
    "SELECT name, sum(price) AS total FROM sales GROUP BY ALL HAVING total > 1",
    "WITH a AS (SELECT id, weight w FROM sales), b AS (FROM a WHERE w > 1) SELECT a.id FROM a JOIN b USING (id)",
    "SELECT x.id, y.id FROM sales x LEFT JOIN sales y ON x.id = y.small WHERE y.id IS NULL",
    "SELECT x.id FROM sales x FULL JOIN sales y ON x.id = y.small WHERE x.id > 3",
    "SELECT x.id FROM sales x RIGHT JOIN sales y ON x.id = y.small WHERE y.id IN (1, 2, 3)",
    "SELECT x.id, y.id FROM sales x ASOF JOIN sales y ON x.id >= y.small WHERE y.price > 1",
    "SELECT id FROM sales WHERE weight > (SELECT avg(price) FROM sales WHERE price > 0.5)",
    "SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM sales WHERE sales.id = s.small AND sales.price > 1)",
    "SELECT id FROM sales WHERE name LIKE 'n%' UNION ALL SELECT small FROM sales WHERE small < 3",
    "FROM sales WHERE day BETWEEN '2024-02-01' AND DATE '2024-02-02'",
    "SELECT s FROM sales s WHERE id = 1",
    "SELECT COLUMNS('.*a.*') FROM sales",
    "SELECT * EXCLUDE (id) REPLACE (price * 2 AS price) FROM sales",
    "SELECT sales.id FROM sales POSITIONAL JOIN (SELECT 1 AS one) WHERE sales.id > 4",
    "SELECT id, row_number() OVER (ORDER BY id) FROM sales WHERE id > 4 QUALIFY row_number() OVER (ORDER BY id) < 3",
    "SELECT id FROM sales WHERE utc >= '2024-01-01 05:00:00+02' OR time < TIMESTAMP '2024-01-01 02:00:00'",
    "SELECT (SELECT max(id) FROM sales b WHERE b.id < a.id) FROM sales a WHERE NOT (a.paid = true)",
    "SELECT id AS small FROM sales WHERE small > 4",
    "PIVOT sales ON paid USING count(*) GROUP BY name",
    "SUMMARIZE sales",
    "SELECT id FROM sales, range(2) t(n) WHERE n = 1 AND id <> 3",
)


FAIL_IN_DUCKDB_1 = ("SUMMARIZE sales",)
"""Of a column with NaN."""


def answer(table: pa.Table) -> list[str]:
    """Rows in an order of their own, NaN like NaN, and zero like zero."""
    rows = ([each + 0.0 if isinstance(each, float) else each for each in row.values()] for row in table.to_pylist())
    return sorted(map(repr, rows))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_that_of_duckdb_over_the_rows(lake: Lake, query: str, name: str) -> None:
    """Columns too; what is pushed down to the table shows nowhere."""
    asked_for = re.sub(r"\b(FROM|JOIN|PIVOT|SUMMARIZE) sales", rf"\1 {name}", query)
    if query in FAIL_IN_DUCKDB_1 and duckdb.__version__.startswith("1."):
        with pytest.raises(InvalidRequestError):
            lake.session.sql(asked_for)
        return
    with lake.in_duckdb() as alone:
        expected = alone.sql(query).to_arrow_table()
    found = lake.session.sql(asked_for)
    assert found.column_names == expected.column_names
    if not query.startswith("SUMMARIZE"):  # estimates differ with the order of rows
        assert answer(found) == answer(expected)


def test_every_kind_of_name_has_rows(lake: Lake) -> None:
    """INFORMATION_SCHEMA, components, metadata tables, Iceberg tables, analyzed tables; in any case, in any quotes."""
    version = lake.session.tables.metadata.version
    counts = {
        "information_schema.files": 3,
        "INFORMATION_SCHEMA.ROW_GROUPS": 9,
        '"information_schema"."Files"': 3,
        "metastore.components.tables": None,
        'metastore.components."tables$snapshots"': 1,
        'LAKE.default."sales$snapshots"': 3,
        "`lake`.`default`.`sales$refs`": 1,
        "lake.default.sales": 18,
        "`dfs`.`shop`.`sales`": 18,
        f"metastore.components.tables FOR VERSION AS OF {version} AS t": None,
    }
    for name, count in counts.items():
        [row] = lake.session.sql(f"SELECT count(*) AS n FROM {name}").to_pylist()
        assert row["n"] == count if count is not None else row["n"] > 10


def test_names_in_full_may_stand_before_columns(lake: Lake) -> None:
    """As in standard SQL; and the table's own name, as everywhere."""
    query = "SELECT lake.default.sales.id, sales.name FROM lake.default.sales WHERE lake.default.sales.id = 3"
    assert lake.session.sql(query).to_pylist() == [{"id": 3, "name": None}]


def test_tables_of_all_kinds_meet_in_a_query(lake: Lake) -> None:
    """What the metastore knows beside the data itself."""
    query = """
        SELECT f.path, f.num_rows, count(*) AS found FROM information_schema.files f
        JOIN dfs.shop.sales s ON s.id // 6 = cast(regexp_extract(f.path, '(\\d+)\\.parquet', 1) AS int)
        JOIN lake.default.sales i USING (id)
        GROUP BY ALL
    """
    assert [row["found"] for row in lake.session.sql(query).to_pylist()] == [6, 6, 6]


def test_earlier_versions_are_read(lake: Lake) -> None:
    """By id, by time, by the name of a ref; several in one query."""
    session = lake.session
    table = session.catalogs.table("lake", "default", "sales").load()
    second = table.metadata.snapshots[1]
    after = datetime.fromtimestamp(second.timestamp_ms / 1000, timezone.utc).isoformat()
    query = f"""
        SELECT (SELECT count(*) FROM lake.default.sales FOR VERSION AS OF {lake.first}) AS first,
               (SELECT count(*) FROM lake.default.sales FOR TIMESTAMP AS OF TIMESTAMP '{after}') AS second,
               (SELECT count(*) FROM lake.default.sales VERSION AS OF 'main' x WHERE x.id >= 0) AS main,
               (SELECT count(*) FROM lake.default.sales) AS newest
    """
    assert session.sql(query).to_pylist() == [{"first": 6, "second": 12, "main": 18, "newest": 18}]
    version = session.tables.metadata.version
    counts = f"SELECT count(*) AS n FROM information_schema.files FOR VERSION AS OF {version}"
    assert session.sql(counts).to_pylist() == [{"n": 3}]


def test_one_statement_sees_one_version(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mention of an Iceberg table or of a component is of the same snapshot, whatever is committed meanwhile."""
    session, loaded = lake.session, []
    load = TargetTable.load

    def counted(self: TargetTable) -> Any:
        loaded.append(str(self))
        return load(self)

    monkeypatch.setattr(TargetTable, "load", counted)
    session.sql("SELECT count(*) FROM lake.default.sales a, lake.default.sales b, lake.default.sales c")
    assert len(loaded) <= 2
    plan = "SELECT count(*) AS n FROM metastore.components.tables a, metastore.components.tables b"
    [row] = session.sql(plan).to_pylist()
    assert row["n"] == session.sql("SELECT count(*) AS n FROM metastore.components.tables").to_pylist()[0]["n"] ** 2


def test_explain_says_what_is_fetched(lake: Lake) -> None:
    """Columns and conditions of each table, then DuckDB's plan; nothing is run."""
    plan = lake.session.sql(
        "EXPLAIN SELECT s.id FROM lake.default.sales s, dfs.shop.sales d "
        "WHERE s.weight > 2 AND s.name IN ('a', 'b') AND d.day IS NULL AND s.id = d.id"
    )
    lines = plan["plan"].to_pylist()
    where = "(weight > 2.0 OR weight IS NAN) AND name IN ('a', 'b') AND id IS NOT NULL"
    assert lines[:8] == [
        f"Fetch lake.default.sales (id, weight, name, day) where {where}",
        "  files: 3 of 3 read, 0 skipped",
        "  row groups: those of the files read are chosen by their own statistics when they are opened",
        "  note: not usable for pruning: s.id = d.id (columns are compared with each other)",
        "Fetch dfs.shop.sales (id, weight, name, day) where day IS NULL AND id IS NOT NULL",
        "  files: 3 of 3 read, 0 skipped",
        "  row groups: 3 of 9 read, 6 skipped",
        "  note: not usable for pruning: s.id = d.id (columns are compared with each other)",
    ]


def test_views_are_read_through(lake: Lake) -> None:
    """Views of views, in Spark's SQL, of tables that SELECT knows."""
    session = lake.session
    session.sql("CREATE VIEW dfs.shop.cheap AS SELECT id, price FROM dfs.shop.sales WHERE price < 1")
    session.sql("CREATE VIEW dfs.shop.cheaper AS SELECT id FROM dfs.shop.cheap WHERE price < 0.5")
    assert answer(session.sql("SELECT cheaper.id FROM dfs.shop.cheaper")) == ["[0]", "[1]"]
    assert session.sql("SELECT view_definition FROM information_schema.views").num_rows == 2


def test_column_types_come_through(lake: Lake) -> None:
    """The types of the Iceberg table, as Arrow has them."""
    found = lake.session.sql("SELECT * FROM lake.default.sales").schema
    assert found == lake.data.schema


ERRORS = {
    "SELECT nope\nFROM lake.default.sales": (
        InvalidRequestError,
        "line 1, column 8: there is no column nope; there are id, small, price",
    ),
    "SELECT id FROM lake.default.sales\nWHERE  nope = 1": (InvalidRequestError, "line 2, column 8: "),
    "SELECT id,\n FROM x y z": (InvalidRequestError, "line 2, column 11: syntax error"),
    "SELECT *\n  FROM lake.default.salez": (NotFoundError, "line 2, column 8: .*did you mean sales"),
    "SELECT * FROM lak.default.sales": (
        NotFoundError,
        "line 1, column 15: there is no catalog or plugin lak; did you mean lake",
    ),
    "SELECT * FROM dfs.shop.salez": (NotFoundError, "line 1, column 15: .* did you mean dfs.shop.sales"),
    "SELECT * FROM salez": (NotFoundError, "line 1, column 15: unknown table salez; did you mean dfs.shop.sales"),
    "SELECT * FROM information_schema.tabels": (NotFoundError, "line 1, column 15: .* its tables are SCHEMATA"),
    "SELECT * FROM lake.default.sales FOR VERSION AS OF 7": (NotFoundError, "column 15: .*no snapshot 7"),
    "SELECT * FROM dfs.shop.sales FOR VERSION AS OF 7": (
        InvalidRequestError,
        "column 15: .* no earlier versions",
    ),
    "SELECT * FROM lake.default.sales\nFOR TIMESTAMP AS OF 'soon'": (InvalidRequestError, "line 2, column 21: "),
    "SELECT * FROM range(3) FOR VERSION AS OF 7": (InvalidRequestError, "column 42: only tables have versions"),
    "SELECT 1; SELECT 2": (InvalidRequestError, "line 1, column 9: one statement at a time"),
    "SELECT id + name FROM lake.default.sales": (InvalidRequestError, "line 1, column "),
    "SELECT 'a": (InvalidRequestError, "line 1, column "),
    "SELECT " + "id, " * 60 + "nope FROM lake.default.sales": (
        InvalidRequestError,
        "line 1, column 248: there is no column nope",
    ),
}


@pytest.mark.parametrize("query", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_where(lake: Lake, query: str) -> None:
    """Line and column in the text as it was given, also where names of tables are longer or shorter in DuckDB."""
    kind, said = ERRORS[query]
    with pytest.raises(kind, match=said) as caught:
        lake.session.sql(query)
    assert isinstance(caught.value, MetastoreError)


def test_an_error_while_reading_is_the_reads_own(lake: Lake) -> None:
    """Not DuckDB's: a file of the metastore that is gone is a StorageError."""
    session = lake.session
    session.sql("CREATE VIEW dfs.shop.broken AS SELECT id FROM dfs.shop.sales")
    (lake.folder / "data" / "sales" / "2.parquet").rename(lake.folder / "away.parquet")
    try:
        assert session.sql("SELECT count(*) AS n FROM dfs.shop.sales").to_pylist() == [{"n": 12}]
        (lake.folder / "data" / "sales" / "2.parquet").write_bytes(b"no Parquet")
        with pytest.raises(MetastoreError) as caught:
            session.sql("SELECT sum(id) FROM dfs.shop.sales")
        assert "2.parquet" in str(caught.value)
        assert type(caught.value).__name__ == "FormatError"
    finally:
        (lake.folder / "away.parquet").replace(lake.folder / "data" / "sales" / "2.parquet")


def test_levels_of_directories_are_there_for_who_names_them(tmp_path: Path) -> None:
    """``dir0`` chooses files, and groups; a level that is not there is no column."""
    given = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path),
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path / "data"),
    }
    for number, folder in enumerate(("eu/a", "eu/b", "us/a")):
        (tmp_path / "data" / "t" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"n": [number]}), tmp_path / "data" / "t" / folder / "0.parquet")
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.analyze("dfs.tmp.t", columns=["n"])
        asked = session.sql("SELECT n, dir1 FROM dfs.tmp.t WHERE dir0 = 'eu' ORDER BY n").to_pylist()
        assert asked == [{"n": 0, "dir1": "a"}, {"n": 1, "dir1": "b"}]
        grouped = session.sql("SELECT DIR0 AS d, count(*) AS c FROM dfs.tmp.t GROUP BY ALL ORDER BY d").to_pylist()
        assert grouped == [{"d": "eu", "c": 2}, {"d": "us", "c": 1}]
        (tmp_path / "data" / "t" / "us" / "a" / "0.parquet").write_bytes(b"no Parquet")
        assert session.sql("SELECT sum(n) AS s FROM dfs.tmp.t WHERE dir0 = 'eu'").to_pylist() == [{"s": 1}]
        with pytest.raises(InvalidRequestError, match="dir2"):
            session.sql("SELECT dir2 FROM dfs.tmp.t")


def lake_of(tmp_path: Path) -> Settings:
    """A catalog ``lake`` and a workspace ``dfs.tmp``, both empty."""
    (tmp_path / "data" / "t").mkdir(parents=True)
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path),
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path / "data"),
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
        },
    }
    return Settings.from_mapping(given, environ={})


def avro_file(table: Table) -> DataFile:
    """An entry of an Avro file, which need not exist, for nobody here reads it."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/a.avro",
        file_format=FileFormat.AVRO,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=100,
    )
    file.spec_id = 0
    return file


def test_an_iceberg_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Not as a mistake in the query: what is wrong with it, and where."""
    with connect(lake_of(tmp_path)) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        for number, name in enumerate(("deleted", "gone", "damaged", "avro")):
            catalog.create_table(f"default.{name}", pa.schema([("n", pa.int64())])).append(pa.table({"n": [number]}))
        delete_where_equal(catalog.load_table("default.deleted"))
        [gone] = (tmp_path / "warehouse/default/gone/data").glob("*.parquet")
        gone.unlink()
        for manifest in (tmp_path / "warehouse/default/damaged/metadata").glob("*-m0.avro"):
            manifest.write_bytes(b"garbage")
        of_avro = catalog.load_table("default.avro")
        with of_avro.transaction() as change, change.update_snapshot().fast_append() as append:
            append.append_data_file(avro_file(of_avro))
        for name, kind, said in (
            ("deleted", StorageError, r"^cannot read file://.*-equality\.parquet: "),
            ("gone", StorageError, f"^cannot read file://{gone}: "),
            ("damaged", FormatError, "the files of lake.default.damaged cannot be read"),
            ("avro", StorageError, r"cannot read .*/avro/data/a\.avro"),
        ):
            with pytest.raises(kind, match=said) as raised:
                session.sql(f"SELECT * FROM lake.default.{name}")
            assert "Traceback" not in str(raised.value)


def test_what_a_store_says_of_itself_is_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of this package has a type that says what to do."""

    def away(*_: object) -> None:
        raise StorageError("the store is away")

    with connect(lake_of(tmp_path)) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        catalog.create_table("default.t", pa.schema([("n", pa.int64())]))
        monkeypatch.setattr("metastore.sql.queries.catalog_rows.scan_tasks", away)
        with pytest.raises(StorageError, match="^the store is away$"):
            session.sql("SELECT * FROM lake.default.t")


@pytest.mark.parametrize("condition", ["l IS NULL", "m IS NULL", "l IS NULL AND m IS NULL AND id > 0"])
@pytest.mark.parametrize("columns", ["id", "*"])
def test_lists_and_maps_of_catalogs_tables_are_told_from_null(tmp_path: Path, condition: str, columns: str) -> None:
    """PyIceberg refuses to read columns by a condition that names a list or a map, so it is given none."""
    map_type = pa.map_(pa.string(), pa.int32())
    data = pa.table({"id": [1, 2], "l": [[1], None], "m": pa.array([[], None], map_type)})
    with connect(lake_of(tmp_path)) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        catalog.create_table("default.t", data.schema).append(data)
        [row] = session.sql(f"SELECT {columns} FROM lake.default.t WHERE {condition}").to_pylist()
        assert row["id"] == 2
        [row] = session.sql(f"SELECT {columns} FROM lake.default.t WHERE NOT ({condition})").to_pylist()
        assert row["id"] == 1


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    """DuckDB has none, and so no count of its rows."""
    with connect(lake_of(tmp_path)) as session:
        session.analyze("dfs.tmp.t")
        with pytest.raises(InvalidRequestError, match=r"line 1, column 22: dfs.tmp.t has no columns"):
            session.sql("SELECT count(*) FROM dfs.tmp.t")


def test_columns_that_differ_in_case_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """DuckDB would take the first for the second; a star has both, and other columns are read as ever."""
    rows = {"a": [1], "A": [2], "b": [3]}
    with connect(lake_of(tmp_path)) as session:
        pq.write_table(pa.table(rows), tmp_path / "data" / "t" / "0.parquet")
        session.analyze("dfs.tmp.t")
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        table = catalog.create_table("default.t", pa.table(rows).schema)
        table.append(pa.table(rows))
        for name in ("dfs.tmp.t", "lake.default.t"):
            for query in ('SELECT "A" FROM {}', "SELECT b FROM {} WHERE A = 2", "SELECT x.a FROM {} x"):
                with pytest.raises(InvalidRequestError, match=f"{name} has the columns a and A, which differ in case"):
                    session.sql(query.format(name))
            assert session.sql(f"SELECT b FROM {name}").to_pylist() == [{"b": 3}]
            assert [list(row.values()) for row in session.sql(f"SELECT * FROM {name}").to_pylist()] == [[1, 2, 3]]
        for query in ("A", "a", "*", "b, count(a) AS n"):
            with pytest.raises(InvalidRequestError, match=r"dfs.tmp.t has the columns a and A, which differ in case"):
                session.sql(f"CREATE VIEW dfs.tmp.v AS SELECT {query} FROM t")
        session.sql("CREATE VIEW dfs.tmp.v AS SELECT b FROM t")
        assert session.sql("SELECT * FROM dfs.tmp.v").to_pylist() == [{"b": 3}]
