"""A daemon with two workers is killed at random moments of a pass over several tables: nothing reachable is lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from safety.faults import Fault, Steps
from safety.sizes import SEED, SIZE

from metastore.config import load_text
from metastore.daemon.process import run_once
from metastore.session import Session, connect

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = 4 if SIZE.faults else 50
NAMES = ("giving", "taking", "plain", "small")
CONF = """drill.metastore {{
  iceberg.location {{ base_path = "{folder}", relative_path = m }}
  catalogs.lake {{ type = sql, uri = "sqlite:///{folder}/lake.db", warehouse = "file://{folder}/lake" }}
  daemon {{ lease.duration = 1 s, jitter = 0.0, workers = 2, http.port = null }}
  policies.catalogs.lake {{
    expire_snapshots {{ enabled = true, older_than = 0 s, retain_last = 1, schedule = 1 ms }}
    remove_orphan_files {{ enabled = true, older_than = 2 days, schedule = 1 ms }}
  }}
}}"""


class Site:
    """A lake whose tables have work for two actions; one table has taken a file of another one in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saved = folder / "site", folder / "saved"

    def session(self) -> Session:
        """As the daemon opens it."""
        return connect(load_text(CONF.format(folder=self.folder)))

    def build(self) -> None:
        """Each table has three snapshots and an orphan."""
        self.folder.mkdir()
        with self.session() as session:
            lake = session.catalogs.open("lake")
            lake.create_namespace("db")
            tables = {name: lake.create_table(f"db.{name}", pa.schema([("id", pa.int64())])) for name in NAMES}
            for table in tables.values():
                for number in range(2):
                    table.append(pa.table({"id": [number]}))
                orphan = Path(table.metadata.location.removeprefix("file://")) / "data/orphan.parquet"
                pq.write_table(pa.table({"id": [99]}), orphan)
                os.utime(orphan, (0, 0))
            taken = next(iter(tables["giving"].scan("id = 1").plan_files())).file.file_path
            tables["taking"].add_files([taken])
            for table in tables.values():
                table.delete("id = 1" if table is tables["giving"] else "id = 0")
        shutil.copytree(self.folder, self.saved)

    def put_back(self) -> None:
        """As it was before the pass; times of files are kept."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder)

    def run(self, steps: Steps) -> None:
        """One pass of the daemon."""
        with self.session() as session, steps.installed():
            run_once(session, dry_run=False)

    def tables(self) -> dict[str, Table]:
        """All tables, as they are now."""
        with self.session() as session:
            lake = session.catalogs.open("lake")
            return {name: lake.load_table(f"db.{name}") for name in NAMES}

    def rows(self) -> dict[str, list[int]]:
        """The rows of each table, as PyIceberg reads them from its files."""
        return {name: sorted(map(int, each.scan().to_arrow()["id"].to_numpy())) for name, each in self.tables().items()}

    def missing(self) -> list[str]:
        """Files that a snapshot of any table names, and that are gone."""
        named = set()
        for table in self.tables().values():
            named |= {each.manifest_list for each in table.metadata.snapshots}
            for snapshot in table.metadata.snapshots:
                manifests = snapshot.manifests(table.io)
                named |= {each.manifest_path for each in manifests}
                named |= {e.data_file.file_path for m in manifests for e in m.fetch_manifest_entry(table.io)}
        return [each for each in named if not Path(each.removeprefix("file://")).exists()]


def die(site: Site, at: int) -> None:
    """In a process of its own: begin the pass, and be killed on the way."""
    site.run(Steps(str(site.folder), at, Fault.DIES))
    os._exit(0)


def test_killed_at_random_moments_of_a_pass(tmp_path: Path) -> None:
    """Rows of all tables are as before, no snapshot lacks a file; a pass after that does all that was to do."""
    site = Site(tmp_path)
    site.build()
    before = site.rows()
    steps = Steps(str(site.folder))
    site.run(steps)
    assert (site.rows(), site.missing()) == (before, [])
    assert list((site.folder / "lake").rglob("orphan.parquet")) == []
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    moments = sorted(random.Random(SEED).sample(range(1, len(steps.seen) + 1), KILLS))
    for at in moments:
        site.put_back()
        child = context.Process(target=die, args=(site, at))
        child.start()
        child.join(60)
        assert child.exitcode in (-signal.SIGKILL, 0)  # 0: this pass took fewer operations.
        assert (site.rows(), site.missing()) == (before, []), f"operation {at}, {steps.seen[at - 1]}"
    site.run(Steps(str(site.folder)))
    assert (site.rows(), site.missing()) == (before, [])
    assert all(len(table.metadata.snapshots) == 1 for table in site.tables().values())
