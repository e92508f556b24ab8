"""Default values that statements here set: Iceberg for Java gives them to old rows, and to rows that Spark inserts."""

from __future__ import annotations

from typing import Any

import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

COLUMNS = {
    "flag": ("BOOLEAN", "TRUE"),
    "small": ("INT", "-5"),
    "big": ("BIGINT", "9223372036854775807"),
    "half": ("REAL", "0.1"),
    "real": ("DOUBLE", "-1.5e300"),
    "exact": ("DECIMAL(38, 10)", "-0.0000000001"),
    "day": ("DATE", "DATE '0001-01-01'"),
    "moment": ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "instant": ("TIMESTAMPTZ", "'2020-01-02 03:04:05.000006+02:00'"),
    "text": ("VARCHAR", "'it''s ü\n'"),
    "bytes": ("VARBINARY", "X'00fF'"),
    "short": ("FIXED(2)", "X'0102'"),
    "uuid": ("UUID", "UUID '00000000-0000-0000-0000-00000000000A'"),
}
DEFINITIONS = ", ".join(f"{name} {kind} DEFAULT {value}" for name, (kind, value) in COLUMNS.items())


def test_every_type(session: Session, hive: HiveMaker, iceberg_java: IcebergJava) -> None:
    """Added to rows that are there, and in a new table; Java's rows are ours, old ones and those that it inserts."""
    created, altered = (f"lake.{hive.database}.{hive.new_name()}" for _ in range(2))

    def read_by_both(table: str) -> list[dict[str, Any]]:
        iceberg_java.run(f"REFRESH TABLE {table}")
        plain = ", ".join(["id", *(name for name in COLUMNS if name not in ("uuid", "bytes", "short"))])
        query = f"SELECT {plain}, hex(bytes) AS bytes, {{}} AS short, {{}} AS uuid FROM {table} ORDER BY id"
        theirs = iceberg_java.rows(query.format("hex(short)", "CAST(uuid AS STRING)")).to_pylist()
        ours = session.sql(query.format("hex(short)", "CAST(uuid AS VARCHAR)")).to_pylist()
        assert [list(map(str, row.values())) for row in theirs] == [list(map(str, row.values())) for row in ours]
        return ours

    session.sql(f"CREATE TABLE {created} (id BIGINT, {DEFINITIONS}) TBLPROPERTIES ('format-version' = '3')")
    session.sql(f"CREATE TABLE {altered} (id BIGINT)")
    session.sql(f"INSERT INTO {altered} VALUES (1), (2)")
    session.sql(
        f"ALTER TABLE {altered} SET PROPERTIES format_version = 3, ADD COLUMNS ({DEFINITIONS}), "
        "ADD COLUMN late INT NOT NULL DEFAULT 7"
    )
    for table in (created, altered):
        session.sql(f"INSERT INTO {table} (id) VALUES (3)")
        iceberg_java.run(f"REFRESH TABLE {table}")
        iceberg_java.run(f"INSERT INTO {table} (id) VALUES (4)")
        first, *others = [{**row, "id": None} for row in read_by_both(table)]
        assert None not in [value for name, value in first.items() if name != "id"]
        assert all(row == first for row in others)
    session.sql(
        f"ALTER TABLE {altered} ALTER COLUMN small SET DEFAULT 6, ALTER COLUMN text DROP DEFAULT, "
        "ALTER COLUMN late SET DEFAULT 9"
    )
    iceberg_java.run(f"REFRESH TABLE {altered}")
    iceberg_java.run(f"INSERT INTO {altered} (id, big) VALUES (5, DEFAULT)")
    session.sql(f"INSERT INTO {altered} (id, small) VALUES (6, DEFAULT)")
    rows = {row["id"]: row for row in read_by_both(altered)}
    late = f"SELECT late FROM {altered} ORDER BY id"
    assert iceberg_java.rows(late)["late"].to_pylist() == [7, 7, 7, 7, 9, 9]
    assert [(rows[each]["small"], rows[each]["text"]) for each in (1, 5, 6)] == [
        (-5, "it's ü\n"),
        (6, None),
        (6, None),
    ]
