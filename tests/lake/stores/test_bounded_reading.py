"""Metadata that is far too large: each kind of file and each way to read it refuses it by name, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from metastore.components.metastore import Metastore
from metastore.config.limits import LimitSettings
from metastore.config.settings import Settings
from metastore.errors import ConfigError, FormatError
from metastore.lake.iceberg.catalogs.version_files import HINT
from metastore.lake.iceberg.manifests.avro_blocks import open_blocks
from metastore.lake.iceberg.manifests.avro_file import avro_file
from metastore.lake.stores.arrow_io import BoundedArrowFileIO
from metastore.lake.stores.bounded_reading import (
    Limit,
    ReadLimits,
    gunzip,
    parquet_rows,
    table_metadata,
    unpacked_block,
)
from metastore.lake.stores.local import LocalFileIO
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import connect
from metastore.sources.delta_log import require_bounded_log

MakeUnit = Callable[..., TableMetadataUnit]

MB = 1 << 20
SMALL = LimitSettings(*[MB] * 7)


def settings(folder: Path, **limits: str) -> Settings:
    """A metastore in ``folder`` with these limits."""
    location = {"base_path": str(folder), "relative_path": "metastore"}
    return Settings.from_mapping({"drill.metastore": {"iceberg.location": location, "limits": limits}}, environ={})


@pytest.fixture
def filled(tmp_path: Path, unit: MakeUnit) -> Path:
    """The metadata folder of a metastore with one table."""
    with Metastore.open(settings(tmp_path)) as metastore:
        metastore.tables.modify().overwrite([unit("a")]).execute()
    return tmp_path / "metastore/tables/metadata"


def bomb(folder: Path) -> None:
    """A newer version, compressed, that holds 64 MB of blanks."""
    with gzip.open(folder / "v3.gz.metadata.json", "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(b" " * MB)


def grown(suffix: str) -> Callable[[Path], None]:
    """Makes the file with that end 2 GB long, on paper."""

    def grow(folder: Path) -> None:
        [path] = folder.glob(f"*{suffix}")
        with path.open("r+b") as file:
            file.truncate(2 << 30)

    return grow


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "metadata.json": ("metadata_json", grown("2.metadata.json")),
    "compressed metadata.json": ("metadata_json", bomb),
    "manifest": ("manifest", grown("-m0.avro")),
    "manifest list": ("manifest", lambda folder: grown(next(folder.glob("snap-*.avro")).name)(folder)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_too_large_is_refused(tmp_path: Path, filled: Path, unit: MakeUnit, damage: str) -> None:
    """Reading, writing and expiring name the file and the key, and take less memory than the limit many times over."""
    key, make = DAMAGES[damage]
    make(filled)
    with Metastore.open(settings(tmp_path, **{key: "1 MiB"})) as metastore:
        told = rf"{filled}/.*at most 1,048,576 are read.*drill\.metastore\.limits\.{key} must be raised"
        asked: list[Callable[[], object]] = [
            lambda: metastore.tables.read().metadata_types(MetadataType.ALL).execute(),
            lambda: metastore.tables.modify().overwrite([unit("b")]).execute(),
        ]
        for ask in asked:
            tracemalloc.start()
            with pytest.raises(FormatError, match=told):
                ask()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 16 * MB


def test_a_hint_without_end_is_none(tmp_path: Path, filled: Path) -> None:
    """What is no number is passed over, as always; no more than a few bytes of it are read."""
    with (filled / HINT).open("r+b") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    with Metastore.open(settings(tmp_path)) as metastore:
        assert len(metastore.tables.read().metadata_types(MetadataType.ALL).execute()) == 1
    assert tracemalloc.get_traced_memory()[1] < 16 * MB
    tracemalloc.stop()


@pytest.mark.parametrize("where", ["file", "warehouse", "arrow"])
def test_tables_of_other_catalogs(tmp_path: Path, where: str) -> None:
    """Whichever FileIO reads them; the limit is the configured one, also where the table's properties name another."""
    uri, lake = f"sqlite:///{tmp_path}/lake.db", f"file://{tmp_path}/lake"
    plain = load_catalog("lake", type="sql", uri=uri, warehouse=lake)
    plain.create_namespace("db")
    rows = pa.table({"id": [1]})
    made = plain.create_table("db.t", rows.schema, properties={"metastore.limits.metadata_json": str(1 << 40)})
    made.append(rows)
    given: dict[str, Any] = {"type": "sql", "uri": uri}
    if where != "file":
        given["warehouse"] = lake
    if where == "arrow":
        given["py-io-impl"] = "metastore.lake.stores.arrow_io.BoundedArrowFileIO"
    keys = {"drill.metastore.catalogs.lake": given, "drill.metastore.iceberg.location.base_path": str(tmp_path)}
    newest = Path(plain.load_table("db.t").metadata_location.removeprefix("file://"))
    content = newest.read_bytes()
    newest.write_bytes(content[:-1] + b" " * (2 * MB) + content[-1:])
    for limit, is_read in (("1 MiB", False), ("4 MiB", True)):
        with connect(Settings.from_mapping({**keys, "drill.metastore.limits.metadata_json": limit}, environ={})) as ms:
            if is_read:
                table = ms.catalogs.table("lake", "db", "t").load()
                assert ReadLimits.of(table.io.properties).settings == ms.settings.limits
                assert table.scan().to_arrow().num_rows == 1
            else:
                with pytest.raises(FormatError, match=rf"{newest.name} .*limits\.metadata_json must be raised"):
                    ms.catalogs.table("lake", "db", "t").load()


def test_pyiceberg_itself_is_bounded(filled: Path) -> None:
    """Its own door to a compressed file of metadata: PyIceberg has no bound, so its function is replaced."""
    with gzip.open(filled / "v3.gz.metadata.json", "wb", compresslevel=1) as file:
        for _ in range(129):
            file.write(b" " * MB)
    with pytest.raises(FormatError, match=r"holds more than 134,217,728 bytes, compressed"):
        StaticTable.from_metadata(f"{filled}/v3.gz.metadata.json")


class TestUncompressing:
    @given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(0, 900))
    def test_members_of_gzip(self, members: list[bytes], most: int) -> None:
        """Any number of them: the content as gzip has it, or a refusal where that is more than the limit."""
        packed, plain = b"".join(map(gzip.compress, members)), b"".join(members)
        limit = Limit("backup", most)
        if len(plain) <= most:
            assert gunzip(packed, "x", limit) == plain == gzip.decompress(packed)
        else:
            with pytest.raises(FormatError, match=r"x holds more than"):
                gunzip(packed, "x", limit)

    @given(st.binary(min_size=20, max_size=300), st.data())
    def test_a_cut_gzip_file(self, plain: bytes, data: st.DataObject) -> None:
        """Never a part of the content."""
        packed = gzip.compress(plain)
        cut = data.draw(st.integers(1, len(packed) - 1))
        with pytest.raises((EOFError, zlib.error)):
            gunzip(packed[:cut], "x", Limit("backup", 10_000))

    @pytest.mark.parametrize("name", ["deflate", "bzip2", "zstandard", "snappy"])
    def test_blocks_of_avro(self, name: str) -> None:
        """As PyIceberg's codecs have them, up to the limit and not beyond it."""
        from pyiceberg.avro.codecs import KNOWN_CODECS  # noqa: PLC0415 - with what this package replaces in it

        codec: Any = KNOWN_CODECS[name]  # type: ignore[index] # one of its names
        plain = b"abc" * 1000
        if name == "bzip2":
            packed = bz2.compress(plain)
        else:
            try:
                packed = codec.compress(plain)[0]
            except ImportError:
                return
        assert unpacked_block(codec, packed, 3000) == codec.decompress(packed) == plain
        with pytest.raises(ValueError, match=r"more than 2,999 bytes"):
            unpacked_block(codec, packed, 2999)

    def test_the_blocks_of_a_file(self) -> None:
        """All of them together count."""
        schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "string", "field-id": 1}]})
        file = avro_file(schema, {}, [b"\x02a"] * 100)
        with pytest.raises(ValueError, match="more than 199 bytes"):
            list(open_blocks(file, 199)[1])
        assert len(list(open_blocks(file, 200)[1])) == 1

    def test_lists_in_parquet(self, tmp_path: Path) -> None:
        """A few bytes may stand for many rows of the same value."""
        pq.write_table(pa.table({"a": ["x" * 50] * 500_000}), tmp_path / "list.parquet")
        assert (tmp_path / "list.parquet").stat().st_size < 100_000
        limit = Limit("file_list", 100_000)
        with (
            pa.OSFile(str(tmp_path / "list.parquet"), "rb") as file,
            pytest.raises(FormatError, match=r"limits\.file_list must be raised"),
        ):
            parquet_rows(file, "list.parquet", limit)


@pytest.mark.parametrize("make", [LocalFileIO, BoundedArrowFileIO])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x.metadata.json", "metadata_json"),
        ("x.gz.metadata.json", "metadata_json"),
        ("x.metadata.json.gz", "metadata_json"),
        ("x.avro", "manifest"),
        ("x.puffin", "puffin"),
        ("x.stats", "puffin"),
        ("x.quarantine.parquet", "file_list"),
    ],
)
def test_each_kind_of_file(tmp_path: Path, make: Any, name: str, key: str) -> None:
    """By the end of its name, as it is opened; data files have no limit."""
    file_io = make({f"metastore.limits.{key}": "1000"})
    for name_, size, is_read in ((name, 1000, True), (name, 1001, False), ("x.parquet", 1001, True)):
        (tmp_path / name_).write_bytes(b"x" * size)
        file = file_io.new_input(f"{tmp_path}/{name_}")
        if is_read:
            with file.open() as stream:
                assert len(stream.read()) == size
        else:
            with pytest.raises(FormatError, match=rf"{name} has 1,001 bytes.*limits\.{key} must"):
                file.open()


def test_the_log_of_a_delta_table(tmp_path: Path) -> None:
    """What counts is the newest checkpoint and what came after it."""
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    for version, size in ((0, 5000), (1, 400), (2, 300)):
        (log / f"{version:020}.json").write_bytes(b"x" * size)
    limit = Limit("delta_log", 1000)
    with pytest.raises(FormatError, match=r"_delta_log has 5,700 bytes.*limits\.delta_log must be raised"):
        require_bounded_log(f"{tmp_path}/t", None, limit)
    (log / f"{0:020}.checkpoint.parquet").write_bytes(b"x" * 300)
    require_bounded_log(f"{tmp_path}/t", None, limit)
    (log / f"{1:020}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"x" * 800)
    with pytest.raises(FormatError, match="1,100 bytes"):
        require_bounded_log(f"{tmp_path}/t", None, limit)


def test_a_view_file_of_drill(tmp_path: Path) -> None:
    """It is refused before it is read."""
    plugin = {"connection": "file:///", "workspaces.w": {"location": str(tmp_path), "writable": True}}
    keys = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path),
        "drill.metastore.storage.dfs": plugin,
        "drill.metastore.limits.view_file": "1 kB",
    }
    (tmp_path / "v.view.drill").write_bytes(b" " * 1001)
    with connect(Settings.from_mapping(keys, environ={})) as ms, pytest.raises(FormatError, match=r"limits\.view_file"):
        ms.views.from_drill_file("dfs.w.v")


@pytest.mark.parametrize("size", ["0", "-1", "many"])
def test_a_limit_is_a_size(tmp_path: Path, size: str) -> None:
    """Anything else is refused by its key."""
    with pytest.raises(ConfigError, match=r"drill\.metastore\.limits\.manifest"):
        settings(tmp_path, manifest=size)


def test_limits_travel_as_properties() -> None:
    """To FileIOs, and with them to other processes; the defaults where there are none."""
    assert ReadLimits.of(SMALL.properties).settings == SMALL
    assert ReadLimits.of({}).settings == LimitSettings()
    assert ReadLimits.of(PyArrowFileIO().properties) == ReadLimits()


def test_a_long_history_is_parsed_once_for_its_content(tmp_path: Path) -> None:
    """Other content under the same name is other metadata; the same content is read, but not parsed again."""
    file = tmp_path / "v1.metadata.json"

    def read(note: str) -> Any:
        properties = {"padding": "x" * MB, "note": note}
        made = new_table_metadata(
            Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t", properties, UUID(int=1)
        )
        file.write_text(made.model_dump_json(by_alias=True), encoding="utf-8")
        return table_metadata(LocalFileIO().new_input(str(file)))

    first, other = read("a"), read("b")
    assert (first.properties["note"], other.properties["note"]) == ("a", "b")
    assert table_metadata(LocalFileIO().new_input(str(file))) is other
