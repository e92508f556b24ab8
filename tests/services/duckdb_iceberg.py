"""DuckDB's own reader of Iceberg, in an environment of its own: a judge of what a table's files and metadata say.

The extension comes as a Python package for one release of DuckDB, whatever the tests run on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from services.programs import installed

RELEASE: Final = "1.5.5"
_EXTENSIONS: Final = ("avro", "httpfs", "iceberg")
_PACKAGES: Final = " ".join(
    [
        f"{name}=={RELEASE}"
        for name in ("duckdb", "duckdb-extensions", *(f"duckdb-extension-{each}" for each in _EXTENSIONS))
    ]
)
_PROGRAM: Final = """
import json, sys
import duckdb
from duckdb_extensions import import_extension
connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    import_extension(name)
    connection.execute(f"LOAD {name}")
print(json.dumps([connection.execute(query).fetchall() for query in json.load(sys.stdin)], default=str))
"""

Judge = Callable[[list[str]], list[list[tuple[Any, ...]]]]
"""Returns the rows of each query; values that JSON has not are texts."""


@pytest.fixture(scope="session")
def duckdb_iceberg() -> Judge:
    """Asks DuckDB, whose function ``iceberg_scan`` takes the location of a metadata file."""
    make = f'"{sys.executable}" -m venv {{}} && {{}}/bin/pip install -q {_PACKAGES}'
    environment = installed(f"duckdb-iceberg-{'-'.join(_EXTENSIONS)}-{RELEASE}", ["sh", "-c", make], hint="a shell")

    def asked(queries: list[str]) -> list[list[tuple[Any, ...]]]:
        ran = subprocess.run(
            [str(environment / "bin/python"), "-c", _PROGRAM],
            input=json.dumps(queries),
            capture_output=True,
            text=True,
            check=False,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        return [[tuple(row) for row in rows] for rows in json.loads(ran.stdout)]

    return asked
