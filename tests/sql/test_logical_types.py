"""A type that a file has and Arrow lacks keeps its meaning: in SQL, in conditions of scans, in DuckDB and in views.

The judge is DuckDB over the plain file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.odd_parquet import write_odd_parquet

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

WANTED = "61f0c404-5cb3-11e7-907b-a6006ad3dba0"
OTHER = "f0000000-0000-4000-8000-000000000000"

COLUMNS = {
    "u": f"CASE i WHEN 1 THEN '{WANTED}'::UUID WHEN 2 THEN '{OTHER}'::UUID END",
    "lu": f"[NULL, '{WANTED}'::UUID]",
    "su": f"CASE WHEN i < 2 THEN {{'u': '{WANTED}'::UUID, 'A b': i}} END",
    "mu": f"MAP {{'a': '{WANTED}'::UUID}}",
    "lsu": f"[{{'u': [MAP {{'k': '{WANTED}'::UUID}}]}}]",
    "j": """CASE i WHEN 1 THEN '{"a": 1}'::JSON END""",
    "lj": "['[]'::JSON]",
    "sj": "{'j': '{}'::JSON}",
    "iv": "INTERVAL '14 months 3 days 70005 ms' * i",
    "li": "[INTERVAL 2 DAY, NULL]",
    "ttz": "CASE i WHEN 1 THEN '08:30:00.5+00'::TIMETZ END",
    "tn": "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'",
    "ltn": "[TIMESTAMP_NS '2020-01-01 00:00:00.123456789']",
    "tz": "TIMESTAMPTZ '2020-01-01 00:00:00+00'",
    "ltz": "[TIMESTAMPTZ '2020-01-01 00:00:00+00']",
    "e": "'x'::ENUM ('x', 'y')",
    "t": "TIME '10:11:12.123456'",
    "u8": "18446744073709551615::UBIGINT",
}
SHAPE = "CASE i WHEN 1 THEN 'POINT (1 2)'::GEOMETRY END"


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with one table of all kinds, ``dfs.z.t``."""
    (tmp_path / "lake/t").mkdir(parents=True)
    items = ", ".join(f"{made} AS {name}" for name, made in {**COLUMNS, "g": SHAPE}.items())
    duckdb.sql(f"COPY (SELECT i AS id, {items} FROM range(3) r(i)) TO '{tmp_path}/lake/t/a.parquet'")
    base = "drill.metastore"
    found = connect(
        Settings.from_mapping(
            {
                f"{base}.iceberg.location.base_path": f"{tmp_path}/metastore",
                f"{base}.storage.dfs.workspaces.z": {"location": f"{tmp_path}/lake", "writable": True},
            }
        )
    )
    with found:
        found.analyze("dfs.z.t")
        yield found


def by_duckdb(file: Path, query: str) -> list[tuple[object, ...]]:
    """The rows of a query over the plain file, which it calls ``t``."""
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        return judge.sql(f"WITH t AS (FROM '{file}') {query}").fetchall()


def shown(names: list[str]) -> str:
    """A query for the types and the values of columns, as texts."""
    return "SELECT " + ", ".join(f"typeof({name}), CAST({name} AS VARCHAR)" for name in names) + " FROM t ORDER BY id"


def rows(ms: Session, query: str, table: str = "dfs.z.t") -> list[tuple[object, ...]]:
    """The rows of a query here."""
    found = ms.sql(query.replace("FROM t", f"FROM {table} AS t"))
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_types_and_values_in_sql(ms: Session, tmp_path: Path) -> None:
    """Each column has the type and the text that DuckDB finds in the plain file."""
    query = shown(list(COLUMNS))
    assert rows(ms, query) == by_duckdb(tmp_path / "lake/t/a.parquet", query)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_types_and_values_of_a_relation(ms: Session, tmp_path: Path, zone: str) -> None:
    """``to_duckdb()`` has them too, whatever the session's zone is, and so has the relation of some columns."""
    names = [name for name in COLUMNS if name not in ("tz", "ltz")]
    judge = by_duckdb(tmp_path / "lake/t/a.parquet", shown(names))
    t = ms.tables.scan("dfs.z.t", time_zone=zone).to_duckdb()
    found: Any = t.query("t", shown(names))
    assert found.fetchall() == judge
    assert ms.tables.scan("dfs.z.t", "id = 1", ["u"]).to_duckdb().fetchall() == [(UUID(WANTED),)]


CONDITIONS = [
    *(f"u {sign} '{WANTED}'" for sign in ("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM")),
    f"'{WANTED}' = u",
    f"u = '{WANTED.upper()}'",
    f"u IN ('{WANTED}', '{OTHER}')",
    f"u NOT IN ('{WANTED}')",
    f"u BETWEEN '{WANTED}' AND '{OTHER}'",
    f"NOT u = '{WANTED}'",
    f"u = '{OTHER}' OR id = 1",
    f"su.u = '{WANTED}'",
    "u IS NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_at_each_door(ms: Session, tmp_path: Path, condition: str) -> None:
    """SQL, scans and relations find the rows that DuckDB finds in the plain file."""
    judge = by_duckdb(tmp_path / "lake/t/a.parquet", f"SELECT id FROM t WHERE {condition} ORDER BY id")
    assert rows(ms, f"SELECT id FROM t WHERE {condition} ORDER BY id") == judge
    spark = condition.replace("IS NOT DISTINCT FROM", "<=>")
    ids = [one for (one,) in judge]
    assert ms.tables.scan("dfs.z.t", spark).to_arrow()["id"].to_pylist() == ids
    # A condition that Arrow has no words for is DuckDB's.
    by_sql = ms.tables.scan("dfs.z.t", f"({spark}) AND length(e) = 1 AND id % 7 = id")
    assert by_sql.to_arrow()["id"].to_pylist() == ids
    assert ms.tables.scan("dfs.z.t").to_duckdb().filter(condition).project("id").order("id").fetchall() == judge


@pytest.mark.parametrize(
    "condition",
    [
        "lu[2] = '{}'",
        "list_contains(lu, '{}')",
        "mu['a'] = '{}'",
        "iv = INTERVAL '14 months 3 days 70005 ms'",
        "iv = '14 months 3 days 70005 ms'",
        "iv > INTERVAL 1 DAY",
        "ttz = '08:30:00.5+00'",
        "ttz = '10:30:00.5+02'",
        "ttz = '08:30:00.5'",
        "g = 'POINT (1 2)'",
        "j->>'a' = '1'",
        """j = '{{"a": 1}}'""",
        "to_json({{'j': j}})::VARCHAR LIKE '%{{\"a\"%'",
    ],
)
def test_conditions_in_sql(ms: Session, tmp_path: Path, condition: str) -> None:
    """Beside other types, and inside lists and maps."""
    query = f"SELECT id FROM t WHERE {condition.format(WANTED)} ORDER BY id"
    assert rows(ms, query) == by_duckdb(tmp_path / "lake/t/a.parquet", query)


@pytest.mark.parametrize(
    "condition", ["u = 'abc'", "u IN ('{}', 'abc')", "NOT (u <> 'abc')", "u > 'abc'", "id = 1 OR u = 'abc'"]
)
def test_a_comparison_that_cannot_be_meant(ms: Session, condition: str) -> None:
    """It is refused with the column, its type and the literal, at each door."""
    condition = condition.format(WANTED)
    for ask in (
        lambda: ms.sql(f"SELECT id FROM dfs.z.t WHERE {condition}"),
        lambda: ms.tables.scan("dfs.z.t", condition),
        lambda: ms.prune("dfs.z.t", condition),
    ):
        with pytest.raises(InvalidRequestError, match="column u is of type UUID: no value of it is 'abc'"):
            ask()
    with pytest.raises(InvalidRequestError, match="column u is of type UUID: no value of it is b'61f0"):
        ms.prune("dfs.z.t", f"u = X'{WANTED.encode().hex()}'")


def test_bounds_of_uuids_skip_files(tmp_path: Path, ms: Session) -> None:
    """A text means its bytes, so a file whose bounds are apart is not read."""
    (tmp_path / "lake/files").mkdir()
    for name, value in (("a", WANTED), ("b", OTHER)):
        held = pa.array([UUID(value).bytes], pa.binary(16))
        pq.write_table(
            pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), held)}), tmp_path / f"lake/files/{name}.parquet"
        )
    ms.analyze("dfs.z.files")
    found = ms.prune("dfs.z.files", f"u = '{WANTED}'")
    assert [Path(path).name for path in found.paths] == ["a.parquet"]
    assert [Path(path).name for path in ms.prune("dfs.z.files", f"u > '{WANTED}'").paths] == ["b.parquet"]


def test_views_keep_the_type(ms: Session) -> None:
    """Views, and materialized views of columns, groups and lists."""
    ms.sql("CREATE VIEW dfs.z.v AS SELECT id, u FROM dfs.z.t")
    ms.sql("CREATE MATERIALIZED VIEW dfs.z.m AS SELECT id, u, lu FROM dfs.z.t")
    ms.sql("CREATE MATERIALIZED VIEW dfs.z.g AS SELECT u, count(*) AS n FROM dfs.z.t GROUP BY u")
    for name in ("m", "g"):
        ms.sql(f"REFRESH MATERIALIZED VIEW dfs.z.{name}")
    for name in ("v", "m", "g"):
        found = ms.sql(f"SELECT typeof(u) AS type, u FROM dfs.z.{name} WHERE u = '{WANTED}'")
        assert found.to_pylist() == [{"type": "UUID", "u": WANTED}]
    assert ms.sql(f"SELECT id FROM dfs.z.m WHERE lu[2] = '{WANTED}' ORDER BY id")["id"].to_pylist() == [0, 1, 2]


def test_uuids_of_avro(tmp_path: Path, ms: Session) -> None:
    """Both spellings of Avro are UUIDs: texts in any case, and sixteen bytes."""
    (tmp_path / "lake/avro").mkdir()
    kinds: dict[str, dict[str, Any]] = {"t": {"type": "string"}, "f": {"type": "fixed", "size": 16, "name": "sixteen"}}
    fields = [{"name": name, "type": {**kind, "logicalType": "uuid"}} for name, kind in kinds.items()]
    with (tmp_path / "lake/avro/a.avro").open("wb") as file:
        value = {"t": UUID(WANTED), "f": UUID(WANTED).bytes}
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [value])
    ms.analyze("dfs.z.avro")
    for name in kinds:
        for text in (WANTED, WANTED.upper()):
            assert ms.sql(f"SELECT typeof({name}) AS t FROM dfs.z.avro WHERE {name} = '{text}'").to_pylist() == [
                {"t": "UUID"}
            ]
            assert ms.tables.scan("dfs.z.avro", f"{name} = '{text}'").to_arrow().num_rows == 1
        with pytest.raises(InvalidRequestError, match=f"column {name} is of type UUID: no value of it is 'x'"):
            ms.sql(f"SELECT 1 FROM dfs.z.avro WHERE {name} = 'x'")


ODD = ["decimal_in_short_bytes", "enum", "half", "half_in_list", "interval", "newer_type", "null_of_bytes", "uuid"]


@pytest.mark.parametrize("kind", ODD)
def test_odd_types(tmp_path: Path, ms: Session, kind: str) -> None:
    """Columns that other writers annotate have DuckDB's types and values."""
    (tmp_path / f"lake/{kind}").mkdir()
    write_odd_parquet(tmp_path / f"lake/{kind}", [kind])
    ms.analyze(f"dfs.z.{kind}")
    query = "SELECT typeof(v), CAST(v AS VARCHAR) FROM t ORDER BY id"
    judge = by_duckdb(tmp_path / f"lake/{kind}/{kind}.parquet", query)
    assert rows(ms, query, f"dfs.z.{kind}") == judge


def test_geometries(tmp_path: Path, ms: Session) -> None:
    """GeoParquet's metadata says what is a geometry; only the coordinate system is not in the type."""
    query = "SELECT split_part(typeof(g), '(', 1), CAST(g AS VARCHAR) FROM t ORDER BY id"
    assert rows(ms, query) == by_duckdb(tmp_path / "lake/t/a.parquet", query)
