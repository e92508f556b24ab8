"""The repair: it goes back to the newest whole version, and deletes nothing; a dry run decides the same."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable
from support.integrity_site import Site

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import FormatError, StorageError
from metastore.lake.stores.pointer_store import LocalPointers
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import connect

MakeUnit = Callable[..., TableMetadataUnit]


def is_whole(version_file: Path) -> bool:
    """Whether PyIceberg itself reaches every file of the version's current snapshot, each of its right size."""
    try:
        table = StaticTable.from_metadata(str(version_file))
        snapshot = table.current_snapshot()
        if snapshot is None:
            return True
        for manifest in snapshot.manifests(table.io):
            if len(table.io.new_input(manifest.manifest_path)) != manifest.manifest_length:
                return False
            for entry in manifest.fetch_manifest_entry(table.io):
                if len(table.io.new_input(entry.data_file.file_path)) != entry.data_file.file_size_in_bytes:
                    return False
    except Exception:  # noqa: BLE001 - whatever a damaged file makes it raise, the version is not whole
        return False
    return True


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_damage(make_site: Callable[..., Site], data: st.DataObject) -> None:
    """Files are lost or cut by chance, the hint says anything: afterwards a whole version is read, or nothing is done.

    The judge of wholeness is PyIceberg. No file is lost by the repair, and what is read is what that version had.
    """
    with TemporaryDirectory() as folder:
        site = make_site(Path(folder))
        files = sorted(path for path in (Path(folder) / "m").rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), max_size=3, unique=True)):
            if data.draw(st.booleans()):
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:-3])
        hint = data.draw(st.sampled_from([None, "1", "3", "4", "9", "x"]))
        if hint is not None:
            (site.metadata / "version-hint.text").write_text(hint)
        versions = {int(path.name[1:].split(".")[0]): path for path in site.metadata.glob("v*.metadata.json")}
        whole = [number for number, path in versions.items() if is_whole(path)]
        before = Counter(site.contents())
        with site.session() as ms:
            planned = ms.repair(dry_run=True)
            assert Counter(site.contents()) == before
            done = ms.repair()
            assert (planned.components, planned.moved_to is None) == (done.components, done.moved_to is None)
        assert Counter(site.contents()) == before
        if not done.obstacles:
            newest = max(versions, default=None)
            if newest is None:
                assert not (site.metadata / "version-hint.text").exists()
                return
            assert max(whole) == max(
                int(path.name[1:].split(".")[0]) for path in site.metadata.glob("v*.metadata.json")
            )
            assert (site.metadata / "version-hint.text").read_text() == str(max(whole))
            current = StaticTable.from_metadata(str(site.metadata / f"v{max(whole)}.metadata.json")).current_snapshot()
            assert site.tables() == (site.known[current.snapshot_id] if current else set())
            with site.session() as ms:
                assert not [each for each in ms.check().findings if "current" not in each.next_step]
            with Metastore.open(site.settings) as metastore:
                metastore.tables.modify().overwrite([site.unit("new")]).execute()
            assert "new" in site.tables()
        else:
            is_only_the_empty_one = whole == [1] and len(versions) > 1
            assert not whole or is_only_the_empty_one


@pytest.mark.parametrize("damage", ["{}", "null", "[" * 50_000, '"properties":null', '"schemas":1', '"snapshots":[[]]'])
def test_damaged_versions_are_moved_aside(site: Site, damage: str) -> None:
    """To a folder beside the components, under their names and with their content; the next commit goes on.

    Whatever JSON a version file holds, reading it says that it is damaged, and so does the check.
    """
    newest = site.metadata / "v4.metadata.json"
    if damage[0] == '"':
        damage = json.dumps({**json.loads(newest.read_text()), **json.loads(f"{{{damage}}}")})
    newest.write_text(damage)
    with pytest.raises(FormatError, match="is not the metadata of an Iceberg table"):
        site.tables()
    with site.session() as ms:
        assert [(finding.severity, finding.subject) for finding in ms.check().findings] == [("error", "tables")]
        report = ms.repair()
    [done] = report.components
    assert (done.name, done.version, list(done.aside), done.hint) == ("tables", 3, ["v4.metadata.json"], 3)
    assert report.moved_to is not None
    assert Path(report.moved_to).parent == site.folder / "m/damaged"
    assert (Path(report.moved_to) / "tables/v4.metadata.json").read_text() == damage
    assert site.tables() == {"a", "b"}
    with site.session() as ms:
        assert ms.repair().components == ()
        assert ms.check().findings == ()


def test_no_clean_up_takes_what_was_moved(site: Site) -> None:
    """Neither an expiration nor the removal of orphans of any component."""
    (site.metadata / "v4.metadata.json").write_text("{}")
    site.keys = {"drill.metastore.procedures.min_orphan_age": "0 s"}
    with site.session() as ms:
        moved = Path(str(ms.repair().moved_to)) / "tables/v4.metadata.json"
        ms.metastore.tables.expiration.expire()
        for path in (site.folder / "m").rglob("*"):
            os.utime(path, (1, 1))
        arguments: dict[str, Any] = {
            "schema": "components",
            "older_than": datetime.now(timezone.utc) - timedelta(seconds=1),
        }
        for component in ms.metastore.components:
            if (site.folder / "m" / component).exists():
                ms.call("metastore.system.remove_orphan_files", table_name=component, **arguments)
    assert moved.exists()


def test_a_repair_that_is_cut_short_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails between two moves: nothing is lost, and a second run completes it."""
    for number in (3, 4):
        (site.metadata / f"v{number}.metadata.json").write_text("{}")
    before = Counter(site.contents())
    moved = LocalPointers.move
    calls: list[str] = []

    def failing(store: LocalPointers, source: str, target: str) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        moved(store, source, target)

    with monkeypatch.context() as patch, site.session() as ms:
        patch.setattr(LocalPointers, "move", failing)
        with pytest.raises(StorageError, match="Run `metastore repair` again"):
            ms.repair()
    assert Counter(site.contents()) == before
    with site.session() as ms:
        ms.repair()
    assert Counter(site.contents()) == before
    assert site.tables() == {"a"}


def test_only_the_empty_version_is_whole(site: Site) -> None:
    """To go back to it would forget everything: that is refused, and says what to do."""
    for path in site.component.glob("dfs/**/*.parquet"):
        path.unlink()
    before = site.contents()
    with site.session() as ms:
        [done] = ms.repair().components
    assert done.obstacle is not None
    assert "restore files from a backup" in done.obstacle
    assert site.contents() == before


def test_a_catalog_keeps_its_pointer_itself(tmp_path: Path, unit: MakeUnit) -> None:
    """Damage there is told, and nothing is moved."""
    iceberg = {
        "location": {"base_path": str(tmp_path), "relative_path": "m"},
        "catalog": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"},
    }
    made = Settings.from_mapping({"drill.metastore.iceberg": iceberg}, environ={})
    with connect(made) as ms:
        ms.metastore.tables.modify().overwrite([unit("a")]).execute()
        assert ms.repair().components == ()
        assert ms.check().findings == ()
        location = Path(ms.metastore.tables.table.load().metadata_location.removeprefix("file://"))  # type: ignore[union-attr] # it stands
        content = location.read_bytes()
        location.unlink()
    with connect(made) as ms:
        [done] = ms.repair().components
        assert done.obstacle is not None
        assert "keeps the pointer" in done.obstacle
        assert ms.check().errors == 1
        location.write_bytes(content)
        assert ms.repair().components == ()
