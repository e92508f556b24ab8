"""SQL reads and writes variants of a catalog's tables; DuckDB's own reader of the data files has the same values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.variant_lake import table_with_variants

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

ROWS = """INSERT INTO lake.db.v VALUES
    (1, parse_json('{"a": {"b": [10, 20]}, "two words": "x", "n": 5}')),
    (2, CAST(7 AS VARIANT)), (3, NULL), (4, [1.5, 2.25]::VARIANT)"""


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """An empty table ``lake.db.v`` with a number and a variant."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    base = {"drill.metastore.iceberg.location.base_path": str(tmp_path / "m")}
    with connect(Settings.from_mapping({**base, "drill.metastore.catalogs.lake": lake}, environ={})) as session:
        session.sql("CREATE SCHEMA lake.db")
        session.sql("CREATE TABLE lake.db.v (id INT, v VARIANT) WITH (format_version = 3)")
        yield session


def stored(session: Session, name: str = "v") -> dict[int, Any]:
    """The live rows as DuckDB reads the data files: the variant of each number, as JSON."""
    found = session.sql(f'SELECT file_path FROM lake.db."{name}$data_files"')["file_path"].to_pylist()
    paths = ", ".join(f"'{str(path).removeprefix('file://')}'" for path in found)
    with duckdb.connect() as database:
        rows = database.sql(f"SELECT id, CAST(v AS JSON) FROM read_parquet([{paths}])").fetchall()
    return {number: None if text is None else json.loads(text) for number, text in rows}


def read(session: Session, name: str = "v") -> dict[int, Any]:
    """The rows as SQL returns them: the text in JSON of each variant."""
    rows = session.sql(f"SELECT id, v FROM lake.db.{name}").to_pylist()
    return {row["id"]: None if row["v"] is None else json.loads(row["v"]) for row in rows}


def test_rows_are_written_and_read(ms: Session) -> None:
    """Objects, numbers, lists and NULL; the file says that the column is a variant."""
    assert ms.sql(ROWS).to_pylist()[0]["inserted"] == 4
    expected = {1: {"a": {"b": [10, 20]}, "two words": "x", "n": 5}, 2: 7, 3: None, 4: [1.5, 2.25]}
    assert read(ms) == expected
    assert stored(ms) == expected


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_change(ms: Session, mode: str) -> None:
    """By UPDATE, DELETE and MERGE, in both modes; a condition may look into the variant."""
    for kind in ("update", "merge", "delete"):
        ms.sql(f"ALTER TABLE lake.db.v SET PROPERTIES write.{kind}.mode = '{mode}'")
    ms.sql(ROWS)
    assert ms.sql("UPDATE lake.db.v SET v = CAST({'n': id} AS VARIANT) WHERE v:n::INT = 5")[1].to_pylist() == [1]
    ms.sql("DELETE FROM lake.db.v WHERE v IS NULL")
    ms.sql(
        "MERGE INTO lake.db.v t USING (SELECT 2 AS id, parse_json('[1]') AS v UNION ALL SELECT 9, 'x'::VARIANT) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert read(ms) == {1: {"n": 1}, 2: [1], 4: [1.5, 2.25], 9: "x"}
    ms.sql("CALL lake.system.rewrite_data_files(table => 'db.v', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))")
    assert stored(ms) == read(ms) == {1: {"n": 1}, 2: [1], 4: [1.5, 2.25], 9: "x"}


def test_a_table_is_created_by_a_query(ms: Session) -> None:
    """With the query's variants; format version 2 has none, and a variant within a struct is refused."""
    ms.sql(ROWS)
    ms.sql("CREATE TABLE lake.db.copy WITH (format_version = 3) AS SELECT id, v FROM lake.db.v")
    assert stored(ms, "copy") == read(ms, "copy") == read(ms)
    [row] = ms.sql("SHOW CREATE TABLE lake.db.copy").to_pylist()
    assert "v VARIANT" in row["CREATE_TABLE"]
    with pytest.raises(InvalidRequestError, match="variant is only supported in 3 or higher"):
        ms.sql("CREATE TABLE lake.db.old AS SELECT v FROM lake.db.v")
    with pytest.raises(InvalidRequestError, match="column s has a variant inside"):
        ms.sql("CREATE TABLE lake.db.old WITH (format_version = 3) AS SELECT {'v': v} AS s FROM lake.db.v")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT v:n::INT, v:a.b[1]::INT FROM lake.db.v WHERE id = 1", (5, 20)),
        ("SELECT t.v:['two words']::STRING FROM lake.db.v AS t WHERE t.v:a['b'][0]::INT = 10", ("x",)),
        ("SELECT variant_get(v, '$.a.b[0]', 'int'), variant_get(v, '$.n') FROM lake.db.v WHERE id = 1", (10, "5")),
        ("SELECT try_variant_get(v, '$[\"two words\"]', 'int') FROM lake.db.v WHERE id = 1", (None,)),
        ("SELECT v:n::INT, count(*) FROM lake.db.v WHERE id < 3 GROUP BY v:n::INT ORDER BY v:n::INT", (5, 1)),
        (
            "SELECT variant_typeof(v), v.n::INT, v['n']::INT FROM lake.db.v WHERE id = 1",
            ("OBJECT(a, n, two words)", 5, 5),
        ),
        ("SELECT sum(TRY_CAST(v AS INT)) FROM lake.db.v", (7,)),
        (
            "SELECT a.id, a.v.n, b.id, b.v FROM lake.db.v a JOIN lake.db.v b ON a.id = b.id - 1 WHERE a.id = 1",
            (1, "5", 2, "7"),
        ),
        ("SELECT try_parse_json('no'), parse_json('[1]')", (None, "[1]")),
        # DuckDB's own uses of a colon.
        ("SELECT n: id, m: 1 + 1 FROM lake.db.v ORDER BY n", (1, 2)),
        ("SELECT {'a': id, 'b':id}.b, [1, 2, 3][1:2] FROM x:(SELECT 4 AS id)", (4, [1, 2])),
    ],
)
def test_parts_of_variants(ms: Session, query: str, expected: tuple[Any, ...]) -> None:
    """As Spark, Databricks and DuckDB write them."""
    ms.sql(ROWS)
    assert tuple(column[0].as_py() for column in ms.sql(query).columns) == expected


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO lake.db.v VALUES (9, 'text')", r"v is variant, and the query gives string; write the conversion"),
        ("INSERT INTO lake.db.v VALUES (9, {'metadata': 'a'::BLOB, 'value': 'b'::BLOB})", "the query gives struct<"),
        ("SELECT variant_get(v, 'n', 'int') FROM lake.db.v", "column 23: 'n' is no path into a variant"),
        ("SELECT v:a[9] FROM lake.db.v", r"column 9: write .a\[10\] instead of :a\[9\] here"),
        ("CREATE TABLE lake.db.w (v VARIANT)", "variant needs format version 3"),
    ],
)
def test_what_is_refused(ms: Session, statement: str, message: str) -> None:
    """With its place, and nothing is written."""
    with pytest.raises(InvalidRequestError, match=message):
        ms.sql(statement)
    assert ms.sql("SELECT count(*) AS n FROM lake.db.v").to_pylist() == [{"n": 0}]


def test_no_condition_on_a_variant_skips_a_file(ms: Session) -> None:
    """The file has no bounds of it; one on another column still does."""
    ms.sql(ROWS)
    ms.sql("INSERT INTO lake.db.v VALUES (100, parse_json('{\"n\": 6}'))")
    plan = str(ms.sql("EXPLAIN SELECT id FROM lake.db.v WHERE v:n::INT = 6")["plan"].to_pylist())
    assert "files: 2 of 2 read" in plan
    plan = str(ms.sql("EXPLAIN SELECT id FROM lake.db.v WHERE v:n::INT = 6 AND id > 50")["plan"].to_pylist())
    assert "files: 1 of 2 read" in plan


def test_variants_inside_of_structs_lists_and_maps_are_read(tmp_path: Path) -> None:
    """A column with one is returned as JSON as a whole; DuckDB's functions look inside."""
    with table_with_variants(tmp_path, nested=True) as session:
        rows = session.sql("SELECT id, v, s, lv, mv FROM lake.db.t ORDER BY id").to_pylist()
        assert [row["v"] for row in rows] == [str(number) for number in range(10)]
        assert [json.loads(row["s"]) for row in rows] == [{"a": number, "v": number} for number in range(10)]
        assert [json.loads(row["lv"]) for row in rows] == [[number] for number in range(10)]
        assert [json.loads(row["mv"]) for row in rows] == [{"a": number} for number in range(10)]
        found = session.sql("SELECT id FROM lake.db.t WHERE s.v::INT + lv[1]::INT + mv['a']::INT = 9")
        assert found["id"].to_pylist() == [3]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_values_of_any_shape_are_equal(ms: Session, values: list[Any]) -> None:
    """What is inserted is what both readers return."""
    ms.sql("DELETE FROM lake.db.v")
    texts = (json.dumps(value).replace("'", "''") for value in values)
    rows = ", ".join(f"({number}, parse_json('{text}'))" for number, text in enumerate(texts))
    ms.sql(f"INSERT INTO lake.db.v VALUES {rows}")
    assert read(ms) == stored(ms) == dict(enumerate(values))
