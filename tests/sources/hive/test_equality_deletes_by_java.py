"""Iceberg for Java leaves the same rows of tables with equality deletes as this package, before and after a rewrite."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava
from support.delete_files import delete_equal, with_ids

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([0, 1, 2, 3, 4, 5, 6, 7, None], pa.int32()),
        "k": ["a", "b", None, "a", "b", None, "a", "b", "a"],
        "x": [0.0, -0.0, NAN, 1.5, None, 2.5, 3.5, NAN, 4.5],
    }
)


def keys(name: str, field_id: int) -> pa.Table:
    """Every other row's value of a column, as keys."""
    return with_ids(ROWS.select([name]).take([2, 4, 6, 8]), field_id)


def delete_by_every_column(table: Table, by_k: bool) -> None:
    """Keys of one column each, one commit each, and of two columns; those of partitions in two of them."""
    where = [Record("a"), Record(None)] if by_k else [Record()]
    for partition in where:
        delete_equal(table.refresh(), keys("id", 1), [1], partition)
        delete_equal(table.refresh(), with_ids(pa.table({"x": [0.0, NAN]}), 3), [3], partition)
    both = with_ids(ROWS.select(["k", "id"]).take([3, 5]), 2, 1)
    delete_equal(table.refresh(), both, [1, 2], where[-1])


@pytest.mark.parametrize("by_k", [False, True])
def test_the_same_rows_are_left(session: Session, hive: HiveMaker, iceberg_java: IcebergJava, by_k: bool) -> None:
    """Of null, NaN and zeros, in partitions and without, of a widened column, and of rows that came again."""
    catalog, name = session.catalogs.open("lake"), hive.new_name()
    full = f"{hive.database}.{name}"
    table = catalog.create_table((hive.database, name), ROWS.schema, properties={"format-version": "2"})
    if by_k:
        with table.update_spec() as update:
            update.add_identity("k")
    table.append(ROWS)
    delete_by_every_column(table, by_k)
    table.refresh().append(ROWS.slice(2, 3))
    iceberg_java.run(f"ALTER TABLE lake.{full} ALTER COLUMN id TYPE bigint")

    def ours() -> list[str]:
        return sorted(map(repr, session.sql(f"SELECT * FROM lake.{full}").to_pylist()))

    def theirs() -> list[str]:
        return sorted(map(repr, iceberg_java.rows(f"SELECT * FROM lake.{full}").to_pylist()))

    expected = theirs()
    assert 0 < len(expected) < ROWS.num_rows + 3
    assert ours() == expected
    [row] = session.call(
        "lake.system.rewrite_data_files", schema=hive.database, table_name=name, options={"rewrite-all": "true"}
    ).to_pylist()
    assert row["removed_delete_files_count"] == (5 if by_k else 3)
    assert theirs() == expected
    assert ours() == expected
