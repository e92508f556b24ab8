"""The question of the demo, asked of three engines: of the plain files, and of the published table by its name.

PyIceberg is a dependency of this package. DuckDB's extension for Iceberg and Iceberg's runtime for Spark each belong to
one release of their engine, so both run in an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset
from pyiceberg.catalog.rest import RestCatalog

from metastore.errors import StorageError

_DUCKDB: Final = "1.5.5"
_PACKAGES: Final = (
    f"duckdb=={_DUCKDB}",
    f"duckdb-extensions=={_DUCKDB}",
    *(f"duckdb-extension-{name}=={_DUCKDB}" for name in ("avro", "httpfs", "iceberg")),
    "pyspark==4.1.4",
)


@dataclass(frozen=True)
class EngineQuestion:
    """Where the files and the catalog are, and what is asked, in a form that every engine understands."""

    uri: str
    folder: str
    table: str
    where: str
    columns: str


@dataclass(frozen=True)
class EngineAnswer:
    """The rows, in order, and the number of files that the engine opened for them."""

    rows: Sequence[tuple[Any, ...]]
    files: int


EngineAnswers = Mapping[str, EngineAnswer]
"""What one engine answered, by door: ``plain`` or ``published``."""


def make_environment(folder: Path) -> None:
    """Install DuckDB and Spark into ``folder``, unless they are there. Raises StorageError with what pip said."""
    complete = folder / "complete"
    if complete.exists():
        return
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *_PACKAGES],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as written here
        if ran.returncode:
            raise StorageError(f"{folder} could not be made: {ran.stderr[-2000:]}")
    complete.touch()


def ask_pyiceberg(question: EngineQuestion) -> EngineAnswers:
    """Ask by Arrow, which opens every plain file for its footer, and by PyIceberg."""
    columns = question.columns.split(", ")
    plain = pyarrow.dataset.dataset(question.folder, partitioning="hive")
    catalog = RestCatalog("lake", uri=question.uri, warehouse="lake")
    try:
        scan = catalog.load_table(question.table).scan(question.where, selected_fields=tuple(columns))
        table = scan.to_arrow().select(columns)
        files = len(list(scan.plan_files()))
        found = plain.to_table(columns=columns, filter=scan_filter(question.where))
    finally:
        catalog.close()
    return {
        "plain": EngineAnswer(_rows(found.to_pylist()), len(plain.files)),
        "published": EngineAnswer(_rows(table.to_pylist()), files),
    }


def scan_filter(where: str) -> pyarrow.dataset.Expression:
    """Returns a condition such as ``dep_delay > 900`` for Arrow."""
    column, _, least = where.split(" ")
    return pyarrow.dataset.field(column) > int(least)


def ask_others(environment: Path, question: EngineQuestion) -> Mapping[str, EngineAnswers]:
    """Ask DuckDB and Spark. Raises StorageError with what they said."""
    program = str(Path(__file__).with_name("program.py"))
    python = str(environment / "bin/python")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    ran = subprocess.run(  # noqa: S603 - our own program
        [python, program, json.dumps(asdict(question))],
        capture_output=True,
        text=True,
        check=False,
        env={**own, "PYSPARK_PYTHON": python},
    )
    if ran.returncode:
        raise StorageError(f"DuckDB or Spark failed: {ran.stderr[-3000:]}")
    return {
        engine: {door: EngineAnswer(sorted(map(tuple, rows)), files) for door, (rows, files) in doors.items()}
        for engine, doors in json.loads(ran.stdout.splitlines()[-1]).items()
    }


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)
