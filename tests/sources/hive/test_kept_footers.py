"""A migration that was killed while it read footers goes on where it was; nothing that changed since is believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import FieldSchema
from services.hive_tables import HiveMaker

from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.procedures.hive.metrics import FRAGMENT
from metastore.procedures.hive.migration.kept_footers import WORTH_KEEPING, KeptFooters, missing
from metastore.procedures.hive.migration.migrate import Migration
from metastore.session import Session

pytestmark = pytest.mark.integration

Call = Callable[..., dict[str, Any]]
FILES = WORTH_KEEPING + 100
KILLED_AT = 700

DRIVER = """
import json, os, signal, sys
from metastore.config.settings import Settings
from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.session import connect
database, table, limit, settings = json.loads(sys.argv[1])
original, done = ParquetFooters.read, 0
def read(reader, source):
    global done
    if done == limit:
        os.kill(os.getpid(), signal.SIGKILL)
    done += 1
    return original(reader, source)
ParquetFooters.read = read
with connect(Settings.from_mapping(settings, environ={})) as session:
    session.call("lake.system.migrate", schema_name=database, table_name=table)
"""


@pytest.fixture
def killed(hive: HiveMaker, hive_metastore: str, tmp_path: Path) -> str:
    """A table of many files, which are one, that a killed migration has read so many footers of."""
    name: str = hive.table({"id": "bigint", "s": "string"})
    first = hive.write(name, {"id": [1, 2], "S": ["a", None]}, "f0000")
    for number in range(1, FILES):
        os.link(first, first.with_name(f"f{number:04}"))
    settings = {
        "drill.metastore": {
            "iceberg.location": {"base_path": str(tmp_path), "relative_path": "driver"},
            "catalogs.lake": {"type": "hive", "uri": hive_metastore, "hive.hive2-compatible": "true"},
            "engine.processes": 1,
        }
    }
    argument = json.dumps([hive.database, name, KILLED_AT, settings])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", DRIVER, argument], check=False, env=environment)
    assert ran.returncode == -signal.SIGKILL
    return name


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each footer that is read."""
    reads: list[None] = []
    original = ParquetFooters.read

    def read(reader: ParquetFooters, source: Any) -> Any:
        reads.append(None)
        return original(reader, source)

    monkeypatch.setattr(ParquetFooters, "read", read)
    return reads


def test_a_resumed_migration_reads_the_rest(
    hive: HiveMaker, session: Session, call: Call, killed: str, counted: list[None]
) -> None:
    """Of a file that was written anew since, and of one that came, the footers are read; kept ones are removed then."""
    folder = hive.folder / killed / "_iceberg" / "footers"
    kept = sum(1 for _ in folder.iterdir())
    assert kept == 3
    changed = hive.folder / killed / f"f{FILES - 1:04}"  # the last ones are read first
    changed.unlink()
    hive.write(killed, {"id": [3], "s": ["b"]}, changed.name)
    hive.write(killed, {"id": [4], "s": ["c"]}, "new")
    (folder / "cut.arrow").write_bytes((next(folder.iterdir())).read_bytes()[:-100])
    assert call("migrate", killed, dry_run=True)["records"] == 2 * (FILES - 1) + 2
    assert len(counted) == FILES - 600 + 2
    assert call("migrate", killed)["records"] == 2 * (FILES - 1) + 2
    assert len(counted) == 2 * (FILES - 600 + 2)
    assert [each.name for each in (hive.folder / killed / "_iceberg").iterdir()] != ["footers"]
    assert not folder.exists()
    table = session.catalogs.table("lake", hive.database, killed).load()
    assert table.scan(row_filter="id >= 3").to_arrow().sort_by("id").to_pylist() == [
        {"id": 3, "s": "b"},
        {"id": 4, "s": "c"},
    ]


def test_other_columns_make_kept_footers_useless(hive: HiveMaker, killed: str) -> None:
    """They hold numbers by the place of each column."""
    migration = Migration(client=hive.client, database=hive.database, name=killed)
    found = migration.survey(migration.table())
    rows = KeptFooters(migration.store, found).read()
    assert len(missing(found, rows)) == FILES - 600
    assert all(batch.schema.equals(FRAGMENT) for batch in rows)
    altered = hive.client.table(hive.database, killed)
    altered.sd.cols.append(FieldSchema("more", "int", None))
    hive.client.alter_table(altered)
    again = migration.survey(migration.table())
    assert KeptFooters(migration.store, again).read() == []
    assert len(missing(again, [])) == FILES
