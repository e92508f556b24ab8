"""A Spark session on the Hive Metastore of the tests, in a process of its own, since a process has one kind of session.

It speaks in lines of JSON: a statement in, its rows out, with types that JSON lacks as text. It is what tells the truth
about Hive tables: which rows they have, and how Hive's own writers lay their files out.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services.answering_program import AnsweringProgram

DRIVER = """
import json, os, sys
folder, uri = sys.argv[1:]
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from metastore.spark.session import start_session
spark = start_session({
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.hive.metastore.uris": uri,
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.hadoop.hive.downloaded.resources.dir": f"{folder}/resources",
    "spark.hadoop.hive.exec.scratchdir": f"{folder}/scratch",
    "spark.hadoop.hive.exec.local.scratchdir": f"{folder}/local_scratch",
    "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
    "spark.local.dir": f"{folder}/spark",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
})
print("READY", file=out, flush=True)
for line in sys.stdin:
    number, text, conf = json.loads(line)
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        rows = [row.asDict(recursive=True) for row in spark.sql(text).collect()]
        answer = {"rows": rows}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
    print(json.dumps(answer | {"number": number}, default=repr), file=out, flush=True)
"""


class SparkHive:
    """The other side of the driver."""

    def __init__(self, program: AnsweringProgram) -> None:
        self._program = program

    def sql(self, text: str, **conf: str) -> list[dict[str, Any]]:
        """Rows of a statement, after setting ``conf``; RuntimeError with what Spark says when it fails."""
        rows: list[dict[str, Any]] = self._program.ask(text, conf)["rows"]
        return rows


@pytest.fixture(scope="session")
def spark_hive(hive_metastore: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHive]:
    """The session, once it is ready."""
    folder = tmp_path_factory.mktemp("spark_hive")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(folder), hive_metastore],
            cwd=Path.cwd(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "READY":
            raise RuntimeError((folder / "log").read_text()[-3000:])
        yield SparkHive(AnsweringProgram(process))
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait(60)
