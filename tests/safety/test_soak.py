"""Writers, readers, an expirer and an orphan remover on one component: no error to anybody, no update lost, fair turns.

The short form is 4 writers with 15 commits each; the long one 8 with at least 200 each, for two minutes, which is long
enough beside the start of a process to ask whether all had their share.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import pytest
from pyiceberg.table import Table
from safety import soak
from safety.sizes import SIZE

from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.vocabulary import MetadataType

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

READERS = 2


def test_all_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every commit is one version in one line of history; at the end the last values stand, and no file too many."""
    until = str(tmp_path / "until")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["safety.soak"])
    with context.Pool(SIZE.writers + READERS + 2) as pool:
        folder = str(tmp_path)
        others = [pool.apply_async(soak.read, (folder, until)) for _ in range(READERS)]
        others += [pool.apply_async(soak.expire, (folder, until, SIZE.kept_s))]
        others += [pool.apply_async(soak.clean, (folder, until))]
        given = [(folder, writer, SIZE.commits, SIZE.soak_s, SIZE.kept_s) for writer in range(SIZE.writers)]
        written = [pool.apply_async(soak.write, arguments) for arguments in given]
        try:
            writers = [each.get() for each in written]
        finally:
            Path(until).touch()
        told = [each.get() for each in others]
    made = [version for writer in writers for version in writer["versions"]]
    assert len(set(made)) == len(made) >= SIZE.writers * SIZE.commits
    with soak.session_at(tmp_path) as session:
        units = session.tables.read().metadata_types(MetadataType.ALL).execute()
        found = {unit.table_name: unit.owner for unit in units}
        last = [len(writer["versions"]) - 1 for writer in writers]
        assert [found[f"own{writer}"] for writer in range(SIZE.writers)] == [str(n) for n in last]
        assert found["shared"] in {f"{writer}-{n}" for writer, n in enumerate(last)}
        assert len(found) == 1 + sum(1 + min(50, n + 1) for n in last)
        table = FileSystemCatalog("look", str(tmp_path / "metastore")).load_table("tables")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.sequence_number == len(made)
        assert snapshot.snapshot_id in {writer["versions"][-1] for writer in writers}
        session.tables.expiration.expire()
    component = tmp_path / "metastore/tables"
    table = FileSystemCatalog("look", str(component.parent)).load_table("tables")
    assert {str(path) for path in component.rglob("*") if path.is_file()} == reachable(table, component)
    first_end = min(writer["ends"][-1] for writer in writers)
    done = [sum(end <= first_end for end in writer["ends"]) for writer in writers]
    longest = max(writer["longest"] for writer in writers)
    with capsys.disabled():
        sys.stdout.write(
            f"\nsoak: {len(made)} commits of {SIZE.writers} processes, others: {told}; fairness (fewest / most commits "
            f"when the first was done): {min(done)} / {max(done)}; longest commit {longest:.1f} s\n"
        )
    if SIZE.soak_s:
        assert min(done) >= max(done) / 5, "writers of one machine take turns: nobody is left behind"


def reachable(table: Table, component: Path) -> set[str]:
    """Files of all kept versions, by PyIceberg."""
    found = {table.metadata_location, str(component / "metadata/version-hint.text")}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return found
