"""The examples of README and guide run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with flights of two months, and the configuration that names it; the working directory."""
    for month in (5, 6):
        folder = tmp_path / "lake" / "flights" / f"month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"dep_delay": pa.array([1, 700 * (month - 5)], pa.int64())}), folder / "a.parquet")
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
    example = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)[0]
    exec(compile(example, document, "exec"), {"spark": spark})  # noqa: S102 - our own document
    assert "700" in capsys.readouterr().out
