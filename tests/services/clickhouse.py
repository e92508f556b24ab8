"""ClickHouse as a library, in an environment of its own: a judge of what an Iceberg table's files say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import pytest
from services.programs import installed

RELEASE: Final = "4.4.0"
_PROGRAM: Final = """
import json, sys
import chdb
print(json.dumps([str(chdb.query(query, "TSV")) for query in json.load(sys.stdin)]))
"""

Judge = Callable[[list[str]], list[str]]
"""Returns the rows of each query, as texts with tabs."""


@pytest.fixture(scope="session")
def clickhouse() -> Judge:
    """Asks ClickHouse, whose function ``icebergLocal`` takes the location of a table."""
    make = f'"{sys.executable}" -m venv {{}} && {{}}/bin/pip install -q chdb=={RELEASE}'
    environment = installed(f"chdb-{RELEASE}", ["sh", "-c", make], hint="a shell")

    def asked(queries: list[str]) -> list[str]:
        ran = subprocess.run(
            [str(environment / "bin/python"), "-c", _PROGRAM],
            input=json.dumps(queries),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",  # ClickHouse reads no file outside
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        found: list[str] = json.loads(ran.stdout.splitlines()[-1])
        return found

    return asked
