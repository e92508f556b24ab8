"""``metastore upgrade``: what other programs wrote gets columns, and says the same as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.components.column_upgrade import Upgraded, write_columns
from metastore.config.settings import Settings
from metastore.iceberg.file_system_catalog import FileSystemCatalog
from metastore.metastore import Metastore
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.operations.read import Read

NAMES = ("tableName", "metadataKey")


def unit(kind: str, key: str, table: str, **values: Any) -> TableMetadataUnit:
    """A unit of a table ``dfs.tmp.<table>``."""
    identity: dict[str, Any] = {"storage_plugin": "dfs", "workspace": "tmp", "table_name": table, "metadata_key": key}
    return TableMetadataUnit(**identity, metadata_type=kind, **values)


def units(table: str, segments: int) -> Iterator[TableMetadataUnit]:
    """General information, and segments of three files."""
    yield unit("TABLE", GENERAL_INFO, table, location="/t")
    for number in range(segments):
        key = f"k={number}"
        yield unit("SEGMENT", key, table, metadata_identifier=key)
        for file in range(3):
            known = {"`n`": ColumnStatistics("BIGINT", number, file).to_json()}
            name = f"{key}/{file}"
            yield unit("FILE", key, table, metadata_identifier=name, path=f"/t/{name}", columns_statistics=known)


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[Metastore]:
    """Two tables as another program writes them, and a partition that has no files."""
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    with Metastore.open(Settings.from_mapping({"drill.metastore.iceberg.location": location})) as opened:
        bare = unit("SEGMENT", "bare", "a", metadata_identifier="bare")
        opened.tables.modify().overwrite([*units("a", 5), *units("b", 2), bare]).execute()
        FileSystemCatalog("other", str(tmp_path / "metastore")).load_table("tables").overwrite(rows_of(opened))
        yield opened


def rows_of(metastore: Metastore) -> pa.Table:
    """All rows."""
    return metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()


def without_columns(metastore: Metastore) -> set[str]:
    """The metadata keys of partitions that have none."""
    partitions = metastore.tables.read().metadata_types(MetadataType.ALL).partitions()
    return {key[-1] for key, group in partitions.items() if any(each.columns is None for each in group.files)}


def test_partitions_without_columns_get_them(metastore: Metastore) -> None:
    """One that can have none stays as it is; the second time nothing is left to do, and no version is made."""
    before = sorted(map(repr, rows_of(metastore).to_pylist()))
    assert len(without_columns(metastore)) == 5 + 2
    done = write_columns(metastore.tables)
    assert done == Upgraded(7, metastore.tables.metadata.version)
    assert without_columns(metastore) == {GENERAL_INFO, "bare"}
    assert sorted(map(repr, rows_of(metastore).to_pylist())) == before
    assert write_columns(metastore.tables) == Upgraded(0, done.version)


def test_what_can_have_no_facts_is_not_written_again(metastore: Metastore) -> None:
    """Its columns serve planning, and there is nothing to gain."""
    odd = unit("SEGMENT", "k=0", "a", metadata_identifier="k=0", last_modified_time=2**63 - 1)
    file = unit("FILE", "k=0", "a", metadata_identifier="k=0/0", path="/t/k=0/0")
    metastore.tables.modify().overwrite([odd, file]).execute()
    assert write_columns(metastore.tables).partitions == 4 + 2
    assert write_columns(metastore.tables).partitions == 0


def test_only_what_lacks_columns_is_written(metastore: Metastore) -> None:
    """Data files that have them stay."""
    write_columns(metastore.tables)
    [rewritten] = [one for one in units("a", 1) if one.metadata_type == "SEGMENT"]
    files = {key: group.paths for key, group in partitions(metastore).items()}
    theirs = FileSystemCatalog("other", str(Path(str(metastore.tables.metadata.location)).parent)).load_table("tables")
    rows = rows_of(metastore)
    mine = [key == rewritten.metadata_key for key in rows["metadataKey"].to_pylist()]
    theirs.overwrite(rows.filter(pa.array(mine)), "metadataKey = 'k=0'")
    assert write_columns(metastore.tables).partitions == 2
    changed = {key[-1] for key, group in partitions(metastore).items() if group.paths != files[key]}
    assert changed == {"k=0"}


def partitions(metastore: Metastore) -> dict[Any, Any]:
    """All partitions."""
    return dict(metastore.tables.read().metadata_types(MetadataType.ALL).partitions())


@pytest.mark.parametrize(("is_changed", "plans"), [(False, 1), (True, 2)])
def test_all_commits_share_one_plan_until_others_write(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch, is_changed: bool, plans: int
) -> None:
    """Two tables are two commits; the second fails and is planned again if another program wrote its partition."""
    theirs = FileSystemCatalog("other", str(Path(str(metastore.tables.metadata.location)).parent)).load_table("tables")
    rows = rows_of(metastore)
    of_b = [table == "b" and key == "k=0" for table, key in zip(*(rows[n].to_pylist() for n in NAMES), strict=True)]
    made: list[int] = []
    planned = Read.partitions

    def noted(self: Read[TableMetadataUnit]) -> Any:
        found = planned(self)
        made.append(len(found))
        if is_changed and len(made) == 1:
            theirs.overwrite(rows.filter(pa.array(of_b)), "tableName = 'b' and metadataKey = 'k=0'")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Read, "partitions", noted)
        assert write_columns(metastore.tables).partitions == 5 + 2
    assert len(made) == plans
    assert without_columns(metastore) == {GENERAL_INFO, "bare"}
    assert sorted(map(repr, rows_of(metastore).to_pylist())) == sorted(map(repr, rows.to_pylist()))
