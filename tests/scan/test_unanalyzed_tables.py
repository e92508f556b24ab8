"""Tables of Iceberg and Delta that nobody analyzed: scans read and prune them by what their keeper records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.tables_of_kinds import make_tables, settings_of_kinds

from metastore.errors import NotFoundError
from metastore.session import Session, connect

KEPT = ("lake.db.full", "lake.db.empty", "lake.db.without_snapshot", "delta.w.full", "delta.w.empty")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Tables of every kind, none of them analyzed, and ``db.many`` of four files in a catalog and as a Delta table."""
    folder = tmp_path_factory.mktemp("kinds")
    with connect(settings_of_kinds(folder)) as opened:
        make_tables(opened, folder)
        types: dict[str, Any] = {"id": pa.int64(), "s": pa.string()}
        schema = pa.schema(types)
        table = opened.catalogs.open("prod").create_table("db.many", schema)
        for first in range(0, 40, 10):
            rows = pa.table({"id": range(first, first + 10), "s": [f"v{first}"] * 10}, schema)
            table.append(rows)
            write_deltalake(str(folder / "delta" / "many"), rows, mode="append")
        yield opened


def rows_of(table: pa.Table) -> list[Any]:
    """The rows, in one order."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("name", KEPT)
def test_a_scan_is_that_of_the_analyzed_table(session: Session, name: str) -> None:
    """Columns, types, rows, counts and bounds."""
    scan = session.tables.scan(name)
    found = (scan.schema, rows_of(scan.to_arrow()), scan.count(), scan.aggregate(["min(b)", "max(price)"]).to_pylist())
    session.analyze(name)
    try:
        scan = session.tables.scan(name)
        counted = scan.aggregate(["min(b)", "max(price)"]).to_pylist()
        assert found == (scan.schema, rows_of(scan.to_arrow()), scan.count(), counted)
    finally:
        session.drop_metadata(name)


@pytest.mark.parametrize("name", ["prod.db.many", "lake.db.many", "delta.w.many"])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id = 25", [25]),
        ("s = 'v20'", range(20, 30)),
        ("id > 19 AND id < 30", range(20, 30)),
        ("`$path` LIKE '%.parquet' AND id = 20", [20]),
    ],
)
def test_a_condition_reads_one_file_of_four(session: Session, name: str, where: str, ids: Sequence[int]) -> None:
    """The three others are not opened: garbage stands in their place while the scan reads."""
    scan = session.tables.scan(name, where, ["id", "$path"])
    assert len(scan.files) == 1
    others = [Path(path) for path in set(session.tables.scan(name).paths) - set(scan.paths)]
    kept = {path: path.read_bytes() for path in others}
    assert len(kept) == 3
    try:
        for path in others:
            path.write_bytes(b"garbage")
        found = scan.to_arrow().to_pylist()
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert sorted(row["id"] for row in found) == list(ids)
    assert {row["$path"] for row in found} == set(scan.paths)


@pytest.mark.parametrize("name", ["lake.db.many", "delta.w.many"])
def test_sql_reads_them_too(session: Session, name: str) -> None:
    """With the columns of a row's file."""
    found = session.sql(f"SELECT id, filename FROM {name} WHERE id = 25").to_pylist()
    [path] = session.tables.scan(name, "id = 25").paths
    assert found == [{"id": 25, "filename": Path(path).name}]


@pytest.mark.parametrize(
    "name", ["prod.db.none", "lake.db.none", "delta.w.none", "other.db.many", "dfs.w.parquet_full"]
)
def test_what_no_keeper_has_stays_unknown(session: Session, name: str) -> None:
    """A directory of files, too, has to be analyzed first."""
    for ask in (lambda: session.tables.scan(name), lambda: session.sql(f"SELECT * FROM {name}")):
        with pytest.raises(NotFoundError):
            ask()
