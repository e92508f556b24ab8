"""Metadata tables have the columns and the values that Iceberg for Java shows of the same table through Spark."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

TABLES = [
    *("history", "snapshots", "refs", "metadata_log_entries", "manifests", "all_manifests", "partitions"),
    *("files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files"),
    *("entries", "all_entries", "position_deletes"),
]
CONTENT = ["DATA", "POSITION_DELETES", "EQUALITY_DELETES"]
STATUS = ["EXISTING", "ADDED", "DELETED"]
BY_ID = {"column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"}
"""Maps that Java keys by field id, with bounds as bytes; ours are keyed by name. ``readable_metrics`` compares them."""


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_tables_are_javas(session: Session, hive: HiveMaker, iceberg_java: IcebergJava, version: int) -> None:
    """Of a table with partitions, nested columns, deletes and a removed file; version 3 has deletion vectors."""
    name = hive.new_name()
    full = f"lake.{hive.database}.{name}"
    columns = "id BIGINT, day DATE, price DECIMAL(9, 2), at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<city: STRING>"
    fields = "days(day), bucket(2, id)"
    written = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
    values = "DATE '2021-04-01', id, TIMESTAMP '2021-04-01 12:00:00', array('a'), named_struct('city', 'Rome')"
    for statement in (
        f"CREATE TABLE {full} ({columns}) USING iceberg PARTITIONED BY ({fields}) TBLPROPERTIES ({written})",
        f"INSERT INTO {full} SELECT id, {values} FROM range(0, 10)",
        f"INSERT INTO {full} SELECT id, DATE '2021-04-02', NULL, NULL, NULL, NULL FROM range(10, 14)",
        f"DELETE FROM {full} WHERE id IN (2, 3, 5)",
        f"DELETE FROM {full} WHERE day = DATE '2021-04-02'",
    ):
        iceberg_java.run(statement)
    for kind in TABLES:
        theirs = iceberg_java.rows(f"SELECT * FROM {full}.{kind}")
        ours = session.sql(f'SELECT * FROM lake.{hive.database}."{name}${kind}"')
        unknown = set(theirs.column_names) - set(ours.column_names) - ({"row"} if kind == "position_deletes" else set())
        assert not unknown, (kind, theirs.schema)
        shared = [each for each in theirs.column_names if each in ours.column_names and each not in BY_ID]
        found = [sorted(map(repr, _comparable(each.select(shared).to_pylist(), kind))) for each in (ours, theirs)]
        assert found[0] == found[1], kind
        assert bool(found[0]), kind


def _comparable(rows: list[dict[str, Any]], kind: str) -> list[Any]:
    return [_value(row, kind) for row in rows]


def _value(value: Any, kind: str, name: str = "") -> Any:
    """The value in the words of both: content and status as ours, maps in order, and no maps by field id."""
    if name == "content" and isinstance(value, int):
        return ["DATA", "DELETES"][value] if kind.endswith("manifests") else CONTENT[value]
    if name == "status" and isinstance(value, int):
        return STATUS[value]
    if name == "summary":
        return sorted(dict(value).items())
    if name == "partition_summaries":
        kept = ("contains_null", "contains_nan", "lower_bound", "upper_bound")
        return [{each: part[each] for each in kept} for part in value]
    if isinstance(value, dict):
        return {each: _value(part, kind, each) for each, part in sorted(value.items()) if each not in BY_ID}
    return value


@pytest.mark.parametrize("version", [2, 3])
def test_java_goes_on_from_partition_statistics_made_here(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, version: int
) -> None:
    """It reads our file, adds what has changed since, and has what we count from the manifests alone."""
    name = hive.new_name()
    full = f"lake.{hive.database}.{name}"
    written = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
    statements = (
        f"CREATE TABLE {full} (id BIGINT, day DATE) USING iceberg PARTITIONED BY (days(day)) TBLPROPERTIES ({written})",
        f"INSERT INTO {full} SELECT id, DATE '2021-04-01' FROM range(0, 10)",
        f"INSERT INTO {full} SELECT id, NULL FROM range(10, 14)",
        f"DELETE FROM {full} WHERE id IN (2, 3)",
    )
    for statement in statements:
        iceberg_java.run(statement)
    call = "lake.system.compute_partition_stats"
    where: dict[str, Any] = {"schema": hive.database, "table_name": name}
    session.call(call, **where)
    iceberg_java.run(f"REFRESH TABLE {full}")
    iceberg_java.run(f"INSERT INTO {full} SELECT id, DATE '2021-04-02' FROM range(20, 23)")
    iceberg_java.run(f"INSERT INTO {full} VALUES (30, DATE '2021-04-01')")
    theirs = iceberg_java.rows(f"CALL lake.system.compute_partition_stats('{hive.database}.{name}')")
    [path] = theirs["partition_statistics_file"].to_pylist()
    expected = pq.read_table(str(path).removeprefix("file:").replace("//", "/"))
    session.call("lake.system.drop_stats", **where)
    [mine] = session.call(call, **where)["partition_statistics_file"].to_pylist()
    found = pq.read_table(str(mine).removeprefix("file:").replace("//", "/"))
    assert found.column_names == expected.column_names
    assert found.to_pylist() == expected.to_pylist()


def test_changelogs_are_javas(session: Session, hive: HiveMaker, iceberg_java: IcebergJava) -> None:
    """Changes of each snapshot, updates by identifier, and net changes, of the same table in the same range."""
    name = hive.new_name()
    full = f"lake.{hive.database}.{name}"
    for statement in (
        f"CREATE TABLE {full} (id BIGINT, v STRING, price DOUBLE) USING iceberg PARTITIONED BY (bucket(2, id))",
        f"INSERT INTO {full} SELECT id, concat('v', id % 3), NULL FROM range(0, 10)",
        f"INSERT INTO {full} VALUES (20, 'x', 1.5), (21, NULL, double('NaN')), (30, 'y', 0), (30, 'y', 0)",
        f"UPDATE {full} SET v = 'u' WHERE id IN (3, 20)",
        f"DELETE FROM {full} WHERE id = 4 OR v = 'u' AND id = 3",
        f"DELETE FROM {full} WHERE id = 21",
        f"INSERT OVERWRITE {full} SELECT * FROM {full} WHERE id > 1",
    ):
        iceberg_java.run(statement)
    first = session.sql(f'SELECT snapshot_id AS id FROM lake.{hive.database}."{name}$snapshots" ORDER BY committed_at')
    since = f"options => map('start-snapshot-id', '{first['id'][0]}')"
    for more in ("", since, f"identifier_columns => array('id', 'price'), {since}", "net_changes => true"):
        view = f"changes{len(more)}"
        arguments = ", ".join(filter(None, [f"table => '{hive.database}.{name}'", f"changelog_view => '{view}'", more]))
        call = f"CALL lake.system.create_changelog_view({arguments})"
        found = []
        for run in (iceberg_java.rows, session.sql):
            assert run(call).to_pylist() == [{"changelog_view": view}]
            # Of net changes Java shows the last snapshot that wrote the row, not the one that inserted it.
            shown = "id, v, price, _change_type" if "net" in more else "*"
            found.append(sorted(map(repr, run(f"SELECT {shown} FROM {view}").to_pylist())))
        assert found[0] == found[1], more
        assert found[0], more
