"""Folders that a table format keeps are no plain directories, wherever they stand, and prose is no data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

FORMATS = {
    "Delta": ("_delta_log/00000000000000000000.json", "a storage plugin of type delta"),
    "Hudi": (".hoodie/hoodie.properties", "no door for it yet"),
    "Iceberg": ("metadata/v1.metadata.json", "a catalog of drill.metastore.catalogs"),
    "Iceberg, compressed": ("metadata/00000-3f.gz.metadata.json", "a catalog of drill.metastore.catalogs"),
    "Paimon": ("snapshot/snapshot-1 manifest/manifest-1-0", "no door for it yet"),
}


def session(tmp_path: Path, workspace: str = "", more: str = "") -> Session:
    """A session whose workspace ``dfs.w`` is the folder ``lake``, with the text ``workspace`` in its settings."""
    (tmp_path / "site.conf").write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{tmp_path}/own"\n'
        f'storage.dfs {{ workspaces.w {{ location = "{tmp_path}/lake", {workspace} }}\n{more} }} }}'
    )
    return connect(tmp_path / "site.conf")


def put(tmp_path: Path, files: str, text: str = "{}") -> None:
    """Write ``text`` into each of ``files`` below the lake."""
    for file in files.split():
        path = tmp_path / "lake" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def rows(opened: Session, table: str = "dfs.w.t") -> int:
    """The number of rows that a scan finds, as it counts and as it reads."""
    scan = opened.tables.scan(table)
    assert scan.count() == scan.to_arrow().num_rows
    return scan.count()


@pytest.mark.parametrize("below", ["", "year=2026/", "a/b/"])
@pytest.mark.parametrize("kept", FORMATS)
def test_a_kept_folder_is_refused_with_its_door(tmp_path: Path, kept: str, below: str) -> None:
    """By ANALYZE, and by scans of a table that was a plain directory before; ``all_files`` insists."""
    files, door = FORMATS[kept]
    place = tmp_path / "lake" / "t" / below / "data"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), place / "a.parquet")
    with session(tmp_path) as opened:
        opened.analyze("dfs.w.t")
        for file in files.split():
            put(tmp_path, f"t/{below}{file}")
        for act in (opened.analyze, opened.tables.scan):
            with pytest.raises(InvalidRequestError) as refused:
                act("dfs.w.t")
            said = str(refused.value)
            assert f"{tmp_path}/lake/t/{below}".rstrip("/") in said
            assert f"{kept.partition(',')[0]} table" in said
            assert door in said
            assert "all_files = true" in said
    with session(tmp_path, "all_files = true") as opened:
        if "Iceberg" in kept or kept == "Paimon":  # their metadata is data then, in another format
            with pytest.raises(Exception, match=r"several formats|no readable Parquet file"):
                opened.analyze("dfs.w.t")
        else:
            opened.analyze("dfs.w.t")
            assert rows(opened) == 2


def test_a_large_table_with_a_kept_folder_deep_inside(tmp_path: Path) -> None:
    """A table that is listed by tasks is refused, too, as long as one of its directories is kept."""
    for number in range(70):
        place = tmp_path / "lake" / "t" / f"d{number}"
        place.mkdir(parents=True)
        for file in range(30):
            pq.write_table(pa.table({"id": [1]}), place / f"{file}.parquet")
    with session(tmp_path) as opened:
        assert opened.analyze("dfs.w.t").files == 2100
        put(tmp_path, "t/d65/_delta_log/00000000000000000000.json")
        with pytest.raises(InvalidRequestError, match="t/d65 is a Delta table"):
            opened.analyze("dfs.w.t")


def test_folders_that_only_look_alike(tmp_path: Path) -> None:
    """A folder ``metadata`` of JSON files, one of the two names of Paimon, and a hidden folder are plain."""
    put(tmp_path, "t/metadata/a.json t/snapshot/b.json t/_logs/c.json", '{"id": 1}\n')
    with session(tmp_path) as opened:
        opened.analyze("dfs.w.t")
        assert rows(opened) == 2


def test_a_table_of_pyiceberg(tmp_path: Path) -> None:
    """Its folder as PyIceberg writes it is refused, and its catalog has the rows that are left."""
    (tmp_path / "lake").mkdir()
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    with session(tmp_path) as opened, pytest.raises(InvalidRequestError, match=r"lake/n/t is an Iceberg table"):
        opened.analyze("dfs.w.`n/t`")


@pytest.mark.parametrize("default", ["parquet", "json", "psv"])
def test_the_default_format_is_for_suffixes_that_say_nothing(tmp_path: Path, default: str) -> None:
    """``.csv`` is CSV with a header, whatever the workspace says; files without a suffix are of the default format."""
    put(tmp_path, "t/a.csv", "id,x\n1,2\n")
    bars = 'formats.bars { type = "text", extensions = ["bar"], delimiter = "|" }'
    with session(tmp_path, f"default_format = {default}", bars) as opened:
        opened.analyze("dfs.w.t")
        assert opened.tables.scan("dfs.w.t").to_arrow().to_pylist() == [{"id": 1, "x": 2}]
        put(tmp_path, "t/part-0", "3|4\n")
        with pytest.raises(InvalidRequestError, match="several formats"):
            opened.analyze("dfs.w.t")
    put(tmp_path, "u/part-0 u/b.bar", "3|4\n")
    with session(tmp_path, "default_format = bars", bars) as opened:
        opened.analyze("dfs.w.u")
        assert opened.tables.scan("dfs.w.u").to_arrow()["columns"].to_pylist() == [["3", "4"]] * 2


@pytest.mark.parametrize("prose", ["notes.txt", "NOTES.TXT", "d/load.log", "what.docx"])
def test_prose_beside_data_is_no_data(tmp_path: Path, prose: str) -> None:
    """Its lines are no rows, unless the configuration says that files of this suffix, or of none, are CSV."""
    put(tmp_path, "t/a.csv", "id,x\n1,2\n")
    put(tmp_path, f"t/{prose}", "id,x\n5,6\n")
    suffix = prose.rpartition(".")[2].lower()
    claimed = f'formats.mine {{ type = "text", extensions = ["csv", "{suffix}"], extractHeader = true }}'
    for workspace, more, expected in (("", "", 1), ("default_format = csv", "", 2), ("", claimed, 2)):
        with session(tmp_path, workspace, more) as opened:
            opened.analyze("dfs.w.t")
            assert rows(opened) == expected


def test_texts_alone_are_data_of_the_format_that_is_given(tmp_path: Path) -> None:
    """A table of ``.txt`` files is CSV if ANALYZE says so, as before."""
    put(tmp_path, "t/a.txt t/b.txt", "id,x\n1,2\n")
    with session(tmp_path) as opened:
        opened.analyze("dfs.w.t", format="csv")
        assert rows(opened) == 2
