"""The commit under competition and failure: nothing lost, nothing twice, files removed only when that is certain."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table

from metastore.components.metastore import Metastore
from metastore.components.storage.commit import COMMIT_ID
from metastore.errors import ConflictError, OutcomeUnknownError, StorageError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.version_files import VersionFiles
from metastore.lake.stores.local import LocalFile
from metastore.lake.stores.pointer_store import CreatedFile, LocalPointers
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
CommitTable = Callable[..., CommitTableResponse]
Around = Callable[[CommitTable, Any], CommitTableResponse]
Wrap = Callable[[Metastore, Around], None]


@pytest.fixture
def component(tmp_path: Path) -> Path:
    """The folder of the tables component."""
    return tmp_path / "metastore/tables"


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Wrap:
    """Wrap the catalog of one metastore: ``around(commit, arguments)`` stands in for its ``commit_table``."""

    def wrap(metastore: Metastore, act: Around) -> None:
        catalog = metastore.tables._backing.table.catalog
        commit = catalog.commit_table
        monkeypatch.setattr(catalog, "commit_table", lambda *arguments: act(commit, arguments))

    return wrap


def names(metastore: Metastore) -> list[str]:
    """Names of the tables that stand, sorted."""
    return sorted(u.table_name or "" for u in metastore.tables.read().metadata_types(MetadataType.ALL).execute())


def files(component: Path) -> set[Path]:
    """Every file of the component."""
    return {path for path in component.rglob("*") if path.is_file()}


def reachable(component: Path) -> set[Path]:
    """Data files, manifests and lists that the kept versions reach, found by PyIceberg."""
    table: Table = FileSystemCatalog("look", str(component.parent)).load_table("tables")
    found: set[str] = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io))
    return {Path(path) for path in found}


def unreferenced(component: Path) -> set[str]:
    """Suffixes of the files that nothing refers to: none after a commit whose outcome is certain."""
    pointers = {path for path in files(component) if path.name.startswith(("v", "version-hint"))}
    return {path.name for path in files(component) - pointers - reachable(component)}


class TestCompetition:
    def test_a_competing_commit_is_planned_around(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """Another writer lands between plan and publication, three times: neither loses, and no file is left over."""
        metastore, other = open_metastore(), open_metastore()
        metastore.tables.modify().overwrite([unit("a", owner="old"), unit("gone")]).execute()
        competing = iter(["b", "c", "d"])

        def compete(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            if name := next(competing, None):
                other.tables.modify().overwrite([unit(name), unit("gone", name)]).execute()
            return commit(*arguments)

        around(metastore, compete)
        metastore.tables.modify().overwrite([unit("a", owner="new")]).delete("tableName = 'gone'").execute()
        assert names(metastore) == names(open_metastore()) == ["a", "b", "c", "d"]
        assert len(metastore.tables.metadata.history()) == 5
        assert unreferenced(component) == set()

    def test_data_files_are_written_once_however_often_it_is_tried(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """A lost race costs manifests, not data."""
        metastore, other = open_metastore(), open_metastore()
        seen = []

        def compete(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            seen.append({path for path in component.rglob("*.parquet") if path.parent.name == "a"})
            if len(seen) <= 3:
                other.tables.modify().overwrite([unit("b")]).execute()
            return commit(*arguments)

        around(metastore, compete)
        metastore.tables.modify().overwrite([unit("a")]).execute()
        assert len(seen) == 4
        assert len(seen[0]) == 1
        assert all(found == seen[0] for found in seen)

    def test_an_expiration_in_between_is_no_conflict(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """Old versions go while a commit is on its way: it lands on what is left, and reaches no removed file."""
        metastore, other = open_metastore(), open_metastore()
        for n in range(3):
            metastore.tables.modify().overwrite([unit("a", owner=str(n)), unit(f"t{n}")]).execute()

        def expire(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            other.tables.expiration.expire()
            return commit(*arguments)

        around(metastore, expire)
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(open_metastore()) == ["a", "b", "t0", "t1", "t2"]
        assert reachable(component) <= files(component)
        assert unreferenced(component) == set()

    def test_the_version_planned_on_may_expire_before_it_is_opened(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its manifests are gone then, and the commit is planned again on the newest version."""
        other, metastore = open_metastore(), open_metastore()
        other.tables.modify().overwrite([unit("a")]).execute()
        table = metastore.tables._backing.table
        writable, looks = table.writable, []

        def then_expire() -> Table:
            loaded = writable()
            looks.append(loaded)
            if len(looks) == 2:
                other.tables.modify().overwrite([unit("a", owner="new"), unit("b")]).execute()
                other.tables.expiration.expire()
            return loaded

        monkeypatch.setattr(table, "writable", then_expire)
        metastore.tables.modify().overwrite([unit("c")]).execute()
        assert len(looks) == 3
        assert names(open_metastore()) == ["a", "b", "c"]
        assert unreferenced(component) == set()

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_others_may_commit_and_expire_around_its_atomic_step(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        monkeypatch: pytest.MonkeyPatch,
        moment: str,
    ) -> None:
        """Before it: the name of its version is free again, but it lost. After it: its base is gone, but it has won."""
        other, metastore = open_metastore(), open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        catalog = metastore.tables._backing.table.catalog
        assert isinstance(catalog, FileSystemCatalog)
        store, racing = catalog._store, iter([True])

        class Slow(LocalPointers):
            def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
                if not next(racing, False):
                    return store.create_if_absent(location, content)
                won = None if moment == "before" else store.create_if_absent(location, content)
                other.tables.modify().overwrite([unit("s", "1994")]).execute()
                other.tables.expiration.expire()
                return won or store.create_if_absent(location, content)

        monkeypatch.setattr(catalog, "_store", Slow())
        version = metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(open_metastore()) == ["a", "b", "s"]
        assert reachable(component) <= files(component)
        assert unreferenced(component) == set()
        table = catalog.load_table("tables")
        newest = table.current_snapshot()
        assert newest is not None
        assert newest.sequence_number == 3
        if moment == "before":
            assert metastore.tables.metadata.version == version

    def test_others_may_only_expire_after_its_atomic_step(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two expire at the same time: the second finds what the first has not swept yet, and sweeps it."""
        other, metastore = open_metastore(), open_metastore()
        for owner in "123":
            metastore.tables.modify().overwrite([unit("a", owner=owner)]).execute()
        catalog = metastore.tables._backing.table.catalog
        assert isinstance(catalog, FileSystemCatalog)
        store = catalog._store

        class Slow(LocalPointers):
            def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
                won = store.create_if_absent(location, content)
                other.tables.expiration.expire()
                return won

        monkeypatch.setattr(catalog, "_store", Slow())
        assert len(metastore.tables.expiration.expire().versions) == 2
        assert names(open_metastore()) == ["a"]
        assert len(open_metastore().tables.metadata.history()) == 1
        assert unreferenced(component) == set()

    def test_it_gives_up_when_the_time_is_over(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, now: SimpleNamespace, around: Wrap
    ) -> None:
        """By the configured time, with growing pauses; nothing of it is left."""
        metastore = open_metastore(commit={"timeout": "10 seconds"})
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before, start, times = files(component), now.ms, []

        def lose(_: CommitTable, __: Any) -> CommitTableResponse:
            times.append(now.ms - start)
            raise CommitFailedException("another writer was faster")

        around(metastore, lose)
        with pytest.raises(ConflictError, match=r"0:00:10, at last: another writer was faster") as lost:
            metastore.tables.modify().overwrite([unit("b"), unit("a")]).execute()
        assert isinstance(lost.value.__cause__, CommitFailedException)
        assert 10_000 <= now.ms - start <= 12_000
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert max(pauses) <= 1_000
        assert pauses[0] < 20 < pauses[4]
        assert files(component) == before

    def test_a_timeout_of_zero_tries_once(
        self, open_metastore: OpenMetastore, unit: MakeUnit, now: SimpleNamespace, around: Wrap
    ) -> None:
        """And does not wait."""
        metastore = open_metastore(commit={"timeout": "0 seconds"})
        tries = []

        def lose(_: CommitTable, __: Any) -> CommitTableResponse:
            tries.append(now.ms)
            raise CommitFailedException("another writer was faster")

        metastore.tables.initialize()
        around(metastore, lose)
        with pytest.raises(ConflictError):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert tries == [now.ms]

    def test_a_version_that_is_overtaken_while_it_is_published_is_not_the_one_asked_for(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """Compare-and-set holds to the very publication, and leaves no file."""
        metastore, other = open_metastore(), open_metastore()
        version = metastore.tables.modify().overwrite([unit("a")]).execute()

        def compete(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            other.tables.modify().overwrite([unit("b")]).execute()
            return commit(*arguments)

        around(metastore, compete)
        with pytest.raises(ConflictError):
            metastore.tables.modify().overwrite([unit("a", owner="late")]).execute(if_version=version)
        assert names(metastore) == ["a", "b"]
        assert unreferenced(component) == set()


ERRORS = [
    OSError(5, "Input/output error"),
    CommitStateUnknownException("gateway timeout"),
    RuntimeError("the client library gave up"),
    ConnectionResetError("peer"),
]


class TestUnknownOutcome:
    @pytest.mark.parametrize("error", ERRORS, ids=repr)
    def test_it_landed(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, error: Exception, around: Wrap
    ) -> None:
        """The answer was lost, not the commit: the history tells by the commit id, and it is not made twice."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()

        def land_and_raise(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            commit(*arguments)
            raise error

        around(metastore, land_and_raise)
        version = metastore.tables.modify().overwrite([unit("b")]).execute()
        newest, _ = metastore.tables.metadata.history()
        assert newest.version == version
        assert newest.summary[COMMIT_ID]
        assert names(open_metastore()) == ["a", "b"]
        assert unreferenced(component) == set()

    @pytest.mark.parametrize("call", ["unlink", "replace"])
    def test_it_landed_and_a_file_is_said_to_be_missing(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        component: Path,
        monkeypatch: pytest.MonkeyPatch,
        call: str,
    ) -> None:
        """A network file system answers its own repeated request that the file is gone: the version stands."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        catalog = metastore.tables._backing.table.catalog
        real, publish = getattr(os, call), catalog.commit_table

        def twice(*paths: str) -> None:
            real(*paths)
            real(*paths)

        def on_a_network_disk(*arguments: Any) -> CommitTableResponse:
            with monkeypatch.context() as patch:
                patch.setattr(os, call, twice)
                return publish(*arguments)

        monkeypatch.setattr(catalog, "commit_table", on_a_network_disk)
        version = metastore.tables.modify().overwrite([unit("b")]).execute()
        assert open_metastore().tables.metadata.version == version
        assert names(open_metastore()) == ["a", "b"]
        assert unreferenced(component) == set()

    def test_a_file_is_missing_after_its_atomic_step(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever else says so then, the history tells whether it landed."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()

        def gone(*_: Any) -> bool:
            raise FileNotFoundError(2, "No such file or directory", "v1.metadata.json")

        monkeypatch.setattr(VersionFiles, "_overtaken", gone)
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(open_metastore()) == ["a", "b"]
        assert unreferenced(component) == set()

    @pytest.mark.parametrize("error", ERRORS, ids=repr)
    def test_it_cannot_be_told(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, error: Exception, around: Wrap
    ) -> None:
        """Nothing landed so far, but it still may: no file of it is removed, and the error says what to look for."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        held: list[Any] = []

        def hold_back(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            held.append((commit, arguments))
            raise error

        around(metastore, hold_back)
        with pytest.raises(OutcomeUnknownError, match=COMMIT_ID) as raised:
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert raised.value.__cause__ is error
        [(commit, arguments)] = held
        commit(*arguments)
        assert names(open_metastore()) == ["a", "b"]
        assert reachable(component) <= files(component)

    def test_another_writer_took_its_place(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """Then it certainly did not land, never will, and is tried again."""
        metastore, other = open_metastore(), open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        failing = iter([True])

        def compete(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            if next(failing, False):
                other.tables.modify().overwrite([unit("b")]).execute()
                raise OSError(5, "Input/output error")
            return commit(*arguments)

        around(metastore, compete)
        metastore.tables.modify().overwrite([unit("c")]).execute()
        assert names(open_metastore()) == ["a", "b", "c"]
        assert unreferenced(component) == set()

    @pytest.mark.parametrize("first", [True, False])
    def test_it_landed_and_others_went_on_from_it(
        self, first: bool, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """Its version expired before anyone could look: what it wrote is in use, and must not be removed as failed."""
        metastore, other = open_metastore(), open_metastore()
        if not first:
            metastore.tables.modify().overwrite([unit("a")]).execute()
        failing = iter([True])

        def land_and_expire(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            response = commit(*arguments)
            if next(failing, False):
                other.tables.modify().overwrite([unit("s", "1994")]).execute()
                other.tables.expiration.expire()
                raise OSError(5, "Input/output error")
            return response

        around(metastore, land_and_expire)
        with pytest.raises(OutcomeUnknownError):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(open_metastore()) == (["b", "s"] if first else ["a", "b", "s"])
        assert reachable(component) <= files(component)

    def test_properties_of_another_do_not_settle_it(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap
    ) -> None:
        """A new version file without a new snapshot says nothing: ours can still land on top of it."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        held: list[Any] = []

        def hold_back(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            if held:
                return commit(*arguments)
            held.append((commit, arguments))
            with FileSystemCatalog("other", str(component.parent)).load_table("tables").transaction() as change:
                change.set_properties(touched="yes")
            raise OSError(5, "Input/output error")

        around(metastore, hold_back)
        with pytest.raises(OutcomeUnknownError):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        [(commit, arguments)] = held
        commit(*arguments)
        assert names(open_metastore()) == ["a", "b"]
        assert reachable(component) <= files(component)

    @pytest.mark.parametrize("landed", [True, False])
    def test_an_interrupt_while_publishing_removes_nothing(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, around: Wrap, landed: bool
    ) -> None:
        """Whether or not it had landed: the person at the keyboard knows less than the store."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()

        def interrupt(commit: CommitTable, arguments: Any) -> CommitTableResponse:
            if landed:
                commit(*arguments)
            raise KeyboardInterrupt

        around(metastore, interrupt)
        with pytest.raises(KeyboardInterrupt):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(open_metastore()) == (["a", "b"] if landed else ["a"])
        assert reachable(component) <= files(component)
        assert len(list(component.rglob("*.parquet"))) == 2


class _Full:
    """A stream that writes half of what it is given, and then fails."""

    def __init__(self, stream: Any, error: BaseException) -> None:
        self._stream, self._error = stream, error

    def write(self, content: bytes) -> int:
        self._stream.write(content[: len(content) // 2])
        # PyIceberg leaves a stream open whose first write fails.
        self._stream.close()
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


class TestFailedWrites:
    @pytest.mark.parametrize("part", ["/t3/", "-m0.avro", "snap-"], ids=["data", "manifest", "manifest list"])
    def test_a_full_disk_leaves_no_file(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, part: str
    ) -> None:
        """Neither whole ones nor the half one; the error says that nothing was changed, and the next write works."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before = files(component)
        with pytest.MonkeyPatch.context() as patch:
            create = LocalFile.create
            full = OSError(28, "No space left on device")
            patch.setattr(
                LocalFile,
                "create",
                lambda self, overwrite=False: (
                    _Full(create(self, overwrite), full) if part in self.location else create(self, overwrite)
                ),
            )
            with pytest.raises(StorageError, match=r"No space left.*nothing was changed"):
                metastore.tables.modify().overwrite([unit(f"t{n}") for n in range(6)]).execute()
        assert files(component) == before
        metastore.tables.modify().overwrite([unit("t3")]).execute()
        assert names(open_metastore()) == ["a", "t3"]

    def test_a_disk_that_cannot_flush_leaves_no_file(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Data that may not survive a crash is not committed."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before = files(component)

        def failing(_: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", failing)
            with pytest.raises(StorageError, match="nothing was changed"):
                metastore.tables.modify().overwrite([unit("b")]).execute()
        assert files(component) == before
        assert names(open_metastore()) == ["a"]

    def test_a_store_that_goes_away_before_the_commit_leaves_no_file(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The data files are written, then the table cannot be looked up: certainly no commit."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before = files(component)
        catalog = metastore.tables._backing.table.catalog
        load, looks = catalog.load_table, []

        def once(identifier: Any) -> Table:
            looks.append(identifier)
            if len(looks) > 1:
                raise OSError(5, "Input/output error")
            return load(identifier)

        with monkeypatch.context() as patch:
            patch.setattr(catalog, "load_table", once)
            with pytest.raises(StorageError):
                metastore.tables.modify().overwrite([unit("b")]).execute()
        assert len(looks) > 1
        assert files(component) == before

    def test_an_interrupt_before_publishing_leaves_no_file(
        self, open_metastore: OpenMetastore, unit: MakeUnit, component: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While data files are made durable, nothing can have landed."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before = files(component)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("metastore.components.storage.commit.flush", interrupt)
            with pytest.raises(KeyboardInterrupt):
                metastore.tables.modify().overwrite([unit("b")]).execute()
        assert files(component) == before
