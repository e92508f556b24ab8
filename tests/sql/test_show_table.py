"""SHOW CREATE TABLE, COLUMNS, STATS and PARTITIONS tell what is so; the text of a table makes one like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)
from support.delete_files import delete_where_equal

import metastore
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session
from metastore.sql.queries.column_types import column_type
from metastore.sql.statement import Cursor, Statement
from metastore.sql.tables.table_definition import type_text

RICH = """CREATE TABLE lake.db.t (id BIGINT NOT NULL COMMENT 'it''s',
  "a b" ARRAY<MAP<INTEGER, STRUCT<x: DECIMAL(9, 2)>>>,
  ts TIMESTAMP, o STRUCT<host: VARCHAR>, "order" TIMESTAMPTZ, f FIXED(3))
  PARTITIONED BY (day(ts), bucket(4, o.host), truncate(2, o.host), id)
  COMMENT 'what happened'
  TBLPROPERTIES ('format-version' = '{version}', 'write.parquet.compression-codec' = 'zstd', 'it''s' = '1')
  WITH (sorted_by = ARRAY['ts DESC', 'o.host NULLS LAST'])"""


@pytest.fixture
def session(bare: Session) -> Session:
    """With the schema ``lake.db``, which is empty."""
    bare.sql("CREATE SCHEMA lake.db")
    return bare


def loaded(session: Session, name: str) -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}")


def definition(session: Session, name: str) -> str:
    """The text of SHOW CREATE TABLE."""
    [row] = session.sql(f"SHOW CREATE TABLE lake.db.{name}").to_pylist()
    return str(row["CREATE_TABLE"])


def said(table: Table) -> list[Any]:
    """What a statement can say of a table."""
    order = [(each.source_id, each.transform, each.direction, each.null_order) for each in table.sort_order().fields]
    spec = [(each.source_id, each.transform, each.name) for each in table.spec().fields]
    return [table.schema(), spec, order, dict(table.properties), table.metadata.format_version]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_text_of_a_table_makes_one_like_it(session: Session, version: int) -> None:
    """Columns, partitioning, order, properties and version are the same; only name and place are others."""
    session.sql(RICH.format(version=version))
    text = definition(session, "t")
    place = loaded(session, "t").location()
    assert f"LOCATION '{place}'" in text
    assert "--" not in text
    session.sql(text.replace("lake.db.t", "lake.db.u").replace(place, f"{place}-u"))
    assert said(loaded(session, "u")) == said(loaded(session, "t"))
    assert definition(session, "u").replace("lake.db.u", "lake.db.t").replace(f"{place}-u", place) == text


def test_what_a_text_cannot_say_is_a_comment(session: Session) -> None:
    """With the statement for afterwards, where there is one; secrets are left out."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, k VARCHAR)")
    session.sql(
        "ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4, id) AS mine, SET IDENTIFIER FIELDS id, "
        "WRITE ORDERED BY bucket(4, id) DESC, SET PROPERTIES 'x.password' = 'Pl4nted'"
    )
    text = definition(session, "t")
    assert text.split("\n-- ")[1:] == [
        "then: ALTER TABLE lake.db.t WRITE ORDERED BY bucket(4, id) DESC NULLS LAST",
        "then: ALTER TABLE lake.db.t SET IDENTIFIER FIELDS id",
        "the partition field bucket(4, id) is called mine",
        "the property x.password holds a secret",
    ]
    assert "Pl4nted" not in text
    place = loaded(session, "t").location()
    session.sql(text.replace("lake.db.t", "lake.db.u").replace(place, f"{place}-u"))
    for note in text.split("\n-- then: ")[1:]:
        session.sql(note.split("\n")[0].replace("lake.db.t", "lake.db.u"))
    assert loaded(session, "u").schema() == loaded(session, "t").schema()
    assert loaded(session, "u").sort_order().fields == loaded(session, "t").sort_order().fields


PLAIN = [kind() for kind in PrimitiveType.__subclasses__() if kind.__name__ in {
    "BooleanType", "IntegerType", "LongType", "FloatType", "DoubleType", "DateType", "TimeType", "TimestampType",
    "TimestamptzType", "StringType", "BinaryType", "UUIDType",
}]  # fmt: skip
LEAVES = st.one_of(
    st.sampled_from(PLAIN),
    st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: DecimalType(digits, scale))),
    st.integers(1, 100).map(FixedType),
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)
TYPES: st.SearchStrategy[IcebergType] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda kind: ListType(-1, kind, element_required=False)),
        st.tuples(inner, inner).map(lambda kinds: MapType(-1, kinds[0], -1, kinds[1], value_required=False)),
        st.lists(st.tuples(NAMES, inner, st.booleans(), st.none() | NAMES), min_size=1, max_size=3).map(
            lambda fields: StructType(
                *(NestedField(-1, name, kind, required=required, doc=doc) for name, kind, required, doc in fields)
            )
        ),
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(TYPES)
def test_every_type_is_read_as_it_is_written(kind: IcebergType) -> None:
    """Names of fields and their comments may be any text; a field may be required."""
    assert column_type(Cursor(Statement.parse(type_text(kind)))) == kind


def test_columns_are_those_of_describe(session: Session) -> None:
    """LIKE chooses among them, of metadata tables and of INFORMATION_SCHEMA, too."""
    session.sql(RICH.format(version=2))
    every = session.sql("DESCRIBE lake.db.t")
    assert session.sql("SHOW COLUMNS FROM lake.db.t").equals(every)
    assert session.sql("SHOW COLUMNS IN lake.db.t LIKE 'o%'")["COLUMN_NAME"].to_pylist() == ["o", "order"]
    assert session.sql("SHOW COLUMNS FROM lake.db.\"t$files\" LIKE 'cont%'")["COLUMN_NAME"].to_pylist() == [
        "content",
        "content_offset",
        "content_size_in_bytes",
    ]
    assert session.sql("SHOW COLUMNS FROM information_schema.tables LIKE 'NUM%'").num_rows == 1
    with pytest.raises(NotFoundError, match="line 1, column 19"):
        session.sql("SHOW COLUMNS FROM lake.db.nothing")


def test_statistics_are_what_duckdb_counts(session: Session) -> None:
    """Fractions of NULL, bounds, and estimates of distinct values once they are computed; bounds of texts are cut."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT, k VARCHAR, n DECIMAL(9, 2), o STRUCT<f: INT>)")
    session.sql("INSERT INTO lake.db.t SELECT range, 'k', 1.5, {'f': 1} FROM range(4)")
    session.sql("INSERT INTO lake.db.t VALUES (NULL, 'k', NULL, NULL)")
    session.sql("INSERT INTO lake.db.t VALUES (-5, 'k', 2.5, {'f': 1})")
    session.call("lake.system.compute_table_stats", schema="db", table_name="t")
    found = session.sql("SHOW STATS FOR lake.db.t").to_pylist()
    counted = session.sql(
        "SELECT min(id)::VARCHAR low, max(id)::VARCHAR high, count(*) n, avg((id IS NULL)::INT) nulls, "
        "count(DISTINCT id) ids FROM lake.db.t"
    ).to_pylist()[0]
    names = ("low_value", "high_value", "nulls_fraction", "distinct_values_count")
    assert [found[0][name] for name in names] == [counted[each] for each in ("low", "high", "nulls", "ids")]
    assert [row["column_name"] for row in found] == ["id", "k", "n", "o.f", None]
    assert (found[1]["low_value"], found[1]["nulls_fraction"], found[1]["distinct_values_count"]) == (None, 0.0, 1)
    assert found[2]["high_value"] == "2.50"
    assert (found[2]["low_value"], found[2]["nulls_fraction"]) == ("1.50", 1 / 6)
    assert [row["row_count"] for row in found] == [None, None, None, None, counted["n"]]
    assert all(row["data_size"] > 0 for row in found[:-1])


def test_statistics_of_files_are_what_analyze_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside DuckDB over the files; what ANALYZE does not count is unknown, as all is of a view."""
    files = tmp_path / "t"
    for part in ("a", "b"):
        (files / f"part={part}").mkdir(parents=True)
        low, high = (-3, 2) if part == "a" else (2, 9)
        rows = {"id": [None, *range(low, high)], "name": [f"n{number % 3}" for number in range(low, high + 1)]}
        pq.write_table(pa.table(rows), files / f"part={part}" / "f.parquet")
    monkeypatch.chdir(tmp_path)
    with metastore.open("t") as session:
        session.analyze("t", statistics=True)
        *columns, last = session.sql("SHOW STATS FOR t").to_pylist()
        session.sql("CREATE VIEW dfs.my.v AS SELECT id FROM t")
        view = session.sql("SHOW STATS FOR v").to_pylist()
    counted = duckdb.connect()
    source = f"read_parquet('{files}/*/f.parquet', hive_partitioning = true)"
    for column in columns:
        name = column["column_name"]
        [expected] = counted.execute(
            f"SELECT min({name})::VARCHAR, max({name})::VARCHAR, avg(({name} IS NULL)::INT), "
            f"count(DISTINCT {name}) FROM {source}"
        ).fetchall()
        shown = tuple(column[each] for each in ("low_value", "high_value", "nulls_fraction", "distinct_values_count"))
        assert shown == (expected if name != "part" else (*expected[:3], None)), name
    assert [column["column_name"] for column in columns] == ["id", "name", "part"]
    assert (last["column_name"], last["row_count"]) == (None, 14)
    assert [{name for name, value in row.items() if value is not None} for row in view] == [{"column_name"}, set()]


def test_statistics_say_nothing_that_deletes_may_change(session: Session) -> None:
    """Counts are unknown beside delete files; a table without rows has none."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT)")
    assert session.sql("SHOW STATS FOR lake.db.t").to_pylist()[-1]["row_count"] == 0
    session.sql("INSERT INTO lake.db.t VALUES (1), (2)")
    delete_where_equal(loaded(session, "t"))
    first, last = session.sql("SHOW STATS FOR lake.db.t").to_pylist()
    assert (first["nulls_fraction"], last["row_count"]) == (None, None)
    assert (first["low_value"], first["high_value"]) == ("1", "2")


def test_partitions_are_named_by_spec(session: Session) -> None:
    """With counts of their data files; NULL and odd characters as in paths."""
    session.sql("CREATE TABLE lake.db.t (k VARCHAR, ts TIMESTAMP) PARTITIONED BY (k)")
    session.sql("INSERT INTO lake.db.t VALUES ('a/b', NULL), ('a/b', NULL), (NULL, NULL)")
    session.sql("ALTER TABLE lake.db.t SET PROPERTIES partitioning = ARRAY['day(ts)']")
    session.sql("INSERT INTO lake.db.t VALUES ('c', TIMESTAMP '2021-04-01 12:00:00')")
    found = [tuple(row.values()) for row in session.sql("SHOW PARTITIONS lake.db.t").to_pylist()]
    assert found == [("k=a%2Fb", 0, 2, 1), ("k=null", 0, 1, 1), ("ts_day=2021-04-01", 1, 1, 1)]
    session.sql("CREATE TABLE lake.db.plain (k VARCHAR)")
    with pytest.raises(InvalidRequestError, match="line 1, column 17: table lake.db.plain is not partitioned"):
        session.sql("SHOW PARTITIONS lake.db.plain")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SHOW CREATE TABLE dfs.tmp.t", "is no Iceberg table of a catalog .*; DESCRIBE shows"),
        ("SHOW PARTITIONS t", "INFORMATION_SCHEMA.PARTITIONS has"),
        ("SHOW STATS lake.db.t", "FOR is expected, not lake"),
        ("SHOW COLUMNS lake.db.t", "FROM is expected, not lake"),
        ("SHOW CREATE TABLE lake.db.t x", "the end of the statement is expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(session: Session, statement: str, message: str) -> None:
    """And with the next step for tables that are none of a catalog."""
    with pytest.raises(InvalidRequestError, match=f"line 1, column .*{message}"):
        session.sql(statement)


def test_components_are_shown_too(session: Session) -> None:
    """They are Iceberg tables."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT)")
    assert pa.types.is_string(session.sql("SHOW COLUMNS FROM metastore.components.tables").schema.field(0).type)
