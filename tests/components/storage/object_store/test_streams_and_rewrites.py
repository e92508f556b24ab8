"""Large objects are written in parts and read in ranges; rewrites work on them, their tasks in other processes too."""

from __future__ import annotations

from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from obstore.store import ObjectStore

from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.lake.stores.files import open_ranges, open_stream
from metastore.lake.stores.objects.object_store_io import ObjectFileIO
from metastore.session import connect

MEGABYTE = 1 << 20


@pytest.fixture
def files(pyiceberg_properties: dict[str, str]) -> ObjectFileIO:
    """Files of the server."""
    return ObjectFileIO(pyiceberg_properties)


@pytest.mark.parametrize("kind", ["s3", pytest.param("azure", marks=pytest.mark.azure)], indirect=True)
def test_a_stream_becomes_an_object_when_it_is_closed(files: ObjectFileIO, root: str) -> None:
    """In parts; before that there is none. The server for GCS knows no parts."""
    location = f"{root}/large"
    content = bytes(range(256)) * (MEGABYTE // 256)
    with open_stream(files, location) as stream:
        for _ in range(20):
            stream.write(content)
        assert stream.tell() == 20 * MEGABYTE
        assert not files.new_input(location).exists()
    assert len(files.new_input(location)) == 20 * MEGABYTE
    with open_ranges(files, location) as found:
        found.seek(19 * MEGABYTE)
        assert found.read(256) == bytes(range(256))


def test_a_rewrite_reads_and_writes_an_object_store(
    pyiceberg_properties: dict[str, str], root: str, bucket: ObjectStore, tmp_path: Path
) -> None:
    """With what a task needs to open the store pickled; the rows are the same."""
    quoted = {f'"{key}"': value for key, value in pyiceberg_properties.items()}
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": root}
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    settings = Settings.from_mapping(
        {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": {**lake, **quoted}}, environ={}
    )
    with LocalEngine(2) as engine, connect(settings, engine=engine) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        rows = pa.table({"id": list(range(2000)), "city": ["Rome"] * 2000})
        table = catalog.create_table("default.t", rows.schema)
        for number in range(4):
            table.append(rows.slice(number * 500, 500))
        size = sum(task.file.file_size_in_bytes for task in table.scan().plan_files())
        options = {"target-file-size-bytes": str(size // 8), "min-file-size-bytes": "1", "rewrite-all": "true"}
        [row] = session.procedures.call(
            "lake.system.rewrite_data_files",
            schema="default",
            table_name="t",
            options=options,
            sorted_by=["id DESC"],
        ).to_pylist()
        assert row["rewritten_data_files_count"] == 4
        assert row["added_data_files_count"] > 4
        fresh = catalog.load_table("default.t")
        assert fresh.scan().to_arrow().sort_by("id").equals(table.scan().to_arrow().sort_by("id"))
        named = {task.file.file_path for task in fresh.scan().plan_files()}
        stored = {entry["path"] for chunk in obstore.list(bucket) for entry in chunk}
        assert {path.removeprefix(f"{root}/") for path in named} <= stored
