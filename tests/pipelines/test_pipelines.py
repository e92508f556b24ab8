"""dbt, Airflow and Dagster run the pages that are about them (``--services pipelines``).

Each page says what pip installs; it gets that in an environment of its own, with the code of this checkout.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from services.programs import installed
from support.pages import TYPED_ELSEWHERE, steps

import metastore

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(1500)]

CHECKOUT: Final = Path(metastore.__file__).parents[1]
PAGES: Final = sorted(
    path.name for path in CHECKOUT.glob("docs/how-to/*.md") if TYPED_ELSEWHERE.search(path.read_text(encoding="utf-8"))
)
QUIET: Final = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "False",
    "NO_COLOR": "1",
}


def text(page: str) -> str:
    """The page as it is shown."""
    return (CHECKOUT / "docs/how-to" / page).read_text(encoding="utf-8")


def environment(page: str, home: Path) -> dict[str, str]:
    """What the commands of a page run in: the programs that its line of pip brings, and a home of its own."""
    [line] = re.findall(r"^pip install (.+)$", text(page), re.MULTILINE)
    wanted = line.replace("lake-metastore", str(CHECKOUT))
    make = f"{sys.executable} -m venv {{}} && {{}}/bin/pip install -q {wanted}"
    version = hashlib.sha256(make.encode() + (CHECKOUT / "pyproject.toml").read_bytes()).hexdigest()[:8]
    programs = installed(f"{Path(page).stem}-{version}", ["sh", "-c", make], hint="a shell") / "bin"
    home.mkdir()
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    return {"PATH": path, "PYTHONPATH": str(CHECKOUT), "HOME": str(home), "COLUMNS": "80", **QUIET}


def type_in(page: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Every step of ``page`` ends well and prints what the page shows."""
    folder.mkdir()
    for step in steps(text(page)):
        assert step.difference(folder, environment) is None


def test_the_pages_are_found() -> None:
    """Those of the three."""
    assert PAGES == ["airflow.md", "dagster.md", "dbt-duckdb.md"]


@pytest.mark.parametrize("page", ["airflow.md", "dagster.md"])
def test_a_page_does_what_it_shows(page: str, tmp_path: Path) -> None:
    """In the scheduler itself."""
    type_in(page, tmp_path / "work", environment(page, tmp_path / "home"))


def test_dbt_opens_no_file_that_the_source_or_the_model_excludes(tmp_path: Path) -> None:
    """All other files are damaged after ANALYZE, at the same size and time: a build that opens one fails."""
    own, work = environment("dbt-duckdb.md", tmp_path / "home"), tmp_path / "work"
    type_in("dbt-duckdb.md", work, own)
    for file in work.glob("sales/*/*.parquet"):
        if file.parts[-2:] != ("month=6", "part-3.parquet"):
            status = file.stat()
            file.write_bytes(b"\0" * status.st_size)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    built = ["dbt", "build", "--quiet"]
    subprocess.run(built, check=True, cwd=work, env=own)
    model = work / "models" / "june.sql"
    model.write_text(model.read_text().replace("month = 6", "month = 7"))
    assert subprocess.run(built, check=False, cwd=work, env=own, capture_output=True).returncode
