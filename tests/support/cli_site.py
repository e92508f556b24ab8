"""What the command line is run over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Site:
    """A folder with a configuration and the table ``dfs.shop.sales``: 3 months, 2 files each, 3 row groups a file."""

    folder: Path
    conf: Path
    data: Path

    def write(self, month: int, file: int, rows: int = 100) -> Path:
        """Write one file of the table: ``id`` goes on from file to file, one ``amount`` is null."""
        path = self.data / f"month={month}" / f"part-{file}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        start = file * 100
        columns: dict[str, pa.Array[Any]] = {
            "id": pa.array(range(start, start + rows), pa.int64()),
            "shop": pa.array([f"shop {month}"] * rows, pa.string()),
            "amount": pa.array([None, *[month * 1.5] * (rows - 1)], pa.float64()),
            "sold": pa.array([datetime(2024, month, 1, tzinfo=timezone.utc)] * rows, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), path, row_group_size=40)
        return path

    @property
    def metastore_files(self) -> set[Path]:
        """Every file that the metastore has on disk."""
        return {path for path in (self.folder / "metastore").rglob("*") if path.is_file()}
