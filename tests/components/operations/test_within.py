"""Compare-and-set within a filter: what was read must not have changed, what others do elsewhere does not matter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from metastore.components.metastore import Metastore
from metastore.components.operations.modify import Modify
from metastore.errors import ConflictError, InvalidRequestError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
LoadTable = Callable[[Path], StaticTable]
A = "tableName = 'a'"
PATIENCE_S = 60


def owners(metastore: Metastore) -> dict[str, str | None]:
    """Owner of each unit that stands, by table and key."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return {f"{u.table_name} {u.metadata_key}": u.owner for u in units}


def files(folder: Path) -> set[Path]:
    """Every file below ``folder``."""
    return {path for path in folder.rglob("*") if path.is_file()}


def manifests(table: StaticTable) -> set[str]:
    """Manifests of the current version that hold live entries."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return {m.manifest_path for m in snapshot.manifests(table.io) if m.fetch_manifest_entry(table.io)}


@pytest.fixture
def written(metastore: Metastore, unit: MakeUnit) -> int:
    """Tables ``a`` and ``b`` stand, ``a`` with a segment; the version."""
    units = [unit("a", owner="a"), unit("a", "1994", owner="s"), unit("b", owner="b")]
    return metastore.tables.modify().overwrite(units).execute()


class TestOtherPartitions:
    @pytest.mark.parametrize("change", ["overwrite", "add", "delete", "purge of nothing"])
    def test_changes_elsewhere_do_not_matter(
        self, metastore: Metastore, open_metastore: OpenMetastore, unit: MakeUnit, written: int, change: str
    ) -> None:
        """Whatever others did outside of the filter since the version stands beside what is committed now."""
        others: dict[str, Callable[[Modify[TableMetadataUnit]], object]] = {
            "overwrite": lambda modify: modify.overwrite([unit("b", owner="B")]).execute(),
            "add": lambda modify: modify.overwrite([unit("c", owner="c")]).execute(),
            "delete": lambda modify: modify.delete("tableName = 'b'").execute(),
            "purge of nothing": lambda modify: modify.delete("tableName = 'z'").execute(),
        }
        left = {"overwrite": {"b": "B"}, "add": {"b": "b", "c": "c"}, "delete": {}, "purge of nothing": {"b": "b"}}
        others[change](open_metastore().tables.modify())
        version = metastore.tables.modify().overwrite([unit("a", owner="A")]).execute(written, within=A)
        assert version == metastore.tables.metadata.version != written
        expected = {f"{name} GENERAL_INFO": owner for name, owner in left[change].items()}
        assert owners(metastore) == {"a GENERAL_INFO": "A", "a 1994": "s", **expected}

    def test_the_filter_is_as_narrow_as_it_says(self, metastore: Metastore, unit: MakeUnit, written: int) -> None:
        """One segment of a table is watched: the table's general information may change."""
        metastore.tables.modify().overwrite([unit("a", owner="A")]).execute()
        segment = f"{A} and metadataKey = '1994'"
        metastore.tables.modify().overwrite([unit("a", "1994", owner="S")]).execute(written, within=segment)
        assert owners(metastore) == {"a GENERAL_INFO": "A", "a 1994": "S", "b GENERAL_INFO": "b"}

    def test_it_watches_what_was_read_and_not_what_is_written(
        self, metastore: Metastore, unit: MakeUnit, written: int
    ) -> None:
        """A partition outside of the filter is overwritten as without it: the later writer wins."""
        metastore.tables.modify().overwrite([unit("b", owner="B")]).execute()
        metastore.tables.modify().overwrite([unit("b", owner="later")]).execute(written, within=A)
        assert owners(metastore)["b GENERAL_INFO"] == "later"

    def test_manifests_rewritten_by_another_commit_are_no_change(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, iceberg_table: LoadTable, written: int
    ) -> None:
        """The entry of ``a`` moves to another manifest as sixty tables come beside it; its files are the same."""
        before = manifests(iceberg_table(tmp_path / "metastore/tables"))
        metastore.tables.modify().overwrite([unit(f"t{n}") for n in range(60)]).execute()
        assert not before <= manifests(iceberg_table(tmp_path / "metastore/tables"))
        metastore.tables.modify().overwrite([unit("a", owner="A")]).execute(written, within=A)
        assert owners(metastore)["a GENERAL_INFO"] == "A"


class TestWatchedPartitions:
    @pytest.mark.parametrize("change", ["overwrite", "the same again", "add", "delete", "delete and write again"])
    def test_a_change_of_them_is_a_conflict(
        self,
        metastore: Metastore,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        tmp_path: Path,
        written: int,
        change: str,
    ) -> None:
        """Nothing is changed then, and no file is left behind; an earlier version is no way around it."""
        others = open_metastore().tables
        match change:
            case "overwrite":
                others.modify().overwrite([unit("a", "1994", owner="S")]).execute()
            case "the same again":
                others.modify().overwrite([unit("a", owner="a")]).execute()
            case "add":
                others.modify().overwrite([unit("a", "1995", owner="t")]).execute()
            case "delete":
                others.modify().delete(f"{A} and metadataKey = '1994'").execute()
            case "delete and write again":
                others.modify().delete(A).execute()
                others.modify().overwrite([unit("a", owner="a"), unit("a", "1994", owner="s")]).execute()
        stood, version, disk = owners(metastore), metastore.tables.metadata.version, files(tmp_path)
        modify = metastore.tables.modify().overwrite([unit("a", owner="lost"), unit("c", owner="lost")])
        with pytest.raises(ConflictError, match=rf"changed since version {written}; nothing was changed"):
            modify.delete("tableName = 'b'").execute(written, within=A)
        assert (owners(metastore), metastore.tables.metadata.version) == (stood, version)
        assert files(tmp_path) == disk

    def test_a_conflict_leaves_nothing_staged(self, metastore: Metastore, unit: MakeUnit, written: int) -> None:
        """The refused transaction is over: whoever reads again stages again, and who does not is told."""
        metastore.tables.modify().overwrite([unit("a", owner="A")]).execute()
        modify = metastore.tables.modify().overwrite([unit("a", owner="lost")])
        with pytest.raises(ConflictError):
            modify.execute(written, within=A)
        version = metastore.tables.metadata.version
        with pytest.raises(InvalidRequestError, match="its execution failed, and nothing was staged again"):
            modify.execute(version, within=A)
        assert owners(metastore)["a GENERAL_INFO"] == "A"
        modify.overwrite([unit("a", owner="again")]).execute(version, within=A)
        assert owners(metastore)["a GENERAL_INFO"] == "again"

    def test_it_is_checked_even_when_nothing_is_to_do(self, metastore: Metastore, unit: MakeUnit, written: int) -> None:
        """A transaction of nothing still says whether what was read still holds."""
        metastore.tables.modify().overwrite([unit("b", owner="B")]).execute()
        version = metastore.tables.metadata.version
        assert metastore.tables.modify().execute(written, within=A) == version
        with pytest.raises(ConflictError):
            metastore.tables.modify().execute(written, within="tableName = 'b'")

    def test_version_0_watches_for_partitions_that_must_not_be_there(
        self, metastore: Metastore, unit: MakeUnit, written: int
    ) -> None:
        """Nothing stood before the first version: a table that is there now was added, one that is not was not."""
        with pytest.raises(ConflictError, match="version 0"):
            metastore.tables.modify().overwrite([unit("a", owner="A")]).execute(0, within=A)
        metastore.tables.modify().overwrite([unit("c", owner="c")]).execute(0, within="tableName = 'c'")
        assert owners(metastore)["a GENERAL_INFO"] == "a"
        assert owners(metastore)["c GENERAL_INFO"] == "c"

    def test_version_0_of_an_empty_metastore(self, metastore: Metastore, unit: MakeUnit) -> None:
        """The first commit of all."""
        assert metastore.tables.modify().overwrite([unit("a", owner="a")]).execute(0, within=A) != 0
        assert owners(metastore) == {"a GENERAL_INFO": "a"}

    def test_a_version_that_has_expired_is_a_conflict(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, written: int
    ) -> None:
        """Nobody can tell any more what it held, even where nothing stands now; also one that never was."""
        metastore.tables.modify().overwrite([unit("b", owner="B")]).execute()
        metastore.tables.expiration.expire()
        disk = files(tmp_path)
        for version, table in ((written, "a"), (written, "c"), (42, "a"), (42, "c")):
            with pytest.raises(ConflictError, match=f"version {version}"):
                metastore.tables.modify().overwrite([unit(table)]).execute(version, within=f"tableName = '{table}'")
        assert owners(metastore)["a GENERAL_INFO"] == "a"
        assert files(tmp_path) == disk


class TestRefused:
    @pytest.mark.parametrize(
        ("if_version", "within", "reason"),
        [
            (None, A, "if_version"),
            (0, "owner = 'me'", "storagePlugin, workspace, tableName, metadataKey"),
            (0, f"{A} and path = '/x'", "path"),
            (0, "noSuchColumn = 'a'", "noSuchColumn"),
            (0, "tableName =", "syntax error at line 1, column 11"),
        ],
    )
    def test_an_unfit_filter(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, if_version: int | None, within: str, reason: str
    ) -> None:
        """Nothing is written, and what was staged is kept for a better one."""
        modify = metastore.tables.modify().overwrite([unit("a", owner="a")])
        with pytest.raises(InvalidRequestError, match=reason):
            modify.execute(if_version, within=within)
        assert files(tmp_path) == set()
        modify.execute(0, within=A)
        assert owners(metastore) == {"a GENERAL_INFO": "a"}


def counted(metastore: Metastore, unit: MakeUnit, table: str) -> int:
    """Read the count that table ``table`` keeps as its time, and write it raised by one; the count that was written."""
    version = metastore.tables.metadata.version
    within = f"tableName = '{table}'"
    read = metastore.tables.read().metadata_types(MetadataType.ALL).at(version).filter(within)
    count = 1 + sum(found.last_modified_time or 0 for found in read.execute())
    metastore.tables.modify().overwrite([unit(table, last_modified_time=count)]).execute(version, within=within)
    return count


class TestThreads:
    def test_writers_of_different_tables_never_conflict(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """Four threads, each a metastore of its own, each counting up in its own table: not one is turned away."""
        metastores = [open_metastore(clock=None, expiration={"retain_last": 1_000}) for _ in range(4)]
        start = threading.Barrier(len(metastores), timeout=PATIENCE_S)

        def work(number: int) -> list[int]:
            start.wait()
            return [counted(metastores[number], unit, f"t{number}") for _ in range(8)]

        with ThreadPoolExecutor(len(metastores)) as pool:
            assert list(pool.map(work, range(len(metastores)))) == [list(range(1, 9))] * len(metastores)
        assert len(metastores[0].tables.metadata.history()) == 8 * len(metastores)

    @pytest.mark.parametrize("shared", [True, False], ids=["one metastore", "two metastores"])
    def test_of_two_writers_of_one_table_one_wins(
        self, open_metastore: OpenMetastore, unit: MakeUnit, shared: bool
    ) -> None:
        """In each round both read the same version and write: exactly one is told that it lost."""
        first = open_metastore(clock=None)
        both = [first, first if shared else open_metastore(clock=None)]
        read = threading.Barrier(2, timeout=PATIENCE_S)
        done = threading.Barrier(2, timeout=PATIENCE_S)

        def work(number: int) -> list[bool]:
            won = []
            for n in range(8):
                version = both[number].tables.metadata.version
                read.wait()
                modify = both[number].tables.modify().overwrite([unit("a", owner=f"{number} {n}")])
                try:
                    modify.execute(version, within=A)
                    won.append(True)
                except ConflictError:
                    won.append(False)
                done.wait()
            return won

        with ThreadPoolExecutor(2) as pool:
            won, other = pool.map(work, range(2))
        assert [one != two for one, two in zip(won, other, strict=True)] == [True] * 8
        assert owners(first) == {"a GENERAL_INFO": f"{0 if won[-1] else 1} 7"}
        assert len(first.tables.metadata.history()) == 8
