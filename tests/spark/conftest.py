"""One Spark session for all tests of a process, and drivers that run in processes of their own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import metastore
from metastore.spark import SparkEngine
from metastore.spark.session import start_session

REPOSITORY = Path(metastore.__file__).parents[1]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores, as the metastore starts it; tables and Derby's files stay out of the repository."""
    session = start_session(
        {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        }
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def engine(spark: SparkSession) -> SparkEngine:
    """The engine on that session."""
    return SparkEngine(spark)


Driver = Callable[..., dict[str, Any]]


@contextmanager
def one_connect_server() -> Iterator[None]:
    """A local Connect server has one fixed port, so the processes that share the tests take turns."""
    with open(Path(tempfile.gettempdir()) / "metastore-tests-connect.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with every library of this one, save the package itself, however that is installed here."""
    folder = tmp_path_factory.mktemp("bare")
    libraries = folder / "libraries"
    libraries.mkdir()
    for entry in sorted(Path(path) for path in sys.path if path.endswith("site-packages")):
        for library in entry.iterdir():
            # A .pth file would bring an editable install back; without `site` (-S) it is not read, so it may come.
            if library.name != "metastore" and not (libraries / library.name).exists():
                (libraries / library.name).symlink_to(library)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec "{sys.executable}" -S "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def run_driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """Run a script as a Spark driver: another process, another working directory, the package on its path only.

    The script gets ``answer`` (a dict) to fill, which is returned. ``environ`` is added to this process's environment.
    """

    def run(script: str, **environ: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("driver")
        program = (
            f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
            f"answer = {{}}\n{script}\n"
            "import json; print('ANSWER', json.dumps(answer))"
        )
        # As a file, not with -c: a script's own folder is on its path, the working directory is not.
        (folder / "driver.py").write_text(program)
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        with one_connect_server() if "SPARK_CONNECT_MODE_ENABLED" in environ else nullcontext():
            ran = subprocess.run(
                [sys.executable, folder / "driver.py"],
                capture_output=True,
                check=False,
                cwd=elsewhere,
                env={**os.environ, **environ},
                text=True,
            )
        assert ran.returncode == 0, ran.stderr[-6000:]
        assert os.listdir(elsewhere) == []
        said = [line for line in ran.stdout.splitlines() if line.startswith("ANSWER ")]
        return dict(json.loads(said[-1].removeprefix("ANSWER ")), stderr=ran.stderr)

    return run
