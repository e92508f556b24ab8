"""SIGKILL before each remote call and each file that a migration writes: the table works, and the next call ends it.

The lock of the killed process is in nobody's way, and gone after that call.

The points are not listed anywhere: the driver counts what the client and the writers do, and dies at the n-th, for
every n until one run comes through.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services.hive_tables import HiveMaker

import metastore
from metastore.session import Session

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REPOSITORY = Path(metastore.__file__).parents[1]
MOST_POINTS = 45

DRIVER = """
import json, os, signal, sys

from pyiceberg.io.pyarrow import PyArrowFile

from metastore.config.settings import Settings
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore
from metastore.procedures.hive.migration import migrate
from metastore.session import connect

database, tables, settings = json.loads(sys.argv[1])
done, limit, last = 0, None, None

def counted(owner, name):
    original = getattr(owner, name)
    def call(*arguments, **named):
        global done, last
        last = f"{name} {arguments[2]}" if name == "_result" else name
        if done == limit:
            print(last, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return original(*arguments, **named)
    setattr(owner, name, call)

for owner, name in (
    (HiveClient, "_result"), (PyArrowFile, "create"), (HiveStore, "contents"), (HiveStore, "make_durable"),
    (migrate, "remove_attempts"), (migrate, "remove_folder"),
):
    counted(owner, name)

for limit, table in enumerate(tables):
    child = os.fork()
    if not child:
        with connect(Settings.from_mapping(settings, environ={})) as session:
            session.call("lake.system.migrate", schema_name=database, table_name=table)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print("DONE", limit, flush=True)
"""


@pytest.mark.exhaustive
def test_every_point(
    hive: HiveMaker, hive_metastore: str, tmp_path: Path, session: Session, call: Callable[..., dict[str, Any]]
) -> None:
    """Before the switch Hive sees what it saw; after it the rows are Iceberg's; one more call leaves one attempt."""
    names = [_made(hive) for _ in range(MOST_POINTS)]
    before = {name: _seen(hive, name) for name in names}
    points = _killed(hive, names, hive_metastore, tmp_path)
    assert points[0] == "_result get_table"
    assert {"create", "make_durable", "_result lock", "remove_attempts"} <= set(points)
    switch = points.index("_result alter_table_with_environment_context")
    for at, (point, name) in enumerate(zip(points, names, strict=False)):
        is_hive = at <= switch
        if is_hive:
            assert _seen(hive, name) == before[name], point
        else:
            assert _rows(session, hive, name) == [0, 1], point
        again = call("migrate", name)
        assert again["status"] == ("migrated" if is_hive else "already migrated"), point
        assert _rows(session, hive, name) == [0, 1], point
        assert len(list((hive.folder / name / "_iceberg").iterdir())) == 1, point
        formats = {each.sd.inputFormat.rpartition(".")[2] for each in hive.client.partitions(hive.database, name)}
        assert formats == {"FileInputFormat"}, point
        assert hive.client.locks(hive.database, name) == [], point
    assert _rows(session, hive, names[len(points)]) == [0, 1]


def _made(hive: HiveMaker) -> str:
    name: str = hive.table({"id": "bigint"}, {"p": "string"})
    for number, value in enumerate(("a b", "x/y")):
        hive.write(hive.partition(name, value), {"id": [number]})
    return name


def _killed(hive: HiveMaker, names: list[str], uri: str, folder: Path) -> list[str]:
    """What each of the runs was about to do when it died; one more table is migrated."""
    settings = {
        "drill.metastore": {
            "iceberg.location": {"base_path": str(folder), "relative_path": "driver"},
            "catalogs.lake": {"type": "hive", "uri": uri, "hive.hive2-compatible": "true"},
            "engine.processes": 1,
        }
    }
    argument = json.dumps([hive.database, names, settings])
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, argument], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    lines = ran.stdout.splitlines()
    assert lines, ran.stderr[-3000:]
    assert lines[-1] == f"DONE {len(lines) - 1}", ran.stderr[-3000:]
    return lines[:-1]


def _seen(hive: HiveMaker, name: str) -> tuple[Any, ...]:
    """What Hive sees: the descriptions, and every file that is not hidden, by its content."""
    visible = [
        (str(path), path.read_bytes())
        for path in sorted((hive.folder / name).rglob("*"))
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(hive.folder).parts)
    ]
    return hive.client.table(hive.database, name), hive.client.partitions(hive.database, name), visible


def _rows(session: Session, hive: HiveMaker, name: str) -> list[int]:
    table = session.catalogs.table("lake", hive.database, name).load()
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())
