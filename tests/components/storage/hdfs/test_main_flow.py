"""The tables component on HDFS, tables that lie there, and the files of catalogs that do."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import StorageError
from metastore.lake.iceberg.catalogs.version_files import VersionFiles
from metastore.lake.stores.files import arrow_paths, discard, open_ranges, open_stream
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.hdfs_arrow import HdfsArrow
from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO
from metastore.lake.stores.hdfs.webhdfs import Clusters
from metastore.lake.stores.whole_files import WHOLE_BYTES
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import connect

pytestmark = pytest.mark.hdfs

MakeUnit = Callable[..., TableMetadataUnit]

KINDS = {".parquet": "data", ".avro": "manifests and lists", ".metadata.json": "versions", ".text": "hint"}
STRANGE = "ü +~&;='\"[]{}%25%2F#?x"

READ_ELSEWHERE = """
import pickle, sys
from metastore.model.vocabulary import MetadataType
with pickle.load(sys.stdin.buffer) as metastore:
    for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute():
        print(unit.table_name)
"""


@pytest.fixture
def files(hadoop: dict[str, str]) -> HdfsFileIO:
    """Files on the cluster."""
    return HdfsFileIO(hadoop)


@pytest.fixture
def filesystem(clusters: Clusters) -> pafs.FileSystem:
    """The cluster as Arrow has it."""
    return pafs.PyFileSystem(HdfsArrow(clusters))


def kinds(filesystem: pafs.FileSystem, root: str) -> Counter[str]:
    """How many files of each kind are below the folder; an unknown kind is counted by its path."""
    found = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
    paths = [info.path for info in found if info.is_file]
    return Counter(next((kind for end, kind in KINDS.items() if path.endswith(end)), path) for path in paths)


def names(metastore: Metastore) -> list[str]:
    """Names of all tables, sorted."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return sorted(str(unit.table_name) for unit in units)


class TestComponent:
    """The tables component does what it does on the local disk."""

    def test_any_names_and_another_process(
        self, settings: Callable[..., Settings], unit: MakeUnit, hadoop: dict[str, str], root: str
    ) -> None:
        """Any characters; the other process has the settings and nothing else; and PyIceberg's scan finds the rows."""
        with Metastore.open(settings()) as metastore:
            assert names(metastore) == []
            metastore.tables.modify().overwrite([unit("a"), unit(f"b c/{STRANGE}"), unit("50%?#:x")]).execute()
            given = pickle.dumps(metastore)
            done = subprocess.run([sys.executable, "-c", READ_ELSEWHERE], check=False, input=given, capture_output=True)
            assert done.stderr == b""
            assert (
                sorted(done.stdout.decode().splitlines())
                == names(metastore)
                == sorted(["50%?#:x", "a", f"b c/{STRANGE}"])
            )
            properties = {**hadoop, "py-io-impl": f"{HdfsFileIO.__module__}.{HdfsFileIO.__name__}"}
            version = f"{root}/metastore/tables/metadata/v2.metadata.json"
            assert StaticTable.from_metadata(version, properties).metadata.location == f"{root}/metastore/tables"

    def test_a_folder_emptied_and_filled_anew(
        self, open_metastore: Callable[..., Metastore], unit: MakeUnit, filesystem: pafs.FileSystem, root: str
    ) -> None:
        """The old table is not remembered for the new one, though its version files have the same names."""
        ours, theirs = open_metastore(), open_metastore()
        ours.tables.modify().overwrite([unit("a")]).execute()
        assert names(ours) == ["a"]
        filesystem.delete_dir(root)
        assert names(ours) == []
        theirs.tables.modify().overwrite([unit("b")]).execute()
        assert names(ours) == ["b"]

    def test_expiration_leaves_what_the_last_version_needs(
        self,
        open_metastore: Callable[..., Metastore],
        unit: MakeUnit,
        filesystem: pafs.FileSystem,
        root: str,
        now: SimpleNamespace,
    ) -> None:
        """Counted: one data file, one manifest and its list, one version file, the hint, nothing else."""
        metastore = open_metastore(expiration={"period": {"hours": 1}, "retain_last": 1})
        for comment in range(3):
            now.ms += 600_000
            metastore.tables.modify().overwrite([unit("a", owner=str(comment))]).execute()
        now.ms += 7_200_000
        expired = metastore.tables.expiration.expire()
        assert (len(expired.versions), expired.data_files, expired.failed) == (2, 2, ())
        assert kinds(filesystem, root) == {"data": 1, "manifests and lists": 2, "versions": 1, "hint": 1}
        assert names(metastore) == ["a"]

    def test_who_may_not_write(self, settings: Callable[..., Settings], unit: MakeUnit, hadoop: dict[str, str]) -> None:
        """The namenode says so, and so does the error."""
        stranger = {f'"{key}"': value for key, value in {**hadoop, "hadoop.user.name": "stranger"}.items()}
        with (
            Metastore.open(settings(**{"config.properties": stranger})) as metastore,
            pytest.raises(StorageError, match=r"Permission denied: user=stranger.*nothing was changed"),
        ):
            metastore.tables.modify().overwrite([unit("a")]).execute()

    @pytest.mark.parametrize("hint", [b"1", b"no number", None], ids=repr)
    def test_the_hint_may_be_anything(self, pointers: HdfsPointers, root: str, hint: bytes | None) -> None:
        """Stale, too new, broken or missing: the newest version is found; and old ones go."""
        versions = VersionFiles(root, pointers)
        assert versions.current() is None
        assert all(versions.publish(version, str(version).encode()) for version in (1, 2, 3))
        if hint is None:
            pointers.remove(f"{versions.folder}/version-hint.text")
        else:
            pointers.replace(f"{versions.folder}/version-hint.text", hint)
        assert versions.current() == (3, versions.location_of(3))
        assert versions.remove_before(3) == (2, [])
        assert not versions.publish(2, b"late")
        assert pointers.entries(versions.folder).files - {"version-hint.text"} == {"v3.metadata.json"}


class TestFiles:
    """Whole files, ranges, streams, deletions."""

    @pytest.mark.parametrize("size", [0, 1_000, 2 * WHOLE_BYTES], ids=["empty", "whole", "by ranges"])
    def test_files_of_any_size(self, files: HdfsFileIO, root: str, size: int) -> None:
        """Streamed in pieces, read whole and by parts, by Arrow too."""
        location, content = f"{root}/{STRANGE}", os.urandom(size)
        with open_stream(files, location) as stream:
            for start in range(0, size, 1 << 20):
                stream.write(content[start : start + (1 << 20)])
        assert len(files.new_input(location)) == size
        assert files.new_input(location).open().read() == content
        with open_ranges(files, location) as found:
            found.seek(size // 2)
            assert found.read(100) == content[size // 2 :][:100]
        filesystem, [path] = arrow_paths(files, [location])
        with filesystem.open_input_file(path) as found:
            assert found.read() == content

    def test_a_stream_that_fails_leaves_nothing(self, files: HdfsFileIO, root: str) -> None:
        """Half a file would be taken for a whole one."""

        def fail() -> None:
            with open_stream(files, f"{root}/x") as stream:
                stream.write(b"half")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert not files.new_input(f"{root}/x").exists()

    def test_deletions(self, files: HdfsFileIO, root: str) -> None:
        """Those gone already count; a folder that is not empty is no file to delete, and is named."""
        with files.new_output(f"{root}/folder/x").create() as stream:
            stream.write(b"x")
        done = discard(files, [f"{root}/folder", f"{root}/none"])
        assert (done.removed, [location for location, _ in done.failed]) == (1, [f"{root}/folder"])
        assert discard(files, [f"{root}/folder/x"]).removed == 1
        with pytest.raises(FileNotFoundError):
            files.delete(f"{root}/folder/x")

    def test_folders(self, pointers: HdfsPointers, root: str) -> None:
        """Made with those above them, told from files, removed when they are empty."""
        pointers.make_folder(f"{root}/a/b")
        pointers.replace(f"{root}/a/x", b"")
        found = pointers.entries(f"{root}/a")
        assert (set(found.files), set(found.folders)) == ({"x"}, {"b"})
        assert pointers.identities([f"{root}/a/b", f"{root}/a/x/y"]) == [None, None]
        with pytest.raises(NotADirectoryError):
            pointers.entries(f"{root}/a/x")
        with pytest.raises(OSError, match="not empty"):
            pointers.remove_folder(f"{root}/a")
        pointers.remove_folder(f"{root}/a/b")
        with pytest.raises(FileNotFoundError):
            pointers.entries(f"{root}/a/b")


class TestTables:
    """Tables of others on the cluster."""

    def test_analyze_and_scan(
        self, settings: Callable[..., Settings], filesystem: pafs.FileSystem, hadoop: dict[str, str], root: str
    ) -> None:
        """A directory of a storage plugin: its files, their statistics, and the pruned scan of those that matter."""
        for month in range(3):
            filesystem.create_dir(f"{root}/data/t/month={month}")
            rows = pa.table({"x": list(range(month * 10, month * 10 + 10))})
            pq.write_table(rows, f"{root}/data/t/month={month}/a b.parquet", filesystem=filesystem)
        place, _, path = root.partition("/tests/")
        plugin = {
            "connection": place,
            "properties": {f'"{key}"': value for key, value in hadoop.items()},
            "workspaces": {"data": {"location": f"/tests/{path}/data"}},
        }
        base = settings()
        given = {
            "iceberg": {
                "location": {"base_path": root, "relative_path": "metastore"},
                "config.properties": {f'"{key}"': value for key, value in base.iceberg.config_properties.items()},
            },
            "storage": {"pond": plugin},
        }
        with (
            LocalEngine(1) as engine,
            connect(Settings.from_mapping({"drill.metastore": given}, environ={}), engine=engine) as session,
        ):
            assert session.analyze("pond.data.t").new == 3
            assert session.analyze("pond.data.t").status == "up to date"
            scan = session.tables.scan("pond.data.t", "x >= 25")
            assert scan.to_arrow().sort_by("x")["x"].to_pylist() == [25, 26, 27, 28, 29]
            kept = session.prune("pond.data.t", "x >= 25").files
            assert [file.path for file in kept] == [f"{root}/data/t/month=2/a b.parquet"]

    def test_expire_and_orphans(
        self, hadoop: dict[str, str], filesystem: pafs.FileSystem, root: str, tmp_path: Path
    ) -> None:
        """Of a catalog's table: what only old snapshots reach goes, then what nothing reaches, and the rows stay."""
        lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{root}/lake", **hadoop}
        quoted = {f'"{key}"': value for key, value in lake.items()}
        location = {"base_path": str(tmp_path), "relative_path": "metastore"}
        given = {"drill.metastore": {"iceberg.location": location, "catalogs": {"lake": quoted}}}
        given["drill.metastore"]["procedures.min_orphan_age"] = "0 seconds"
        with LocalEngine(1) as engine, connect(Settings.from_mapping(given, environ={}), engine=engine) as session:
            catalog = session.catalogs.open("lake")
            catalog.create_namespace("default")
            table = catalog.create_table("default.t", pa.schema([("id", pa.int64())]))
            table.append(pa.table({"id": [1]}))
            table.overwrite(pa.table({"id": [2]}))
            [row] = call(session, "expire_snapshots", older_than=datetime.now(tz=timezone.utc))
            assert (row["deleted_data_files_count"], row["failed_files_count"]) == (1, 0)
            [data] = {path for path in catalog_files(filesystem, root) if path.endswith(".parquet")}
            assert catalog.load_table("default.t").scan().to_arrow()["id"].to_pylist() == [2]
            with filesystem.open_output_stream(f"{data.rpartition('/')[0]}/{STRANGE}") as stream:
                stream.write(b"orphan")
            reached = catalog_files(filesystem, root) - {f"{data.rpartition('/')[0]}/{STRANGE}"}
            [row] = call(session, "remove_orphan_files", older_than=datetime.now(tz=timezone.utc))
            assert row["orphan_file_location"].endswith(STRANGE)
            assert catalog_files(filesystem, root) == reached


def catalog_files(filesystem: pafs.FileSystem, root: str) -> set[str]:
    """All files of the catalog."""
    found = filesystem.get_file_info(pafs.FileSelector(f"{root}/lake", recursive=True))
    return {info.path for info in found if info.is_file}


def call(session: Any, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
    """Rows of the procedure on ``default.t``."""
    rows: list[dict[str, Any]] = session.procedures.call(
        f"lake.system.{procedure}", schema="default", table_name="t", **arguments
    ).to_pylist()
    return rows
