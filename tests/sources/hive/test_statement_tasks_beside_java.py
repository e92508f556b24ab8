"""Iceberg for Java reads what the tasks of a statement have written, with its deletes, as this package reads it."""

from __future__ import annotations

import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava
from support.task_engine import TaskEngine

from metastore.session import Session, connect

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

STATEMENTS = """
    CREATE TABLE {t} PARTITIONED BY (bucket(3, id), k) TBLPROPERTIES ('format-version' = {version}, {modes}) AS
        SELECT i AS id, ['a', 'b', NULL][i % 3 + 1] AS k, i * 2 AS n, (i / 4)::DECIMAL(9, 2) AS d, [i, NULL] AS l
        FROM range(30) r(i);
    INSERT INTO {t} SELECT id % 10 + 100, k, sum(n)::BIGINT, max(d), list(id ORDER BY id) FROM {t} GROUP BY id % 10, k;
    INSERT INTO {t} SELECT id + 300, k, n, d, l FROM {t} WHERE id < 20;
    INSERT INTO {t} SELECT a.id + 200, b.k, a.n, b.d, a.l FROM {t} a FULL JOIN {t} b ON a.id = b.id + 90
        WHERE a.id IS NOT NULL;
    DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t} GROUP BY k);
    UPDATE {t} SET n = -n WHERE EXISTS (SELECT 1 FROM {t} u WHERE u.id = {name}.id + 100);
    MERGE INTO {t} t USING (SELECT DISTINCT id + 5 AS id, k, '1'::BIT AS z FROM {t} WHERE id < 120) s
        ON t.id = s.id AND t.k IS NOT DISTINCT FROM s.k WHEN MATCHED AND t.n > 20 THEN DELETE
        WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)
"""
BY_TASKS = ["INSERT INTO {t} SELECT id + 300", "DELETE FROM", "UPDATE"]  # groups and joins are the driver's


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_both_read_the_same_after_each_statement(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, version: int, mode: str
) -> None:
    """Rows of the driver, of tasks that read files, and of tasks that change files."""
    name = hive.new_name()
    table = f"lake.{hive.database}.{name}"
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    engine = TaskEngine()
    with connect(session.settings, engine) as by_tasks:
        for statement in STATEMENTS.format(t=table, name=name, version=version, modes=modes).split(";"):
            before = engine.tasks
            by_tasks.sql(statement)
            dealt = statement.strip().startswith(tuple(each.format(t=table) for each in BY_TASKS))
            assert (engine.tasks > before) is dealt, statement
            query = f"SELECT * FROM {table}"
            expected = sorted(map(repr, iceberg_java.rows(query).to_pylist()))
            assert expected
            assert sorted(map(repr, session.sql(query).to_pylist())) == expected, statement
