"""``import metastore`` gives the public names, quickly, and nothing heavy with them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import metastore

PUBLIC = [
    "ConfigError",
    "ConflictError",
    "EngineError",
    "FormatError",
    "InvalidRequestError",
    "MetadataInfo",
    "MetadataType",
    "Metastore",
    "MetastoreError",
    "MetastoreRegistry",
    "NotFoundError",
    "OutcomeUnknownError",
    "ProcedureError",
    "Session",
    "SparkCondition",
    "StorageError",
    "TableInfo",
    "TableMetadataUnit",
    "__version__",
    "connect",
    "open",
]
"""Only ever added to, and only on purpose: every name is a promise to keep."""

HEAVY = {
    "duckdb",
    "fastapi",
    "http.server",
    "matplotlib",
    "pandas",
    "polars",
    "prometheus_client",
    "pyspark",
    "uvicorn",
}


def said_by(statement: str, question: str, folder: Path) -> set[str]:
    """The names that ``question`` comes to in a fresh interpreter, started elsewhere, after ``statement``."""
    program = f"import sys; sys.path.insert(0, {str(Path(metastore.__file__).parents[1])!r}); {statement}; "
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}import json; print(json.dumps(sorted({question})))"],
        capture_output=True,
        check=True,
        cwd=folder,
        text=True,
    )
    return set(json.loads(ran.stdout))


def loaded_by(statement: str, folder: Path) -> set[str]:
    """Modules that a fresh interpreter, started elsewhere, holds after ``statement``."""
    return said_by(statement, "sys.modules", folder)


def test_the_public_names_are_pinned_and_sorted() -> None:
    """A name is added or removed here and there, or not at all."""
    assert metastore.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


def test_nothing_else_stands_at_the_front_door() -> None:
    """What ``dir`` shows is the public names; the package's own modules aside."""
    own = {path.stem for path in Path(metastore.__file__).parent.iterdir()}
    assert {name for name in vars(metastore) if not name.startswith("_")} - own <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented(name: str) -> None:
    """In its own words: a docstring inherited, or made up by dataclass, does not count."""
    public = getattr(metastore, name)
    own = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    assert own
    assert not own.startswith(f"{name}(")


def test_the_front_door_loads_nothing_heavy(tmp_path: Path) -> None:
    """A program that only wants a name waits for no Spark, data frame library or web server."""
    loaded = loaded_by("import metastore", tmp_path)
    assert "metastore.errors" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("package", ["metastore", "metastore.spark"])
def test_a_name_is_listed_before_it_is_loaded(package: str, tmp_path: Path) -> None:
    """Who explores with ``dir``, or with the key that completes a name, finds all of them."""
    assert said_by(f"import {package} as package", "set(package.__all__) - set(dir(package))", tmp_path) == set()


@pytest.mark.parametrize("package", ["metastore", "metastore.spark"])
def test_no_public_name_is_that_of_a_module(package: str, tmp_path: Path) -> None:
    """Once imported, the module would stand in the place of a name that is loaded on use."""
    modules = "{module.name for module in pkgutil.iter_modules(package.__path__)}"
    assert said_by(f"import pkgutil, {package} as package", f"set(package.__all__) & {modules}", tmp_path) == set()


def test_the_data_source_of_spark_loads_little(tmp_path: Path) -> None:
    """Spark imports it in each process that looks for sources, or creates, plans, reads or writes one."""
    loaded = loaded_by("import pyspark_metastore", tmp_path)
    assert "metastore.spark.data_source" in loaded
    slow = {"pyarrow.dataset", "pyiceberg", "sqlglot", "metastore.components", "metastore.scan.scan", "metastore.sql"}
    assert loaded & slow == set()
    reading = loaded_by("import metastore.spark.source_reading", tmp_path)
    assert "metastore.spark.own_tables" in reading
    assert reading & {"metastore.scan.scan", "metastore.spark.engine", "metastore.sql", "metastore.views"} == set()


def test_what_writes_for_spark_loads_little(tmp_path: Path) -> None:
    """Each process of a task that writes imports it; only the process that commits runs a statement."""
    loaded = loaded_by("import metastore.spark.table_sink, metastore.spark.folder_sink", tmp_path)
    assert "metastore.lake.writes.table_writer" in loaded
    slow = {"metastore.components", "metastore.scan.scan", "metastore.session", "metastore.sql", "sqlglot"}
    assert loaded & slow == set()


SMALL_TASKS = ("metastore.analyze.tasks.segments", "metastore.analyze.tasks.file_rows")
"""Modules of what ANALYZE has done on executors and in helper processes."""


@pytest.mark.parametrize("module", SMALL_TASKS)
def test_tasks_load_little(module: str, tmp_path: Path) -> None:
    """Each executor and helper process imports them before it can begin: for that, others wait or work alone."""
    loaded = loaded_by(f"import {module}", tmp_path)
    slow = {"pyarrow.dataset", "pyiceberg.expressions", "pyiceberg.io", "pyiceberg.table", "sqlglot"}
    assert module in loaded
    assert loaded & (HEAVY | slow) == set()


@pytest.mark.parametrize(
    "code", ["import metastore.session", "import metastore.cli.screens, metastore.overview.tables"]
)
def test_a_session_loads_what_opens_it(code: str, tmp_path: Path) -> None:
    """What a call is about comes with the call: a command that lists tables waits for no SQL parser or Hive client."""
    loaded = loaded_by(code, tmp_path)
    of_calls = {
        "hive_metastore",
        "metastore.analyze.run",
        "metastore.sources.hive.source",
        "metastore.information_schema",
        "metastore.procedures",
        "metastore.scan.pruning.prune",
        "metastore.scan.tables",
        "metastore.sql",
        "metastore.views",
        "sqlglot",
    }
    assert "metastore.session" in loaded
    assert loaded & of_calls == set()


def test_a_heavy_module_would_be_seen(tmp_path: Path) -> None:
    """The test above can fail: the same look finds pandas once it is imported."""
    assert "pandas" in loaded_by("import metastore, pandas", tmp_path)
