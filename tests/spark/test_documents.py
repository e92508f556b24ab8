"""The examples of README and guide run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.session import connect

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with flights of two months, and the configuration that names it; the working directory."""
    for month in (5, 6):
        folder = tmp_path / "lake" / "flights" / f"month={month}"
        folder.mkdir(parents=True)
        rows = [
            {"carrier": "UA", "number": "1", "dep_delay": 1},
            {"carrier": "B6", "number": "2", "dep_delay": 700 * (month - 5)},
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    conf = tmp_path / "conf"
    conf.mkdir()
    workspaces = "".join(
        f'drill.metastore.storage.dfs.workspaces.{name}.location = "{tmp_path}/lake"\n' for name in ("tmp", "demo")
    )
    text = f'drill.metastore.iceberg.location.base_path = "{tmp_path}/metastore"\n{workspaces}'
    (conf / "drill-metastore-override.conf").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", ["README.md", "docs/guide/spark.md"])
@pytest.mark.usefixtures("lake")
def test_the_example_runs(document: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """It analyzes, prunes to the one file that can match, and shows its row."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    example = next(each for each in examples if "metastore.spark" in each)
    exec(compile(example, document, "exec"), {"spark": spark})  # noqa: S102 - our own document
    assert "700" in capsys.readouterr().out


@pytest.mark.usefixtures("lake")
def test_the_views_of_the_guide(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that its first statements make are temporary views."""
    text = (ROOT / "docs/guide/views.md").read_text()
    before, after = text.split("## In Spark\n")
    creation, statements = re.findall(r"```sql\n(.*?)```", before, re.DOTALL)
    with connect() as ms:
        ms.analyze("dfs.tmp.flights")
        for statement in (creation, *statements.strip().splitlines()):
            ms.sql(statement)
    example = re.findall(r"```python\n(.*?)```", after, re.DOTALL)[0]
    names: dict[str, Any] = {"spark": spark}
    exec(compile(example, "views.md", "exec"), names)  # noqa: S102 - our own document
    names["ms"].close()
    assert re.search(r"\|\s+B6\|\s+700\|", capsys.readouterr().out)


def test_the_sql_of_the_guide(lake: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """The data source at a version and with a condition, a query, and views."""
    (lake / "lake/sales").mkdir()
    pq.write_table(pa.table({"id": range(8), "name": ["a", "b"] * 4}), lake / "lake/sales/a.parquet")
    site = (lake / "conf/drill-metastore-override.conf").read_text().replace("workspaces.tmp", "workspaces.shop")
    (lake / "site.conf").write_text(site)
    with connect(lake / "site.conf") as ms:
        ms.analyze("dfs.shop.sales")
    text = (ROOT / "docs/guide/sql.md").read_text()
    [example] = re.findall(r"```python\n(from metastore.spark import .*?)```", text, re.DOTALL)
    example = example.replace("site.conf", str(lake / "site.conf"))  # Spark's Python is where Spark was started
    names: dict[str, Any] = {"spark": spark}
    exec(compile(example, "sql.md", "exec"), names)  # noqa: S102 - our own document
    names["ms"].close()
    said = re.sub(r"[ -]+", "", capsys.readouterr().out)
    assert "|7|b|" in said
    assert "|3|b|" not in said
    assert "|b|2|" in said
    assert "|sales|8|" in said


def test_spark_in_ten_minutes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page is typed from its first to its last block; the tables have the rows that it speaks of."""
    # The process that commits a DataFrame is Spark's, and has the working directory of Spark.
    text = (ROOT / "docs/start/spark.md").read_text().replace('"conf", "site.conf"', f'"conf", "{tmp_path}/site.conf"')
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/start/spark.md", "exec"), names)  # noqa: S102 - our own document
    said = capsys.readouterr().out
    assert "3 of 10 files are read" in said
    assert "|corrected|" in said
    totals = names["ms"].sql("SELECT state, n, amount FROM lake.shop.totals").to_pylist()
    names["ms"].close()
    assert {row["state"]: row["n"] for row in totals} == {"new": 29, "corrected": 1, None: 1}
    assert sum(row["amount"] for row in totals) == sum(range(30)) * 1.5 - 4.5 + 99 + 1
