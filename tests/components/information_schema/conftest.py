"""A lake with tables of two levels of directories, analyzed; and counts of what requests open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.components.information_schema import InformationSchema
from metastore.config import Settings
from metastore.lake.stores.local import LocalFile
from metastore.session import Session, connect

SALES = "dfs.shop.sales"
Write = Callable[[str, pa.Table], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write one file below the workspace ``dfs.shop``, two rows a row group."""

    def put(name: str, rows: pa.Table) -> None:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, row_group_size=2)

    return put


def sales(start: int) -> pa.Table:
    """Five rows of every kind of column that has bounds."""
    ids = range(start, start + 5)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "shop": pa.array([f"shop {n}" for n in ids]),
            "price": pa.array([None, *[Decimal(n) / 4 for n in ids][1:]], pa.decimal128(9, 2)),
            "day": pa.array([date(2024, 1, 1 + n) for n in ids]),
            "sold": pa.array([datetime(2024, 1, 1, n, tzinfo=timezone.utc) for n in ids], pa.timestamp("us", "UTC")),
            "weight": pa.array([n / 2 for n in ids]),
            "paid": pa.array([n > start for n in ids]),
            "code": pa.array([bytes([n]) for n in ids]),
            "buyer": pa.array([{"name": f"b{n}", "at": {"zip": n}} for n in ids]),
            "tags": pa.array([["a"]] * 5),
        }
    )


@pytest.fixture
def session(tmp_path: Path, write: Write) -> Iterator[Session]:
    """``dfs.shop.sales`` in directories of years and quarters, and ``dfs.shop.plain`` without any; both analyzed."""
    for number, place in enumerate(("2023/Q1", "2023/Q2", "2024/Q1")):
        write(f"sales/{place}/part.parquet", sales(number * 5))
    write("plain/a.parquet", pa.table({"n": [1, 2, 3]}))
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
        "drill.metastore.storage.dfs.workspaces.shop": {"location": str(tmp_path / "data"), "writable": True},
    }
    with connect(Settings.from_mapping(given, environ={})) as opened:
        opened.analyze(SALES)
        opened.analyze("dfs.shop.plain")
        yield opened


@pytest.fixture
def known(session: Session) -> InformationSchema:
    """Its INFORMATION_SCHEMA."""
    return InformationSchema(session.metastore)


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of data files of the metastore that are opened from here on, in order."""
    found: list[str] = []
    whole, fragment, opened = pq.ParquetFile, pa.dataset.ParquetFileFormat.make_fragment, LocalFile.open

    def parquet(path: str, **options: Any) -> Any:
        found.append(path)
        return whole(path, **options)

    class Format(pa.dataset.ParquetFileFormat):
        def make_fragment(self, path: Any, filesystem: Any = None, **options: Any) -> Any:  # type: ignore[override]
            found.append(path)
            return fragment(self, path, filesystem, **options)

    def open_(self: LocalFile, seekable: bool = True) -> Any:
        if self.location.endswith(".parquet"):
            found.append(self.location)
        return opened(self, seekable)

    monkeypatch.setattr(pq, "ParquetFile", parquet)
    monkeypatch.setattr(pa.dataset, "ParquetFileFormat", Format)
    monkeypatch.setattr(LocalFile, "open", open_)
    return found
