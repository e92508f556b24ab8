"""A partition of NaN is one partition at every door, and one of 0.0 is not that of -0.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.typedef import Record

from metastore.lake.iceberg.manifests.partition_key import partition_key
from metastore.session import Session

OPTIONS = "options => MAP(ARRAY['rewrite-all'], ARRAY['true'])"


@pytest.fixture
def session(bare: Session) -> Session:
    """The table ``lake.db.t`` with three files each in the partitions NaN, 0.0 and -0.0."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id BIGINT, f DOUBLE) PARTITIONED BY (f)")
    for first in (1, 10, 100):
        rows = f"({first}, 'NaN'::DOUBLE), ({first + 1}, 0.0::DOUBLE), ({first + 2}, -0.0::DOUBLE)"
        bare.sql(f"INSERT INTO lake.db.t VALUES {rows}")
    return bare


def counts(rows: list[dict[str, Any]], column: Callable[[dict[str, Any]], Any], count: str) -> dict[str, int]:
    """The number of files by the value of the partition."""
    assert len(rows) == len({repr(column(row)) for row in rows})
    return {repr(column(row)): row[count] for row in rows}


def partitions(session: Session) -> dict[str, int]:
    """The files of each partition, as the metadata table has them."""
    rows = session.sql('SELECT partition, file_count, last_updated_at FROM lake.db."t$partitions"').to_pylist()
    return counts(rows, lambda row: row["partition"]["f"], "file_count")


def test_files_are_counted_by_partition(session: Session) -> None:
    """In the metadata table with statistics and without, and in SHOW PARTITIONS."""
    expected = {"nan": 3, "0.0": 3, "-0.0": 3}
    assert partitions(session) == expected
    shown = session.sql("SHOW PARTITIONS FROM lake.db.t").to_pylist()
    assert counts(shown, lambda row: float(row["PARTITION"].removeprefix("f=")), "FILE_COUNT") == expected
    session.sql("CALL lake.system.compute_partition_stats('db', 't')")
    query = 'SELECT partition, file_count FROM lake.db."t$partitions"'
    assert counts(session.sql(query).to_pylist(), lambda row: row["partition"]["f"], "file_count") == expected
    session.sql("INSERT INTO lake.db.t VALUES (7, 'NaN'::DOUBLE)")
    found = counts(session.sql(query).to_pylist(), lambda row: row["partition"]["f"], "file_count")
    assert found == {**expected, "nan": 4}


def test_files_of_a_partition_are_rewritten_together(session: Session) -> None:
    """One file is left of each."""
    session.sql(f"CALL lake.system.rewrite_data_files(table => 'db.t', {OPTIONS})")
    assert partitions(session) == {"nan": 1, "0.0": 1, "-0.0": 1}
    assert session.sql("SELECT count(*) AS n, sum(id) AS s FROM lake.db.t").to_pylist() == [{"n": 9, "s": 342}]


def test_keys() -> None:
    """Whatever object a number is; other values are what they are."""
    assert partition_key(1, Record(float("nan"), "a")) == partition_key(1, Record(-float("nan"), "a"))
    assert partition_key(1, Record(0.0)) != partition_key(1, Record(-0.0))
    assert partition_key(1, Record(None)) != partition_key(2, Record(None))
    assert len({partition_key(0, Record(each)) for each in (None, "nan", "", b"", 0, 1)}) == 6


def test_rows_of_one_partition_are_written_to_one_file(session: Session) -> None:
    """However they are mixed: NaN of both signs is one partition, and each zero has its own file."""
    session.sql("CREATE TABLE lake.db.mixed (id BIGINT, f DOUBLE) PARTITIONED BY (f)")
    session.sql(
        "INSERT INTO lake.db.mixed SELECT i, CASE i % 4 WHEN 0 THEN 0.0::DOUBLE WHEN 1 THEN -0.0::DOUBLE "
        "WHEN 2 THEN 'NaN'::DOUBLE ELSE -('NaN'::DOUBLE) END FROM range(200000) t(i)"
    )
    rows = session.sql('SELECT partition, file_count, record_count FROM lake.db."mixed$partitions"').to_pylist()
    assert counts(rows, lambda row: row["partition"]["f"], "file_count") == {"nan": 1, "0.0": 1, "-0.0": 1}
    assert counts(rows, lambda row: row["partition"]["f"], "record_count") == {
        "nan": 100_000,
        "0.0": 50_000,
        "-0.0": 50_000,
    }
