"""What Drill's module file asks for: after each commit the table keeps so many versions, and no file beside theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyiceberg.table.update import SetSnapshotRefUpdate

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]


def opened(folder: Path, **keys: Any) -> Metastore:
    """A metastore with the properties of Drill's module file, two of everything."""
    common = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    iceberg = {
        "location": {"base_path": str(folder), "relative_path": "metastore"},
        "components.common.properties": {f'"{key}"': value for key, value in common.items()},
        **keys,
    }
    return Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": iceberg}, environ={}))


def reached(folder: Path) -> set[str]:
    """Every file that the newest version file reaches, by PyIceberg's own readers, with that file and the hint."""
    [newest] = folder.glob("metadata/v*.metadata.json")
    table = StaticTable.from_metadata(str(newest))
    found = {str(newest), str(folder / "metadata/version-hint.text")}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {path.removeprefix("file://") for path in found}


def test_two_versions_stay(tmp_path: Path, unit: MakeUnit) -> None:
    """After each of ten commits: two versions, and on the disk what they reach, no less and no more."""
    with opened(tmp_path) as metastore:
        for number in range(10):
            metastore.tables.modify().overwrite([unit("t", owner=str(number))]).execute()
            metastore.tables.expiration_worker.join()
            assert metastore.tables.expiration_worker.failures == 0
            assert len(metastore.tables.metadata.history()) == min(number + 1, 2)
            if number > 1:
                folder = tmp_path / "metastore/tables"
                assert {str(path) for path in folder.rglob("*") if path.is_file()} == reached(folder)
        history = metastore.tables.metadata.history()
        before = metastore.tables.read().metadata_types(MetadataType.ALL).at(history[1].version).execute()
        assert [each.owner for each in before] == ["8"]


def test_a_tag_keeps_its_version(tmp_path: Path, unit: MakeUnit) -> None:
    """However many commits come after it."""
    with opened(tmp_path) as metastore:
        version = metastore.tables.modify().overwrite([unit("t", owner="tagged")]).execute()
        metastore.tables.expiration_worker.join()
        table = metastore.tables.table
        tag = SetSnapshotRefUpdate(ref_name="kept", type="tag", snapshot_id=version)
        table.entry.commit(table.writable(), (), (tag,))
        for number in range(5):
            metastore.tables.modify().overwrite([unit("t", owner=str(number))]).execute()
            metastore.tables.expiration_worker.join()
        tagged = metastore.tables.read().metadata_types(MetadataType.ALL).at(version).execute()
        assert [each.owner for each in tagged] == ["tagged"]
        assert len(metastore.tables.table.load().metadata.snapshots) == 3  # type: ignore[union-attr] # it stands


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ({"expiration.retain_last": 4}, 4),
        ({"expiration.min_age": "1 day"}, 6),
        ({'components.tables.properties."gc.enabled"': "false"}, 6),
        ({'components.tables.properties."write.metadata.delete-after-commit.enabled"': "false"}, 6),
        ({'components.tables.properties."write.metadata.delete-after-commit.enabled"': None}, 6),
    ],
)
def test_what_the_configuration_keeps_stays(tmp_path: Path, unit: MakeUnit, keys: dict[str, Any], kept: int) -> None:
    """Of the properties and the settings of expiration, what keeps more holds."""
    with opened(tmp_path, **keys) as metastore:
        for number in range(6):
            metastore.tables.modify().overwrite([unit("t", owner=str(number))]).execute()
            metastore.tables.expiration_worker.join()
        assert len(metastore.tables.metadata.history()) == kept


def test_a_burst_of_commits_ends_with_two(tmp_path: Path, unit: MakeUnit) -> None:
    """Commits that come while a run is under way are looked at by one that follows."""
    with opened(tmp_path) as metastore:
        for number in range(20):
            metastore.tables.modify().overwrite([unit("t", owner=str(number))]).execute()
        metastore.tables.expiration_worker.join()
        assert len(metastore.tables.metadata.history()) == 2


def test_a_component_without_the_property_keeps_all(tmp_path: Path, unit: MakeUnit) -> None:
    """It is asked of each component by its own properties."""
    keys: dict[str, Any] = {"components.common.properties": {}}
    with opened(tmp_path, **keys) as metastore:
        for number in range(4):
            metastore.tables.modify().overwrite([unit("t", owner=str(number))]).execute()
        assert not metastore.tables.expiration.is_due()
        assert len(metastore.tables.metadata.history()) == 4
