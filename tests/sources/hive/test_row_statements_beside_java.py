"""Iceberg for Java reads what SQL made of a table here, and changes it on; both have the same rows after each step."""

from __future__ import annotations

import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

CREATE = """
    CREATE TABLE {t} (
        id BIGINT NOT NULL, k VARCHAR, n INT, ts TIMESTAMPTZ, d DECIMAL(9, 2), l ARRAY(VARCHAR),
        o ROW(host VARCHAR, port INT)
    ) PARTITIONED BY (bucket(3, id), truncate(1, k), days(ts))
    TBLPROPERTIES ('format-version' = {version}, 'write.delete.mode' = 'merge-on-read')
"""
OURS = """
    INSERT INTO {t} SELECT i, ['ab', 'b', NULL][i % 3 + 1], i, TIMESTAMP '1969-12-31 22:00:00' + i * INTERVAL 1 HOUR,
        (i / 4)::DECIMAL(9, 2), [i::VARCHAR, NULL], {{'host': 'h', 'port': i}} FROM range(12) r(i);
    UPDATE {t} SET n = n * 10, k = 'c' WHERE id % 4 = 1;
    MERGE INTO {t} AS t USING (SELECT range AS id FROM range(9, 15)) s ON t.id = s.id
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'new');
    DELETE FROM {t} WHERE k = 'b' AND n > 2
"""
THEIRS = "DELETE FROM {t} WHERE id = 4; ALTER TABLE {t} RENAME COLUMN n TO m"
OURS_AFTERWARDS = """
    UPDATE {t} SET m = id WHERE m IS NULL OR id = 3;
    DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t});
    INSERT INTO {t} (id, m) VALUES (100, 1)
"""


@pytest.mark.parametrize("version", [1, 2, 3])
def test_both_read_the_same_after_each_statement(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, version: int
) -> None:
    """Created, filled, merged, updated and deleted from here; deleted merge-on-read and evolved from there."""
    table = f"lake.{hive.database}.{hive.new_name()}"

    def compare() -> None:
        query = f"SELECT * FROM {table}"
        expected = sorted(map(repr, iceberg_java.rows(query).to_pylist()))
        assert expected
        assert sorted(map(repr, session.sql(query).to_pylist())) == expected

    session.sql(CREATE.format(t=table, version=version))
    for statement in OURS.format(t=table).split(";"):
        session.sql(statement)
        compare()
    for statement in THEIRS.format(t=table).split(";"):
        iceberg_java.run(statement)
    compare()
    for statement in OURS_AFTERWARDS.format(t=table).split(";"):
        session.sql(statement)
        compare()
