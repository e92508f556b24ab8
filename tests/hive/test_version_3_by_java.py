"""Tables of version 3 that Iceberg for Java made keep rows, ids of rows and deletes through changes made here."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]


def test_metadata_that_was_changed_here(session: Session, hive: HiveMaker, iceberg_java: IcebergJava) -> None:
    """Java reads what it read before, also at tags, and goes on to write; deletion vectors are read here."""
    name = f"{hive.database}.{hive.new_name()}"
    full, table = f"lake.{name}", name.split(".")[1]
    iceberg_java.run(
        f"CREATE TABLE {full} (id BIGINT, k STRING) USING iceberg TBLPROPERTIES "
        "('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    iceberg_java.run(f"INSERT INTO {full} SELECT id, 'a' FROM range(0, 100)")
    iceberg_java.run(f"INSERT INTO {full} SELECT id, 'b' FROM range(100, 200)")
    iceberg_java.run(f"DELETE FROM {full} WHERE id % 10 = 3")

    def call(procedure: str, **arguments: Any) -> None:
        session.call(f"lake.system.{procedure}", schema=hive.database, table_name=table, **arguments)

    def theirs(version: str = "") -> list[str]:
        query = f"SELECT id, k, _row_id, _last_updated_sequence_number FROM {full} {version}"
        return sorted(map(repr, iceberg_java.rows(query).to_pylist()))

    before = theirs()
    assert len(before) == 180
    assert session.sql(f"SELECT id FROM {full}").num_rows == 180
    call("create_tag", tag="kept")
    call("create_branch", branch="other")
    session.sql(f"ALTER TABLE {full} SET PROPERTIES a = 'b'")
    call("compute_table_stats")
    assert theirs() == theirs("VERSION AS OF 'kept'") == before
    call("expire_snapshots", older_than=datetime.now(timezone.utc) + timedelta(minutes=1))
    assert theirs() == theirs("VERSION AS OF 'kept'") == before
    session.sql(f"ALTER TABLE {full} ADD COLUMN late BIGINT")
    iceberg_java.run(f"REFRESH TABLE {full}")
    iceberg_java.run(f"INSERT INTO {full} VALUES (1000, 'c', 5)")
    found = iceberg_java.rows(f"SELECT _row_id FROM {full} WHERE late = 5")["_row_id"].to_pylist()
    assert found == [200]
    assert session.sql(f"SELECT late FROM {full} WHERE id = 1000").to_pylist() == [{"late": 5}]
    call(
        "rollback_to_snapshot",
        snapshot_id=session.sql(f"SELECT snapshot_id FROM {name_of(full, 'refs')} WHERE name = 'kept'").to_pylist()[0][
            "snapshot_id"
        ],
    )
    iceberg_java.run(f"REFRESH TABLE {full}")
    assert theirs() == before


def name_of(full: str, kind: str) -> str:
    """The name of a metadata table."""
    catalog, database, table = full.split(".")
    return f'{catalog}.{database}."{table}${kind}"'
