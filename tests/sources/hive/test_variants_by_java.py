"""Tables with variants and unknown columns that Iceberg for Java wrote: both read the same, before and after changes.

They lie in a folder: Java cannot put a table with such a column into Hive's metastore.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from services.iceberg_java import IcebergJava

from metastore.config.settings import Settings
from metastore.session import Session, connect

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]


def _value(text: str | None) -> Any:
    """The value of a text in JSON, whose decimals may have more zeros at the end in one engine than in the other."""
    return None if text is None else json.loads(text, parse_float=Decimal)


@pytest.fixture
def folder(tmp_path: Path, iceberg_java: IcebergJava, request: pytest.FixtureRequest) -> Iterator[tuple[Session, str]]:
    """A session over a catalog that both have, and its name."""
    name = f"folder{len(request.node.name)}"
    wanted = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"file://{tmp_path}/wh"}
    for key, value in wanted.items():
        iceberg_java.run(f"SET spark.sql.catalog.{name}{key}={value}")
    settings = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path / "m"),
        f"drill.metastore.catalogs.{name}": {"type": "filesystem", "warehouse": f"{tmp_path}/wh"},
    }
    with connect(Settings.from_mapping(settings, environ={})) as session:
        yield session, name


def test_other_columns_of_a_table_with_variants(folder: tuple[Session, str], iceberg_java: IcebergJava) -> None:
    """Rows, counts, conditions and deletes are equal to Java's; maintenance leaves every variant as it was."""
    session, catalog = folder
    full = f"{catalog}.db.t"
    iceberg_java.run(
        f"CREATE TABLE {full} (id BIGINT, v VARIANT, k STRING, s STRUCT<a: INT, v: VARIANT>, l ARRAY<VARIANT>) "
        f"USING iceberg TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', "
        # Java's vectorized reader fails for lists of variants, whoever wrote them.
        f"'read.parquet.vectorization.enabled'='false')"
    )
    for first in (0, 100):
        iceberg_java.run(
            f"INSERT INTO {full} SELECT id, parse_json(concat('{{\"n\": ', id, '}}')), concat('k', id % 7), "
            f"named_struct('a', CAST(id AS INT), 'v', parse_json('[1]')), array(parse_json(CAST(id AS STRING)), NULL) "
            f"FROM range({first}, {first} + 100)"
        )
    iceberg_java.run(f"DELETE FROM {full} WHERE id % 10 = 3")

    def theirs(columns: str, where: str = "TRUE") -> list[dict[str, Any]]:
        iceberg_java.run(f"REFRESH TABLE {full}")
        return iceberg_java.rows(f"SELECT {columns} FROM {full} WHERE {where} ORDER BY id").to_pylist()

    variants = theirs("id, to_json(v) AS v, to_json(s.v) AS inner, to_json(l) AS l")
    assert len(variants) == 180
    assert session.sql(f"SELECT id, k FROM {full} ORDER BY id").to_pylist() == theirs("id, k")
    ours = session.sql(f"SELECT id, v, s.v AS inner, to_json(l) AS l FROM {full} ORDER BY id").to_pylist()
    assert ours == variants
    where = "id > 150 AND k <> 'k1'"
    assert session.sql(f"SELECT id FROM {full} WHERE {where} ORDER BY id").to_pylist() == theirs("id", where)
    assert session.sql(f"SELECT count(*) AS n FROM {full}").to_pylist() == [{"n": 180}]
    session.sql(f"DELETE FROM {full} WHERE id = 1")  # writes a vector, and no row
    variants = [row for row in variants if row["id"] != 1]
    assert theirs("id, to_json(v) AS v, to_json(s.v) AS inner, to_json(l) AS l") == variants

    def call(procedure: str, **arguments: Any) -> None:
        session.call(f"{catalog}.system.{procedure}", schema="db", table_name="t", **arguments)

    call("compute_table_stats")
    call("rewrite_manifests")
    call("rewrite_position_delete_files", options={"rewrite-all": "true"})
    call("expire_snapshots", older_than=datetime.now(timezone.utc) + timedelta(minutes=1))
    call("remove_orphan_files")
    session.sql(f"ALTER TABLE {full} ADD COLUMN late BIGINT")
    assert theirs("id, to_json(v) AS v, to_json(s.v) AS inner, to_json(l) AS l") == variants
    lineage = theirs("id, _row_id, _last_updated_sequence_number")
    call("rewrite_data_files", options={"rewrite-all": "true"})
    assert theirs("id, to_json(v) AS v, to_json(s.v) AS inner, to_json(l) AS l") == variants
    assert iceberg_java.rows(f"SELECT count(*) AS n FROM {full}.files WHERE content = 0").to_pylist() == [{"n": 1}]
    assert theirs("id, _row_id, _last_updated_sequence_number") == lineage
    iceberg_java.run(f"INSERT INTO {full} SELECT 1000, parse_json('2'), 'k', NULL, NULL, 5")
    assert session.sql(f"SELECT late, v FROM {full} WHERE id = 1000").to_pylist() == [{"late": 5, "v": "2"}]


def test_shredded_variants_are_carried(folder: tuple[Session, str], iceberg_java: IcebergJava) -> None:
    """Java shreds each file by its own values; statements and a rewrite leave every value as Java reads it."""
    session, catalog = folder
    full = f"{catalog}.db.t"
    iceberg_java.run(
        f"CREATE TABLE {full} (id BIGINT, v VARIANT, k STRING) USING iceberg TBLPROPERTIES ('format-version'='3', "
        "'write.parquet.shred-variants'='true', 'write.update.mode'='copy-on-write')"
    )
    shapes = (
        """concat('{"a": ', id, ', "b": [1, ', id, ', "x"], "c": {"d": ', id / 4, '}}')""",
        """if(id % 7 = 0, NULL, if(id % 5 = 0, '"text"', concat('{"a": "', id, '", "z": null}')))""",
        "concat('[', id, ', ', id / 3, ', 12345678901234567890.5]')",
    )
    for number, shape in enumerate(shapes):
        iceberg_java.run(
            f"INSERT INTO {full} SELECT id, parse_json({shape}), concat('k', id % 7) FROM range({number}00, {number}50)"
        )
    columns = "id, to_json(v) AS v, schema_of_variant(v) AS kind"
    files = session.sql(f'SELECT file_path FROM {catalog}.db."t$data_files"').to_pylist()
    schemas = [str(pq.ParquetFile(row["file_path"].removeprefix("file:")).schema) for row in files]
    assert sum("typed_value" in schema for schema in schemas) >= 2

    def theirs() -> list[dict[str, Any]]:
        iceberg_java.run(f"REFRESH TABLE {full}")
        return iceberg_java.rows(f"SELECT {columns} FROM {full} ORDER BY id").to_pylist()

    before = theirs()
    assert len(before) == 150
    ours = session.sql(f"SELECT id, v FROM {full} ORDER BY id").to_pylist()
    assert [_value(row["v"]) for row in ours] == [_value(row["v"]) for row in before]
    session.sql(f"INSERT INTO {full} SELECT id + 1000, v, k FROM {full}")
    assert [_value(row["v"]) for row in theirs()[150:]] == [_value(row["v"]) for row in before]
    session.sql(f"DELETE FROM {full} WHERE id >= 1000")
    assert session.sql(f"UPDATE {full} SET k = 'new' WHERE id % 50 = 3").to_pylist()[0]["updated"] == 3
    assert theirs() == before
    session.call(f"{catalog}.system.rewrite_data_files", schema="db", table_name="t", options={"rewrite-all": "true"})
    assert theirs() == before
    assert iceberg_java.rows(f"SELECT count(*) AS n FROM {full}.data_files").to_pylist() == [{"n": 1}]


def test_a_column_of_unknown_type_is_null_after_every_change(
    folder: tuple[Session, str], iceberg_java: IcebergJava
) -> None:
    """Java reads files that were rewritten, updated and added here: it refuses those that store the column."""
    session, catalog = folder
    full = f"{catalog}.db.t"
    iceberg_java.run(
        f"CREATE TABLE {full} (id BIGINT, e VOID, k STRING) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    for first in (0, 10):
        iceberg_java.run(f"INSERT INTO {full} SELECT id, NULL, 'k' FROM range({first}, {first} + 10)")
    query = f"SELECT id, k, e IS NULL AS gone FROM {full} ORDER BY id"
    before = iceberg_java.rows(query).to_pylist()
    assert session.sql(query).to_pylist() == before
    session.call(f"{catalog}.system.rewrite_data_files", schema="db", table_name="t", options={"rewrite-all": "true"})
    iceberg_java.run(f"REFRESH TABLE {full}")
    assert iceberg_java.rows(query).to_pylist() == before
    session.sql(f"UPDATE {full} SET k = 'l' WHERE id = 3")
    session.sql(f"INSERT INTO {full} VALUES (20, NULL, 'k')")
    iceberg_java.run(f"REFRESH TABLE {full}")
    found = iceberg_java.rows(query).to_pylist()
    assert found == [{"id": each, "k": "l" if each == 3 else "k", "gone": True} for each in range(21)]
    assert session.sql(query).to_pylist() == found
