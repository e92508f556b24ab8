"""Processes that write to one component at once: no update is lost, and every commit is one version."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

pytestmark = pytest.mark.integration

WRITERS, COMMITS = 4, 50


def open_at(folder: Path, **iceberg: object) -> Metastore:
    """The metastore in ``folder``, on the real clock."""
    given = {"location": {"base_path": str(folder), "relative_path": "metastore"}, **iceberg}
    return Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": given}, environ={}))


def unit(table: str, owner: str) -> TableMetadataUnit:
    """General information of one table."""
    return TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name=table,
        owner=owner,
        metadata_type="TABLE",
        metadata_key=GENERAL_INFO,
        metadata_identifier=GENERAL_INFO,
    )


def write(folder: Path, writer: int, expiring: bool) -> list[int]:
    """Fifty commits: each replaces the writer's own table, adds another, and replaces one that all share."""
    versions = []
    with open_at(folder, expiration={"period": {"millis": 200}} if expiring else {"retain_last": 1_000}) as metastore:
        for n in range(COMMITS):
            units = [unit(f"own{writer}", str(n)), unit(f"t{writer}-{n}", str(n)), unit("shared", f"{writer}-{n}")]
            versions.append(metastore.tables.modify().overwrite(units).execute())
        metastore.tables.expiration_worker.join()
        assert metastore.tables.expiration_worker.failures == 0
    return versions


@pytest.mark.exhaustive
@pytest.mark.parametrize("expiring", [False, True], ids=["", "while expiring"])
def test_writers_of_many_processes_lose_nothing(
    tmp_path: Path,
    iceberg_table: Callable[[Path], StaticTable],
    as_rows: Callable[[pa.Table], list[str]],
    expiring: bool,
) -> None:
    """Every commit is one version, the history is one line, and PyIceberg reads the same rows."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(WRITERS) as pool:
        versions = pool.starmap(write, [(tmp_path, writer, expiring) for writer in range(WRITERS)])
    made = [version for by_writer in versions for version in by_writer]
    assert len(set(made)) == WRITERS * COMMITS
    metastore = open_at(tmp_path)
    found = {u.table_name: u.owner for u in metastore.tables.read().metadata_types(MetadataType.ALL).execute()}
    shared = found.pop("shared")
    expected = {f"t{writer}-{n}": str(n) for writer in range(WRITERS) for n in range(COMMITS)}
    assert found == expected | {f"own{writer}": str(COMMITS - 1) for writer in range(WRITERS)}
    assert shared in {f"{writer}-{COMMITS - 1}" for writer in range(WRITERS)}
    history = metastore.tables.metadata.history()
    if not expiring:
        assert {v.version for v in history} == set(made)
        assert [v.parent for v in history] == [*(v.version for v in history[1:]), None]
    component = tmp_path / "metastore/tables"
    theirs = iceberg_table(component)
    snapshot = theirs.current_snapshot()
    assert snapshot is not None
    assert snapshot.sequence_number == WRITERS * COMMITS
    ours = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    assert as_rows(theirs.scan().to_arrow()) == as_rows(ours)
