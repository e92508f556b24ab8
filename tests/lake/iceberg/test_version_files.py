"""The pointer of a table: which version is newest whatever the hint says, and that each version has one writer."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from metastore.components.metastore import Metastore
from metastore.errors import DamageError, StorageError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.version_files import HINT, VersionFiles
from metastore.lake.stores import local
from metastore.lake.stores.local import LocalFileIO, create_if_absent, make_folder
from metastore.lake.stores.pointer_store import CreatedFile, LocalPointers
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The metadata folder of a table with versions 1 to 3."""
    versions = VersionFiles(str(tmp_path))
    for number in (1, 2, 3):
        assert versions.publish(number, b"{}")
    return tmp_path / "metadata"


@pytest.mark.parametrize("hint", [b"3", b"2", b"1", b"0", b"", b"three", b"-1", b"3\n", b"\xff" * 64])
def test_the_hint_only_says_where_to_start(folder: Path, hint: bytes) -> None:
    """Stale or unreadable: the newest version is found all the same."""
    (folder / HINT).write_bytes(hint)
    assert VersionFiles(str(folder.parent)).current() == (3, f"{folder}/v3.metadata.json")


def test_a_missing_hint_is_no_loss(folder: Path) -> None:
    """A crash between a version and its hint, or a restored backup without it."""
    (folder / HINT).unlink()
    assert VersionFiles(str(folder.parent)).current() == (3, f"{folder}/v3.metadata.json")


def test_a_commit_writes_the_hint(folder: Path) -> None:
    """As Hadoop tables have it: the number alone."""
    assert (folder / HINT).read_bytes() == b"3"


def test_no_version_means_no_table(tmp_path: Path) -> None:
    """Neither a missing folder nor one with other files is a table."""
    assert VersionFiles(str(tmp_path)).current() is None
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json.1234.tmp").write_text("{}")
    (tmp_path / "metadata" / "v1.json").write_text("{}")
    assert VersionFiles(str(tmp_path)).current() is None


class ListingWithIdentities(LocalPointers):
    """The local disk, whose listings tell identities, as those of object stores do: a first look needs no other."""

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """With identities."""
        names = list(super().files_after(folder, name))
        return dict(zip(names, self.identities_in(folder, names), strict=True))


class TestLostVersions:
    """What a hint and the version files that stand say together; damage is refused and left as it is."""

    @staticmethod
    def expected(hint: int | None, versions: set[int]) -> int | str | None:
        """The newest version; None: no table; a text: damage."""
        newest = max(versions, default=0)
        if hint is not None and hint > newest:
            return "are lost"
        if hint not in versions:
            return newest or None
        assert hint is not None
        reached = next(number for number in range(hint, 99) if number + 1 not in versions)
        return reached if reached == newest else "is missing"

    @given(
        hint=st.none() | st.integers(1, 7),
        versions=st.sets(st.integers(1, 6)),
        packed=st.booleans(),
        store=st.sampled_from([LocalPointers(), ListingWithIdentities()]),
    )
    def test_every_layout(self, hint: int | None, versions: set[int], packed: bool, store: LocalPointers) -> None:
        """All that stand and any hint: the newest version, no table, or a refusal of reading and of writing."""
        with TemporaryDirectory() as folder:
            metadata = Path(folder) / "metadata"
            metadata.mkdir()
            for number in versions:
                (metadata / f"v{number}{'.gz' if packed else ''}.metadata.json").write_bytes(b"{}")
            if hint is not None:
                (metadata / HINT).write_text(str(hint))
            before = {path.name: path.read_bytes() for path in metadata.iterdir()}
            right = self.expected(hint, versions)
            files = VersionFiles(folder, store)
            assert files.is_unused() == (hint is None and not versions)
            if not isinstance(right, str):
                found, is_free = files.find_to_publish(None)
                assert (found.version if found else None) == right
                assert found == files.find()
                assert is_free == (found is not None)
                return
            with pytest.raises(DamageError, match=right):
                files.find()
            if hint is not None and hint > max(versions, default=0):
                with pytest.raises(DamageError, match=right):
                    files.publish(max(versions, default=0) + 1, b"new")
            assert {path.name: path.read_bytes() for path in metadata.iterdir()} == before

    def test_a_warm_writer_does_not_write_over_a_lost_version(
        self, open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
    ) -> None:
        """It has seen an older version only, and looks at the hint before it takes the next number."""
        writer, other = open_metastore(), open_metastore()
        writer.tables.modify().overwrite([unit("a")]).execute()
        other.tables.modify().overwrite([unit("b")]).execute()
        metadata = tmp_path / "metastore/tables/metadata"
        lost = (metadata / "v3.metadata.json").rename(tmp_path / "v3.metadata.json")
        before = {path for path in (tmp_path / "metastore").rglob("*") if path.is_file()}
        with pytest.raises(DamageError, match="names version 3, and the newest version file is that of 2"):
            writer.tables.modify().overwrite([unit("c")]).execute()
        assert {path for path in (tmp_path / "metastore").rglob("*") if path.is_file()} == before
        lost.rename(metadata / "v3.metadata.json")
        writer.tables.modify().overwrite([unit("c")]).execute()
        found = writer.tables.read().metadata_types(MetadataType.ALL).execute()
        assert sorted(u.table_name or "" for u in found) == ["a", "b", "c"]

    def test_no_false_alarm(self, tmp_path: Path) -> None:
        """Versions come and expire as fast as they can, while others look with nothing known: no damage is seen."""
        versions = VersionFiles(str(tmp_path))
        assert versions.publish(1, b"{}")
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(2, 200):
                    assert versions.publish(number, b"{}")
                    versions.remove_before(number - number % 3)
            finally:
                done.set()

        def read() -> int:
            newest = 0
            while not done.is_set():
                found = VersionFiles(str(tmp_path)).find()
                assert found is not None
                assert found.version >= newest
                newest = found.version
            return newest

        with ThreadPoolExecutor(3) as threads:
            readers = [threads.submit(read) for _ in range(2)]
            threads.submit(write).result()
            assert all(reader.result() for reader in readers)

    def test_a_damaged_table_does_not_hide_the_others(self, tmp_path: Path) -> None:
        """A folder of tables is listed as before, the damaged one among them."""
        catalog = FileSystemCatalog("c", str(tmp_path))
        schema = Schema(NestedField(1, "id", LongType(), required=False))
        for name in ("a", "b"):
            catalog.create_table(("db", name), schema)
        (tmp_path / "db/a/metadata/v1.metadata.json").unlink()
        assert catalog.list_tables("db") == [("db", "a"), ("db", "b")]
        with pytest.raises(DamageError):
            catalog.load_table(("db", "a"))


@pytest.mark.parametrize("name", ["v4.gz.metadata.json", "v4.metadata.json.gz"])
@pytest.mark.parametrize("hint", [b"4", b"3", b"1", None])
def test_a_compressed_version_counts(folder: Path, name: str, hint: bytes | None) -> None:
    """Iceberg's Java writes them so when the table asks for it, in either spelling; whatever the hint says."""
    (folder / name).write_bytes(gzip.compress(b"{}"))
    if hint is None:
        (folder / HINT).unlink()
    else:
        (folder / HINT).write_bytes(hint)
    versions = VersionFiles(str(folder.parent))
    assert versions.current() == (4, f"{folder}/{name}")
    assert not versions.publish(4, b"{}")
    assert versions.publish(5, b"{}")
    assert versions.current() == (5, f"{folder}/v5.metadata.json")


def test_a_table_with_compressed_metadata_is_read_and_written(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """The content is decompressed; the next version builds on it, also when the hint was left behind."""
    open_metastore().tables.modify().overwrite([unit("a")]).execute()
    open_metastore().tables.modify().overwrite([unit("b")]).execute()
    metadata = tmp_path / "metastore/tables/metadata"
    newest = metadata / "v3.metadata.json"
    (metadata / "v3.gz.metadata.json").write_bytes(gzip.compress(newest.read_bytes()))
    newest.unlink()
    (metadata / HINT).write_text("2")
    metastore = open_metastore()
    metastore.tables.modify().overwrite([unit("c")]).execute()
    found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    assert sorted(u.table_name or "" for u in found) == ["a", "b", "c"]
    assert (metadata / "v4.metadata.json").exists()


def test_a_version_is_never_written_twice(folder: Path) -> None:
    """The second writer is told so, and the first one's content stands."""
    assert not VersionFiles(str(folder.parent)).publish(3, b"mine")
    assert (folder / "v3.metadata.json").read_bytes() == b"{}"


def test_a_writer_that_slept_while_its_version_expired_does_not_win(folder: Path) -> None:
    """The name is free again, but what it was based on is gone: taken back, and the newest version stays newest."""
    versions = VersionFiles(str(folder.parent))
    for number in (4, 5, 6):
        assert versions.publish(number, b"{}")
    assert versions.remove_before(6) == (5, [])
    assert not versions.publish(4, b"slept")
    assert sorted(path.name for path in folder.iterdir()) == ["v6.metadata.json", HINT]
    (folder / HINT).unlink()
    assert versions.current() == (6, f"{folder}/v6.metadata.json")


def test_old_versions_go_in_ascending_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What will not go stops the rest, so that a version never stands without those after it."""
    stuck = str(folder / "v2.metadata.json")
    unlink = os.unlink

    def failing(path: str) -> None:
        if path == stuck:
            raise PermissionError(path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing)
        removed, failed = VersionFiles(str(folder.parent)).remove_before(3)
    assert removed == 1
    assert [type(error) for error in failed] == [PermissionError]
    assert sorted(path.name for path in folder.glob("v*.json")) == ["v2.metadata.json", "v3.metadata.json"]
    assert VersionFiles(str(folder.parent)).remove_before(3) == (1, [])


def test_of_racing_threads_one_wins(tmp_path: Path) -> None:
    """Sixteen at a time, version after version; the winner's content stands whole, and nothing else is left."""
    versions = VersionFiles(str(tmp_path))
    with ThreadPoolExecutor(16) as threads:
        for number in range(1, 11):
            contents = [str(n).encode() * 10_000 for n in range(16)]
            won = list(threads.map(lambda content, number=number: bool(versions.publish(number, content)), contents))
            assert won.count(True) == 1
            assert (tmp_path / f"metadata/v{number}.metadata.json").read_bytes() == contents[won.index(True)]
    assert len(list((tmp_path / "metadata").iterdir())) == 11


def _publish(location: str, number: int, content: bytes) -> bool:
    return VersionFiles(location).publish(number, content) is not None


@pytest.mark.integration
def test_of_racing_processes_one_wins(tmp_path: Path) -> None:
    """As between threads."""
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as processes:
        for number in range(1, 6):
            pending = [processes.submit(_publish, str(tmp_path), number, str(n).encode()) for n in range(8)]
            won = [future.result() for future in pending]
            assert won.count(True) == 1
            content = (tmp_path / f"metadata/v{number}.metadata.json").read_text()
            assert int(content) == won.index(True)


class TestCreateIfAbsent:
    def test_a_failure_before_the_atomic_step_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full disk: no version, no temporary file, and certainty that nothing was changed."""

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="nothing was changed"):
            create_if_absent(str(tmp_path / "v1"), b"content")
        assert list(tmp_path.iterdir()) == []

    def test_a_file_system_without_hard_links_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two writers could both win there: the error says so, and nothing is left."""

        def refuse(*_: str) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(StorageError, match="hard links"):
            create_if_absent(str(tmp_path / "v1"), b"content")
        assert list(tmp_path.iterdir()) == []

    def test_an_unclear_failure_is_not_called_certain(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An I/O error of the atomic step itself may come after it took effect."""
        link = os.link

        def link_and_fail(source: str, target: str) -> None:
            link(source, target)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "link", link_and_fail)
        with pytest.raises(OSError, match="Input/output") as raised:
            create_if_absent(str(tmp_path / "v1"), b"content")
        assert not isinstance(raised.value, StorageError)
        assert [path.name for path in tmp_path.iterdir()] == ["v1"]

    def test_a_retransmitted_link_is_recognised(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A network file system may answer "exists" to the very link that it made."""
        link = os.link

        def link_twice(source: str, target: str) -> None:
            link(source, target)
            link(source, target)

        monkeypatch.setattr(os, "link", link_twice)
        assert create_if_absent(str(tmp_path / "v1"), b"content")
        assert (tmp_path / "v1").read_bytes() == b"content"

    def test_files_and_their_folder_are_flushed_before_they_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The content before the name appears, the name's folder before success is told."""
        events: list[str] = []
        fsync, link = os.fsync, os.link

        def flush(descriptor: int) -> None:
            events.append("folder" if os.path.isdir(f"/dev/fd/{descriptor}") else "file")
            fsync(descriptor)

        def linking(source: str, target: str) -> None:
            events.append("link")
            link(source, target)

        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setattr(os, "link", linking)
        assert create_if_absent(str(tmp_path / "v1"), b"content")
        assert events == ["file", "link", "folder"]

    def test_a_new_folder_is_flushed_into_the_one_above_before_it_is_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whichever way a first file is made; where the folder stands, nothing is."""
        flushed: list[int] = []
        fsync = os.fsync

        def flush(descriptor: int) -> None:
            if os.path.isdir(f"/dev/fd/{descriptor}"):
                flushed.append(os.fstat(descriptor).st_ino)
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", flush)
        for first in ("a", "b"):
            folder = tmp_path / first / "below" / "deepest"
            if first == "a":
                LocalFileIO().new_output(f"file://{folder}/v1").create().close()
            else:
                make_folder(str(folder))
            assert flushed == [path.stat().st_ino for path in (tmp_path, tmp_path / first, folder.parent)]
            flushed.clear()
            make_folder(str(folder))
            assert flushed == []
        assert create_if_absent(f"{tmp_path}/c/v1", b"content")
        assert flushed == [path.stat().st_ino for path in (tmp_path, tmp_path / "c")]

    def test_a_file_in_the_place_of_a_folder_is_an_error(self, tmp_path: Path) -> None:
        """And not taken for the folder."""
        (tmp_path / "a").touch()
        with pytest.raises(FileExistsError):
            make_folder(str(tmp_path / "a"))
        with pytest.raises(OSError, match="a"):
            make_folder(str(tmp_path / "a" / "b"))


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:///t=12%3A00/a b#?;.parquet", "/t=12%3A00/a b#?;.parquet"),
    ],
)
def test_a_local_location_is_a_path_or_a_file_uri(location: str, path: str) -> None:
    """In every spelling that engines use; none of them escapes characters, so what looks like an escape is a name."""
    assert local.local_path(location) == path


def test_a_location_on_another_host_is_refused() -> None:
    """``file://host/path`` is not on this machine."""
    with pytest.raises(StorageError, match="host"):
        local.local_path("file://elsewhere/a")


def test_a_creator_that_slept_through_an_expiration_creates_nothing(tmp_path: Path) -> None:
    """Version 1 was free again, since the table went on and its first versions expired."""
    versions = VersionFiles(str(tmp_path))
    for version in (1, 2, 3):
        assert versions.publish(version, b"{}")
    versions.remove_before(3)
    assert not versions.publish(1, b"{}")
    assert versions.current() == (3, versions.location_of(3))
    assert sorted(path.name for path in (tmp_path / "metadata").iterdir()) == ["v3.metadata.json", "version-hint.text"]


class SleepingCreator(LocalPointers):
    """The local disk, on which others work while the creator of version 1 sleeps, right after it."""

    def __init__(self, others: Callable[[], object]) -> None:
        self._others = others

    def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
        """Then others work."""
        created = super().create_if_absent(location, content)
        self._others()
        return created


@pytest.mark.parametrize("expired", [False, True])
def test_a_creator_that_slept_while_others_went_on_has_created_the_table(tmp_path: Path, *, expired: bool) -> None:
    """Its files are in use, so it must not hear that it lost; what stands of its version stays."""
    others = VersionFiles(str(tmp_path))

    def work() -> None:
        assert others.publish(2, b"{}")
        if expired:
            others.remove_before(2)

    versions = VersionFiles(str(tmp_path), SleepingCreator(work))
    assert versions.publish(1, b"{}", lambda: True) is not None
    stands = {path.name for path in (tmp_path / "metadata").iterdir()}
    assert stands == {"v2.metadata.json", HINT} | (set() if expired else {"v1.metadata.json"})


class UnsteadyListing(LocalPointers):
    """The local disk, whose listings miss all versions so many times: one went and one came while it was made."""

    def __init__(self, misses: int) -> None:
        self.misses = misses

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """Without the versions that others made, as long as there are misses left."""
        found = super().files_after(folder, name)
        if not self.misses:
            return found
        self.misses -= 1
        return {each: None for each in found if each.startswith("v1.") or each == HINT}


@pytest.mark.parametrize("hint", [b"7", b"8"])
def test_a_listing_that_misses_the_versions_loses_no_table(tmp_path: Path, hint: bytes) -> None:
    """A hint tells that there is a table: it is looked for again, and nobody makes another in its place."""
    versions = VersionFiles(str(tmp_path))
    for version in range(1, 10):
        assert versions.publish(version, b"{}")
    versions.remove_before(9)
    (tmp_path / "metadata" / HINT).write_bytes(hint)
    assert VersionFiles(str(tmp_path), UnsteadyListing(3)).current() == (9, versions.location_of(9))
    assert not VersionFiles(str(tmp_path), UnsteadyListing(3)).publish(1, b"{}")
    assert versions.current() == (9, versions.location_of(9))
    assert not Path(versions.location_of(1)).exists()
