"""Expiration counted on the disk: exactly what only old versions reach goes, and what a failed run left goes next."""

from __future__ import annotations

import fcntl
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable, Table
from support.descriptors import full_path

from metastore.components.expiration import handler as handler_module
from metastore.components.expiration.handler import ExpirationResult
from metastore.components.metastore import Metastore
from metastore.errors import ConflictError, NotFoundError, OutcomeUnknownError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.snapshots.sweep import AssertHistory, TableFile, mark
from metastore.lake.stores import deletion as deletion_module
from metastore.lake.stores.deletion import DeletionChunk
from metastore.lake.stores.local import LocalFileIO
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
LoadTable = Callable[[Path], StaticTable]
ALL = MetadataType.ALL


@pytest.fixture
def component(tmp_path: Path) -> Path:
    """The folder of the tables component."""
    return tmp_path / "metastore/tables"


@pytest.fixture
def catalog(component: Path) -> FileSystemCatalog:
    """Another process's view of the catalog."""
    return FileSystemCatalog("other", str(component.parent))


def kind_of(path: Path) -> str:
    """What a file is, by its name."""
    if path.suffix == ".parquet":
        return "data"
    if path.suffix == ".avro":
        return "list" if path.name.startswith("snap-") else "manifest"
    return "version" if path.suffix == ".json" else "hint"


def files(component: Path) -> set[Path]:
    """Every file of the component."""
    return {path for path in component.rglob("*") if path.is_file()}


def counted(paths: Iterable[Path]) -> dict[str, int]:
    """How many files of each kind."""
    return dict(Counter(kind_of(path) for path in paths))


def reachable(table: Table | StaticTable) -> set[Path]:
    """Data files, manifests and lists that kept versions reach, found by PyIceberg."""
    found: set[str] = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io))
    return {Path(path) for path in found}


def assert_exact(component: Path, catalog: FileSystemCatalog) -> None:
    """The disk holds what kept versions reach, one version file and the hint; nothing more, nothing less."""
    table = catalog.load_table("tables")
    metadata = {Path(table.metadata_location), component / "metadata/version-hint.text"}
    assert files(component) == reachable(table) | metadata


def owners(metastore: Metastore) -> str:
    """Owners of the units that stand."""
    return "".join(sorted(u.owner or "" for u in metastore.tables.read().metadata_types(ALL).execute()))


def as_counts(expired: ExpirationResult) -> dict[str, int]:
    """What a run says it deleted, by kind, without zeros."""
    counts = {
        "data": expired.data_files,
        "manifest": expired.manifests,
        "list": expired.manifest_lists,
        "version": expired.version_files,
    }
    return {kind: count for kind, count in counts.items() if count}


class TestExpire:
    def test_what_only_old_versions_reach_goes(
        self, metastore: Metastore, unit: MakeUnit, component: Path, catalog: FileSystemCatalog
    ) -> None:
        """Counted before and after by kind; the answer is what happened, and the newest version reads as before."""
        versions = [
            metastore.tables.modify().overwrite([unit("a", owner=str(n)), unit(f"k{n}")]).execute() for n in range(5)
        ]
        before = files(component)
        expired = metastore.tables.expiration.expire()
        gone = before - files(component)
        assert expired.versions == tuple(versions[:-1])
        assert as_counts(expired) == counted(gone)
        assert counted(gone) == {"data": 4, "manifest": 4, "list": 4, "version": 6}
        assert expired.failed == ()
        assert_exact(component, catalog)
        assert len(metastore.tables.read().metadata_types(ALL).execute()) == 6
        assert [v.version for v in metastore.tables.metadata.history()] == versions[-1:]

    def test_a_dry_run_tells_and_does_nothing(self, metastore: Metastore, unit: MakeUnit, component: Path) -> None:
        """The same files, of every kind, as the run that follows it."""
        for n in range(4):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        before = {path: path.read_bytes() for path in files(component)}
        told = metastore.tables.expiration.expire(dry_run=True)
        assert {path: path.read_bytes() for path in files(component)} == before
        done = metastore.tables.expiration.expire()
        assert (told.versions, told.data_files, told.manifests, told.manifest_lists) == (
            done.versions,
            done.data_files,
            done.manifests,
            done.manifest_lists,
        )
        assert told.data_files == 3

    def test_files_that_kept_versions_share_stay(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, catalog: FileSystemCatalog
    ) -> None:
        """Every kept version reads as it did; a file removed in one is kept for the other that holds it."""
        metastore = open_metastore(expiration={"retain_last": 2})
        versions = []
        for n in range(5):
            modify = metastore.tables.modify().overwrite([unit("a", owner=str(n)), unit(f"t{n}", owner=f"{n}")])
            versions.append(modify.delete(f"tableName = 't{n - 1}'").execute())
        read = metastore.tables.read().metadata_types(ALL)
        expected = [read.at(v).to_arrow().num_rows for v in versions[-2:]]
        metastore.tables.expiration.expire()
        fresh = open_metastore().tables.read().metadata_types(ALL)
        assert [fresh.at(v).to_arrow().num_rows for v in versions[-2:]] == expected == [2, 2]
        with pytest.raises(NotFoundError):
            fresh.at(versions[-3]).execute()
        assert_exact(component, catalog)

    def test_branches_and_tags_are_kept_with_their_files(
        self, metastore: Metastore, unit: MakeUnit, component: Path, catalog: FileSystemCatalog
    ) -> None:
        """By whichever tool they were made."""
        versions = [metastore.tables.modify().overwrite([unit(owner=str(n))]).execute() for n in range(6)]
        catalog.load_table("tables").manage_snapshots().create_tag(versions[1], "release").create_branch(
            versions[3], "audit"
        ).commit()
        expired = metastore.tables.expiration.expire()
        assert expired.versions == (versions[0], versions[2], versions[4])
        read = metastore.tables.read().metadata_types(ALL)
        kept = [(versions[1], "1"), (versions[3], "3"), (versions[5], "5")]
        for version, owner in kept:
            assert [u.owner for u in read.at(version).execute()] == [owner]
        assert set(catalog.load_table("tables").refs()) == {"main", "release", "audit"}
        assert_exact(component, catalog)

    def test_a_purged_component_keeps_no_file_of_its_past(
        self, metastore: Metastore, unit: MakeUnit, component: Path, catalog: FileSystemCatalog
    ) -> None:
        """After purge and expiration no data file is left."""
        metastore.tables.modify().overwrite([unit(f"t{n}") for n in range(5)]).execute()
        metastore.tables.modify().purge()
        assert counted(files(component))["data"] == 5
        metastore.tables.expiration.expire()
        assert "data" not in counted(files(component))
        assert owners(metastore) == ""
        assert_exact(component, catalog)

    def test_files_of_a_writer_that_has_not_committed_stay(
        self, metastore: Metastore, unit: MakeUnit, component: Path
    ) -> None:
        """However old: no version reaches them, so expiration does not know them."""
        for n in range(2):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        uncommitted = component / "dfs/tmp/nation/being-written.parquet"
        uncommitted.write_bytes(b"PAR1")
        metastore.tables.expiration.expire()
        assert uncommitted.exists()

    def test_nothing_to_expire_changes_nothing(self, metastore: Metastore, unit: MakeUnit, component: Path) -> None:
        """No table, one version, or a second run at once: no new version file."""
        assert metastore.tables.expiration.expire() == ExpirationResult()
        assert not component.exists()
        metastore.tables.modify().overwrite([unit()]).execute()
        before = files(component)
        assert metastore.tables.expiration.expire() == ExpirationResult()
        assert files(component) == before
        metastore.tables.modify().overwrite([unit()]).execute()
        metastore.tables.expiration.expire()
        before = files(component)
        assert metastore.tables.expiration.expire() == ExpirationResult()
        assert files(component) == before

    def test_gc_enabled_false_keeps_everything(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path
    ) -> None:
        """The files belong to others too."""
        metastore = open_metastore(components={"tables": {"properties": {"gc.enabled": "false"}}})
        for n in range(3):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        before = files(component)
        assert metastore.tables.expiration.expire() == ExpirationResult()
        assert files(component) == before

    def test_pyiceberg_reads_what_is_left(
        self,
        metastore: Metastore,
        unit: MakeUnit,
        component: Path,
        iceberg_table: LoadTable,
        as_rows: Callable[[pa.Table], list[str]],
    ) -> None:
        """Every kept version, by its own reader."""
        for n in range(4):
            metastore.tables.modify().overwrite([unit(f"t{n}"), unit("a", owner=str(n))]).execute()
        metastore.tables.expiration.expire()
        ours = metastore.tables.read().metadata_types(ALL).to_arrow()
        assert as_rows(iceberg_table(component).scan().to_arrow()) == as_rows(ours)


class TestFailures:
    @pytest.fixture
    def five(self, metastore: Metastore, unit: MakeUnit) -> Metastore:
        """Five versions, four of them outdated."""
        for n in range(5):
            metastore.tables.modify().overwrite([unit("a", owner=str(n)), unit(f"k{n}", owner="k")]).execute()
        return metastore

    @pytest.mark.parametrize("kind", ["data", "manifest", "list", "version"])
    def test_a_file_that_will_not_go_is_counted_and_goes_next_time(
        self,
        five: Metastore,
        open_metastore: OpenMetastore,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        kind: str,
    ) -> None:
        """Of any kind; the rest of its kind goes, the run tells and logs it, and the next one picks it up."""
        stuck = min(path for path in files(component) - _newest(catalog) if kind_of(path) == kind)
        refuse_to_delete(monkeypatch, lambda path: path == stuck)
        with caplog.at_level(logging.WARNING):
            expired = five.tables.expiration.expire()
        assert stuck.exists()
        assert len(expired.failed) == 1
        assert stuck.name in caplog.text or kind == "version"
        assert owners(five) == "4kkkkk"
        monkeypatch.undo()
        open_metastore().tables.expiration.expire()
        assert_exact(component, catalog)
        assert owners(open_metastore()) == "4kkkkk"

    @pytest.mark.parametrize("kind", ["data", "manifest", "list"])
    def test_a_crash_while_sweeping_is_picked_up_by_the_next_run(
        self,
        five: Metastore,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        """Dead between commit and sweep or in its midst; also when others wrote and expired in between."""
        delete_chunk, calls = deletion_module.delete_chunk, []

        def die(chunk: DeletionChunk) -> Any:
            calls.append(chunk)
            if len(calls) > ["data", "manifest", "list"].index(kind):
                raise SystemError("the process died here")
            return delete_chunk(chunk)

        with monkeypatch.context() as patch:
            patch.setattr(handler_module, "delete_chunk", die)
            with pytest.raises(SystemError):
                five.tables.expiration.expire()
        assert owners(open_metastore()) == "4kkkkk"
        later = open_metastore()
        later.tables.modify().overwrite([unit("a", owner="5")]).execute()
        later.tables.expiration.expire()
        assert_exact(component, catalog)
        assert owners(open_metastore()) == "5kkkkk"

    def test_what_one_dead_run_left_the_next_sweeps_without_new_versions(
        self,
        five: Metastore,
        open_metastore: OpenMetastore,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Nothing is outdated any more, but files still stand; a dry run tells of them."""
        with monkeypatch.context() as patch:
            patch.setattr(handler_module, "delete_chunk", _die)
            with pytest.raises(SystemError):
                five.tables.expiration.expire()
        later = open_metastore()
        assert later.tables.expiration.expire(dry_run=True).data_files == 4
        assert as_counts(later.tables.expiration.expire())["data"] == 4
        assert_exact(component, catalog)

    def test_what_another_run_still_has_to_sweep_from_stays(
        self,
        five: Metastore,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A second run commits and dies right after the first one's commit: what it left is picked up all the same."""
        other = open_metastore()
        inner = five.tables.table.catalog
        commit = inner.commit_table

        def then_another_dies(*arguments: Any) -> Any:
            response = commit(*arguments)
            other.tables.modify().overwrite([unit("a", owner="5")]).execute()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(handler_module, "delete_chunk", _die)
                with pytest.raises(SystemError):
                    other.tables.expiration.expire()
            return response

        with monkeypatch.context() as patch:
            patch.setattr(inner, "commit_table", then_another_dies)
            five.tables.expiration.expire()
        open_metastore().tables.expiration.expire()
        assert_exact(component, catalog)
        assert owners(open_metastore()) == "5kkkkk"

    def test_an_interrupted_commit_sweeps_nothing(
        self,
        five: Metastore,
        open_metastore: OpenMetastore,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An error that leaves open whether the versions are gone: every file stays until the next run knows."""
        before = files(component)
        inner = five.tables.table.catalog
        commit = inner.commit_table

        def land_and_raise(*arguments: Any) -> Any:
            commit(*arguments)
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(inner, "commit_table", land_and_raise)
            with pytest.raises(OutcomeUnknownError, match="Input/output"):
                five.tables.expiration.expire()
        assert before <= files(component)
        open_metastore().tables.expiration.expire()
        assert_exact(component, catalog)


class TestCompetition:
    def test_a_version_written_meanwhile_makes_it_mark_again(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The newest version, which came while old ones were being marked, is kept, and the one before it goes."""
        metastore, other = open_metastore(), open_metastore()
        for n in range(3):
            metastore.tables.modify().overwrite([unit(owner=str(n)), unit(f"t{n}")]).execute()
        before_the_commit(metastore, monkeypatch, other.tables.modify().overwrite([unit(owner="3")]).execute)
        assert len(metastore.tables.expiration.expire().versions) == 3
        assert owners(open_metastore()) == "3"
        assert_exact(component, catalog)

    def test_who_lost_a_race_has_a_turn_for_the_next(
        self, open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Writers of this machine do not come first again; the first try waits for nobody, and keeps nobody waiting."""
        metastore, other = open_metastore(), open_metastore()
        for n in range(3):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        table = metastore.tables.table
        load, in_turn = table.load, []
        folder = f"{table.entry.location}/metadata"

        def then_compete() -> Table | None:
            loaded = load()
            in_turn.append(_is_locked(folder))
            if not in_turn[-1]:
                other.tables.modify().overwrite([unit(owner="3")]).execute()
            return loaded

        monkeypatch.setattr(table, "load", then_compete)
        assert len(metastore.tables.expiration.expire().versions) == 3
        assert in_turn == [False, True]
        assert not _is_locked(folder)

    def test_what_nobody_disturbs_is_marked_once(
        self, metastore: Metastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Though the oldest kept version is another object after the commit: its parent is gone."""
        for n in range(3):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        marked = []

        def counted(*given: Any) -> list[TableFile]:
            marked.append(given)
            return mark(*given)

        monkeypatch.setattr(handler_module, "mark", counted)
        assert metastore.tables.expiration.expire().data_files == 2
        assert len(marked) == 1

    def test_what_expires_while_it_is_marked_makes_it_mark_again(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Two runs at once: the one whose versions are gone under its hands looks anew, and finds nothing to do."""
        other, metastore = open_metastore(), open_metastore()
        for n in range(3):
            other.tables.modify().overwrite([unit(owner=str(n))]).execute()
        table = metastore.tables.table
        load, racing = table.load, iter([True])

        def then_expire() -> Table | None:
            loaded = load()
            if next(racing, False):
                other.tables.modify().overwrite([unit(owner="3")]).execute()
                other.tables.expiration.expire()
            return loaded

        monkeypatch.setattr(table, "load", then_expire)
        assert metastore.tables.expiration.expire() == ExpirationResult()
        assert owners(open_metastore()) == "3"
        assert_exact(component, catalog)

    def test_a_tag_set_meanwhile_is_kept(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        catalog: FileSystemCatalog,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Between marking and commit somebody named an old version: it stays."""
        metastore = open_metastore()
        versions = [metastore.tables.modify().overwrite([unit(owner=str(n))]).execute() for n in range(3)]
        tags = catalog.load_table("tables").manage_snapshots()
        before_the_commit(metastore, monkeypatch, tags.create_tag(versions[0], "kept").commit)
        assert metastore.tables.expiration.expire().versions == (versions[1],)
        [found] = open_metastore().tables.read().metadata_types(ALL).at(versions[0]).execute()
        assert found.owner == "0"
        assert_exact(component, catalog)

    def test_it_gives_up_when_the_table_keeps_changing(
        self, metastore: Metastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing was changed then."""
        for n in range(3):
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        before = files(component)

        def lose(*_: Any) -> Any:
            raise CommitFailedException("another writer was faster")

        monkeypatch.setattr(metastore.tables.table.catalog, "commit_table", lose)
        with pytest.raises(ConflictError, match="expired"):
            metastore.tables.expiration.expire()
        assert files(component) == before

    def test_the_requirement_holds_only_for_the_same_history(
        self, metastore: Metastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """A new version, a new tag, or a property of the sweep breaks it; other properties do not."""
        metastore.tables.modify().overwrite([unit()]).execute()
        table = catalog.load_table("tables")
        requirement = AssertHistory.of(table.metadata)
        with table.transaction() as change:
            change.set_properties(unrelated="yes")
        requirement.validate(catalog.load_table("tables").metadata)
        metastore.tables.modify().overwrite([unit(owner="new")]).execute()
        with pytest.raises(CommitFailedException):
            requirement.validate(catalog.load_table("tables").metadata)
        table = catalog.load_table("tables")
        requirement = AssertHistory.of(table.metadata)
        table.manage_snapshots().create_tag(metastore.tables.metadata.version, "tag").commit()
        with pytest.raises(CommitFailedException):
            requirement.validate(catalog.load_table("tables").metadata)
        with pytest.raises(CommitFailedException):
            requirement.validate(None)

    def test_a_reader_that_loses_its_files_reads_the_newest_version(
        self, open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Planned on a version that expired before its files were opened: planned again; one asked for is not found."""
        writer, reader = open_metastore(), open_metastore()
        old = writer.tables.modify().overwrite([unit(owner="old", path="p")]).execute()
        expire_under(reader, writer, unit, monkeypatch)
        [found] = reader.tables.read().metadata_types(ALL).execute()
        assert found.owner == "new"
        with pytest.raises(NotFoundError, match=str(old)):
            open_metastore().tables.read().metadata_types(ALL).at(old).execute()

    def test_a_reader_of_one_version_that_expires_under_it_is_told(
        self, open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It asked for that version and no other."""
        writer, reader = open_metastore(), open_metastore()
        old = writer.tables.modify().overwrite([unit(owner="old", path="p")]).execute()
        expire_under(reader, writer, unit, monkeypatch)
        with pytest.raises(NotFoundError, match=str(old)):
            reader.tables.read().metadata_types(ALL).at(old).execute()


def before_the_commit(metastore: Metastore, monkeypatch: pytest.MonkeyPatch, compete: Callable[[], object]) -> None:
    """Somebody does ``compete`` just before the first commit reaches the catalog."""
    catalog = metastore.tables.table.catalog
    commit, competing = catalog.commit_table, iter([True])

    def after_that(*arguments: Any) -> Any:
        if next(competing, False):
            compete()
        return commit(*arguments)

    monkeypatch.setattr(catalog, "commit_table", after_that)


def expire_under(reader: Metastore, writer: Metastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the version that ``reader`` loads next be replaced and expire before its files are opened."""
    table = reader.tables.table
    load, racing = table.load, iter([True])

    def load_then_expire(*, anew: bool = False) -> Table | None:
        loaded = load(anew=anew)
        if next(racing, False):
            writer.tables.modify().overwrite([unit(owner="new", path="p")]).execute()
            writer.tables.expiration.expire()
        return loaded

    monkeypatch.setattr(table, "load", load_then_expire)


def _is_locked(folder: str) -> bool:
    """Whether somebody has a turn at the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _die(*_: Any) -> Any:
    raise SystemError("the process died here")


def _newest(catalog: FileSystemCatalog) -> set[Path]:
    """Files that the newest version needs."""
    table = catalog.load_table("tables")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    only = table.metadata.model_copy(update={"snapshots": [snapshot]})
    return reachable(replace_metadata(table, only)) | {Path(table.metadata_location)}


def replace_metadata(table: Table, metadata: Any) -> Table:
    """``table`` as if it had this metadata."""
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def refuse_to_delete(monkeypatch: pytest.MonkeyPatch, refuses: Callable[[Path], bool]) -> None:
    """Let the store refuse to delete some files."""
    delete = LocalFileIO.delete
    unlink = os.unlink

    def guarded(self: LocalFileIO, location: Any) -> None:
        if refuses(Path(str(location))):
            raise PermissionError(13, "Permission denied", str(location))
        delete(self, location)

    def guarded_unlink(path: Any, **options: Any) -> None:
        if refuses(Path(full_path(path, options))):
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **options)

    monkeypatch.setattr(LocalFileIO, "delete", guarded)
    monkeypatch.setattr(os, "unlink", guarded_unlink)
