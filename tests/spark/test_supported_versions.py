"""A Spark that is too old, or too new, is refused by a sentence; what needs no Spark runs without PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import metastore
from metastore.errors import EngineError
from metastore.spark.supported_versions import require_data_sources, require_supported

ROOT = Path(metastore.__file__).parents[1]

WITHOUT_SPARK = """
import pathlib, sys
import pyarrow as pa, pyarrow.parquet as pq
import metastore
from typer.testing import CliRunner
from metastore.cli.hive_app import app

folder = pathlib.Path("lake/t")
folder.mkdir(parents=True)
pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet")
here = pathlib.Path.cwd()
pathlib.Path("site.conf").write_text(f'''
drill.metastore.iceberg.location.base_path = "{here}/metastore"
drill.metastore.storage.dfs.workspaces.w {{ location = "{here}/lake", writable = true }}
''')
with metastore.connect("site.conf") as ms:
    assert ms.analyze("dfs.w.t").files == 1
    assert ms.prune("dfs.w.t", "id > 5").files_count.kept == 0
    assert ms.tables.scan("dfs.w.t", where="id > 1").to_arrow().num_rows == 2
    assert ms.sql("SELECT count(*) AS n FROM dfs.w.t").to_pylist() == [{"n": 3}]
    ms.sql("CREATE VIEW dfs.w.v AS SELECT id FROM dfs.w.t WHERE id > 1")
    ms.sql("CREATE MATERIALIZED VIEW dfs.w.m AS SELECT count(*) AS n FROM dfs.w.t")
    ms.sql("REFRESH MATERIALIZED VIEW dfs.w.m")
    assert ms.sql("SELECT n FROM dfs.w.m").to_pylist() == [{"n": 3}]
    ms.call("metastore.system.expire_snapshots", schema="components", table_name="tables", dry_run=True)
    assert ms.check()
for arguments in (["--help"], ["--version"], ["--conf", "site.conf", "tables"], ["daemon", "--help"]):
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, (arguments, ran.output)
assert not [name for name in sys.modules if name.startswith(("pyspark.", "py4j"))]
"""


def python(program: str, pyspark: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``program`` in ``folder`` with a PySpark whose ``__init__`` is ``pyspark``."""
    (folder / "pyspark").mkdir()
    (folder / "pyspark/__init__.py").write_text(pyspark)
    path = os.pathsep.join((str(folder), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-"],
        input=program,
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )


@pytest.mark.parametrize(
    "version", ["3.5.1", "3.5.1-amzn-0", "4.0.0", "4.1.4", "4.10.1", "4.2.0.dev1", "4.3.0-SNAPSHOT", "4.1"]
)
def test_supported_versions(version: str) -> None:
    """From 3.5 on; vendors append to the number."""
    require_supported(version)


@pytest.mark.parametrize(
    ("version", "has_them"), [("3.5.1-amzn-0", False), ("4.0.9", False), ("4.1", True), ("4.3.0", True)]
)
def test_versions_without_data_sources_are_refused_there_alone(version: str, has_them: bool) -> None:
    """The error says what works in their place."""
    if has_them:
        require_data_sources(version)
        return
    with pytest.raises(EngineError, match=rf"needs Spark 4\.1 or later, and this is Spark {version}.* Use read_table"):
        require_data_sources(version)


@pytest.mark.parametrize("version", ["3.4.4", "3.3.1-amzn-0", "5.0.0", "2"])
def test_others_are_refused_by_name(version: str) -> None:
    """With what is required, and what to run."""
    with pytest.raises(EngineError, match=r"Spark .* is not supported; 3\.5 or later.* pip install 'pyspark\[sql\]>=3"):
        require_supported(version)


def test_an_old_pyspark_is_refused_when_the_package_is_imported(tmp_path: Path) -> None:
    """Before a module that it lacks is imported from it."""
    ran = python("import metastore.spark", "__version__ = '3.4.1'\n", tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("metastore.errors.EngineError: Spark 3.4.1 is not supported; 3.5")


def test_what_needs_no_spark_runs_without_pyspark(tmp_path: Path) -> None:
    """A PySpark that cannot be imported: analyze, prune, scan, SQL, views, the command line."""
    ran = python(WITHOUT_SPARK, "raise ImportError('PySpark is taken away')\n", tmp_path)
    assert ran.returncode == 0, ran.stderr
