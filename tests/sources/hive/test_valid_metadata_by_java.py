"""Iceberg for Java reads a table after every change of its metadata that is made here."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.errors import MetastoreError
from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

CHANGES = (
    "ALTER TABLE {t} DROP PARTITION FIELD d",
    "ALTER TABLE {t} ADD PARTITION FIELD d",
    "ALTER TABLE {t} DROP PARTITION FIELD bucket(2, id)",
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id) AS b",
    "ALTER TABLE {t} REPLACE PARTITION FIELD d WITH truncate(10, id) AS d_10",
    "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['d']",
    "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY[]",
    "ALTER TABLE {t} ADD COLUMN s ROW(x BIGINT, y VARCHAR)",
    "ALTER TABLE {t} ADD COLUMN s.z DOUBLE",
    "ALTER TABLE {t} DROP COLUMN s",
    "ALTER TABLE {t} RENAME COLUMN d TO e",
    "ALTER TABLE {t} RENAME COLUMN e TO d",
    "ALTER TABLE {t} WRITE ORDERED BY id, d DESC",
    "ALTER TABLE {t} WRITE UNORDERED",
    "ALTER TABLE {t} CREATE OR REPLACE TAG kept",
    "ALTER TABLE {t} CREATE OR REPLACE BRANCH other",
    "ALTER TABLE {t} DROP TAG IF EXISTS kept",
    "ALTER TABLE {t} SET PROPERTIES format_version = 2",
    "ALTER TABLE {t} SET PROPERTIES format_version = 3",
    "INSERT INTO {t} (id) VALUES (1), (2), (3)",
    "DELETE FROM {t} WHERE id = 1",
)
FIXED = (
    "ALTER TABLE {t} DROP PARTITION FIELD d",
    "ALTER TABLE {t} SET PROPERTIES format_version = 2",
    "ALTER TABLE {t} ADD PARTITION FIELD d",
    "INSERT INTO {t} (id) VALUES (2)",
    "ALTER TABLE {t} SET PROPERTIES format_version = 3",
    "ALTER TABLE {t} DROP PARTITION FIELD d",
    "ALTER TABLE {t} ADD PARTITION FIELD d",
)


def drawn(seed: int) -> Sequence[str]:
    """Twelve changes in a random order."""
    return random.Random(seed).choices(CHANGES, k=12)


@pytest.mark.parametrize("changes", [FIXED, *map(drawn, range(6))])
def test_java_reads_the_table_after_each_change(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, changes: Sequence[str]
) -> None:
    """Its rows, partitions and refs, after each change that was made here; what is refused changes nothing."""
    table = f"lake.{hive.database}.{hive.new_name()}"
    session.sql(
        f"CREATE TABLE {table} (id BIGINT, d DOUBLE) "
        "WITH (format_version = 1, partitioning = ARRAY['bucket(2, id)', 'd'])"
    )
    session.sql(f"INSERT INTO {table} VALUES (1, 1.5)")
    made = 0
    for change in changes:
        try:
            session.sql(change.format(t=table))
        except MetastoreError:
            continue
        made += 1
        iceberg_java.run(f"REFRESH TABLE {table}")
        rows = iceberg_java.rows(f"SELECT id FROM {table} ORDER BY id")
        assert rows["id"].to_pylist() == session.sql(f"SELECT id FROM {table} ORDER BY id")["id"].to_pylist(), change
        for part in ("partitions", "refs"):
            iceberg_java.rows(f"SELECT count(*) AS n FROM {table}.{part}")
    assert made > 2
