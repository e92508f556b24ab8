"""The examples of the guide run as they are printed, one after the other."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from metastore.session import connect

GUIDE = Path(__file__).parents[2] / "docs/guide/scans.md"


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its assertions hold, and it shows what it says it shows."""
    for year in (2023, 2024):
        folder = tmp_path / "lake" / "sales" / f"year={year}"
        folder.mkdir(parents=True)
        for half in (0, 1):
            start = year * 1000 + half * 100
            columns = {"id": range(start, start + 100), "amount": [n * 10 - (n == 0) for n in range(100)]}
            pq.write_table(pa.table(columns), folder / f"{half}.parquet", row_group_size=20)
    (tmp_path / "site.conf").write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/metastore"\n'
        f'drill.metastore.storage.dfs.workspaces.tmp.location = "{tmp_path}/lake"\n'
        f'drill.metastore.catalogs.prod {{ type = sql, uri = "sqlite:///{tmp_path}/c.db" }}\n'
        f'drill.metastore.catalogs.prod.warehouse = "{tmp_path}/w"\n'
        "drill.metastore.storage.lake { type = iceberg, catalog = prod }\n"
        'drill.metastore.storage.delta { type = delta, connection = "file:///" }\n'
        f'drill.metastore.storage.delta.workspaces.shop.location = "{tmp_path}/delta"\n'
    )
    with connect(tmp_path / "site.conf") as session:
        prod = session.catalogs.open("prod")
        prod.create_namespace("shop")
        sold = pa.table({"id": range(4), "amount": [100, 500, 901, 950]})
        prod.create_table("shop.sales", sold.schema).append(sold)
        write_deltalake(str(tmp_path / "delta" / "orders"), pa.table({"day": [date(2023, 12, 31), date(2024, 1, 1)]}))
        session.analyze("delta.shop.orders")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(example, GUIDE.name, "exec"), names)  # noqa: S102 - our own document
    said = capsys.readouterr().out
    assert "usedMetastore=true" in said
    assert "files:      2 of 4 read, 2 skipped" in said
    assert "row groups: 2 of 20 read, 18 skipped" in said
